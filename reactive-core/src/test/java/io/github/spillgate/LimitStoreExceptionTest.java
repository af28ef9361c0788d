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
    void eachExceptionHasAKindOfItsOwn() {
        List<Throwable> errors = List.of(
                new LimitStoreUnavailableException("", null),
                new LimitStoreUnreachableException("", null),
                new LimitStoreUnansweredException("", null),
                new LimitStoreDeadlineException(""),
                new LimitStoreRefusedException("", null),
                new ForeignValueException("", null),
                new LimitStoreException("", null),
                new IllegalStateException());
        assertThat(errors).extracting(Kind::of).containsExactly(Kind.values());
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

    /** An exception for one of these must not be caught as another one. */
    @Test
    void noExceptionOfAStoreIsASubtypeOfAnother() {
        assertThat(Stream.of(
                                LimitStoreUnavailableException.class,
                                LimitStoreUnreachableException.class,
                                LimitStoreUnansweredException.class,
                                LimitStoreDeadlineException.class,
                                LimitStoreRefusedException.class,
                                ForeignValueException.class)
                        .map(Class::getSuperclass))
                .allMatch(LimitStoreException.class::equals);
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
