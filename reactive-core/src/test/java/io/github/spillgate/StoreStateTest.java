package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.StoreState.LeaseStatistics;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** A state that a store of the user reports. */
class StoreStateTest {

    @Test
    void valuesThatAreMissingAreReportedWhereTheyAreMissing() {
        assertMissing("source", () -> state(null, Breaker.NONE, Optional.empty(), LeaseStatistics.NONE));
        assertMissing("breaker", () -> state(Source.OTHER, null, Optional.empty(), LeaseStatistics.NONE));
        assertMissing("problem", () -> state(Source.OTHER, Breaker.NONE, null, LeaseStatistics.NONE));
        assertMissing("leases", () -> state(Source.OTHER, Breaker.NONE, Optional.empty(), null));
    }

    private static void assertMissing(String what, Runnable creation) {
        assertThatNullPointerException()
                .isThrownBy(creation::run)
                .withMessageStartingWith(what)
                .withMessageContaining("for example");
    }

    @SuppressWarnings({"NullAway", "NullableOptional"}) // passes the nulls that are tested
    private static StoreState state(
            @Nullable Source source,
            @Nullable Breaker breaker,
            @Nullable Optional<String> problem,
            @Nullable LeaseStatistics leases) {
        return new StoreState(source, breaker, false, problem, 0, 0, 0, 0, 0, 0, 0, leases);
    }
}
