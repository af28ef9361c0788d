package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.StoreState.LeaseStatistics;
import java.util.List;
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

    /** Stores of users pass them in this order, and the compiler does not notice if two numbers change places. */
    @Test
    void theValuesArePassedInTheirOrder() {
        LeaseStatistics leases = new LeaseStatistics(8, 9, 10, 11, 12);
        StoreState state =
                new StoreState(Source.OTHER, Breaker.OPEN, true, Optional.of("gone"), 1, 2, 3, 4, 5, 6, 7, leases);
        assertThat(state.source()).isEqualTo(Source.OTHER);
        assertThat(state.breaker()).isEqualTo(Breaker.OPEN);
        assertThat(state.isFallbackActive()).isTrue();
        assertThat(state.problem()).contains("gone");
        assertThat(List.of(state.fallbacks(), state.missedDeadlines())).containsExactly(1L, 2L);
        assertThat(List.of(state.toReconcile(), state.reconciled(), state.lost(), state.unknown()))
                .containsExactly(3L, 4L, 5L, 6L);
        assertThat(state.lostSettlements()).isEqualTo(7);
        assertThat(state.leases()).isSameAs(leases);
        assertThat(List.of(leases.decisions(), leases.blocks(), leases.permits(), leases.refunded(), leases.denied()))
                .containsExactly(8L, 9L, 10L, 11L, 12L);
        assertThat(StoreState.ofFallback(Source.LOCAL, 3, 4, 5))
                .isEqualTo(new StoreState(
                        Source.LOCAL,
                        Breaker.NONE,
                        false,
                        Optional.empty(),
                        0,
                        0,
                        3,
                        4,
                        5,
                        0,
                        0,
                        LeaseStatistics.NONE));
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
