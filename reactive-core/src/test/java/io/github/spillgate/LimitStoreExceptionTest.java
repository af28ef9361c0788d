package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What the failure of a store means. */
class LimitStoreExceptionTest {

    @Test
    void anErrorOfAnotherTypeIsUnknown() {
        assertThat(Kind.of(new IllegalStateException())).isEqualTo(Kind.UNKNOWN);
        assertThat(Kind.UNKNOWN.isOf(new IllegalStateException())).isTrue();
        assertThat(Kind.LATE.isOf(new LimitStoreException(Kind.LATE, ""))).isTrue();
        assertThat(Kind.LATE.isOf(new LimitStoreException(Kind.REFUSED, ""))).isFalse();
    }

    @Test
    void aKindSaysWhatAFailureMeans() {
        assertThat(Stream.of(Kind.values()).map(LimitStoreExceptionTest::meaningOf))
                .containsExactly(
                        "UNAVAILABLE [outage]",
                        "UNREACHABLE [outage, lasting]",
                        "UNANSWERED [may be executed, outage, unexplained]",
                        "LATE [outage, unexplained]",
                        "REFUSED [may be executed, lasting]",
                        "FOREIGN_VALUE [may be executed, final]",
                        "REJECTED [may be executed, final]",
                        "UNKNOWN [may be executed]");
    }

    private static String meaningOf(Kind kind) {
        List<String> meaning = new ArrayList<>();
        if (kind.mayBeExecuted()) {
            meaning.add("may be executed");
        }
        if (kind.isOutage()) {
            meaning.add("outage");
        }
        if (kind.isLasting()) {
            meaning.add("lasting");
        }
        if (kind.isFinal()) {
            meaning.add("final");
        }
        if (kind.isUnexplained()) {
            meaning.add("unexplained");
        }
        return kind + " " + meaning;
    }
}
