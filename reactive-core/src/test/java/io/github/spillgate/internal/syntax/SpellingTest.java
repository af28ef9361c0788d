package io.github.spillgate.internal.syntax;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SpellingTest {

    private static final List<String> NAMES = List.of(
            "name", "paths", "methods", "limits", "limits-from", "when-missing", "phase", "GET", "PUT", "spillgate");

    @ParameterizedTest
    @CsvSource({
        "path, paths",
        "limit, limits",
        "limitsform, limits-from",
        "whenMising, when-missing",
        "when_missing, when-missing",
        "GETT, GET",
        "get, GET",
        "gte, GET",
        "spilgate, spillgate",
        "spligate, spillgate"
    })
    void theNearestNameIsFound(String misspelt, String meant) {
        assertThat(Spelling.nearest(misspelt, NAMES)).contains(meant);
    }

    @ParameterizedTest
    @CsvSource({"tailgate", "colour", "x", "''", "GETTTT", "floodgate"})
    void aNameFarFromAllHasNoNearest(String other) {
        assertThat(Spelling.nearest(other, NAMES)).isEmpty();
    }

    @Test
    void aLongTextIsNotCompared() {
        assertThat(Spelling.nearest("x".repeat(1_000_000), NAMES)).isEmpty();
    }
}
