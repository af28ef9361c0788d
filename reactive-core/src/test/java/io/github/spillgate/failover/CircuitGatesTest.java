package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The reported state of a store with nodes that fail separately, and the lifetime of a node's gate. */
class CircuitGatesTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final LimitStore store = new Unprotected(LocalStore.bounded(16)) {
        @Override
        public String toString() {
            return "the store";
        }
    };
    private final CircuitGates gates =
            new CircuitGates(store, LocalStore.bounded(16), 100, 100_000_000, UnaryOperator.identity());

    @Test
    void aStoreWithoutPartsHasOneGate() {
        assertThat(gates.to(List.of())).isSameAs(gates.whole());
        assertThat(gates.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gates.isAnyDeciding()).isTrue();
        makeUnreachable(gates.whole(), "gone");
        assertThat(gates.state()).isEqualTo(Breaker.OPEN);
        assertThat(gates.problem()).isEqualTo("gone");
        assertThat(gates.isAnyDeciding()).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"a b", "b a"})
    void theWorstPartDeterminesStateAndProblem(String names) {
        CircuitGate failing = gates.to(names.substring(0, 1));
        CircuitGate unreachable = gates.to(names.substring(2));
        assertThat(unreachable).isNotSameAs(failing);
        assertThat(gates.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gates.problem()).isNull();
        failing.recordFailure(0, new LimitStoreException(Kind.UNAVAILABLE, "replies are slow"));
        assertThat(gates.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gates.problem()).isEqualTo("replies are slow");
        makeUnreachable(unreachable, "connection refused");
        assertThat(gates.state()).isEqualTo(Breaker.OPEN);
        assertThat(gates.problem()).isEqualTo("connection refused");
        assertThat(gates.isAnyDeciding()).as("one part decides").isTrue();
        makeUnreachable(failing, "connection refused, too");
        assertThat(gates.isAnyDeciding()).isFalse();
    }

    @Test
    void aPartUnusedForMoreThanTenSecondsIsForgotten() {
        CircuitGate gate = gates.to("a");
        makeUnreachable(gate, "gone");
        for (int i = 0; i < 3; i++) {
            time.pass(Duration.ofSeconds(10));
            assertThat(gates.to("a")).isSameAs(gate);
        }
        time.pass(Duration.ofSeconds(10).plusNanos(1));
        CircuitGate another = gates.to("a");
        assertThat(another).isNotSameAs(gate);
        assertThat(gates.to("a")).isSameAs(another);
        assertThat(gates.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gates.problem()).isNull();
    }

    @Test
    void anUnusedPartIsNotReportedWhileOthersAreUsed() {
        makeUnreachable(gates.to("gone"), "gone");
        gates.to("asked");
        time.pass(Duration.ofSeconds(6));
        gates.to("asked");
        assertThat(gates.state()).isEqualTo(Breaker.OPEN);
        time.pass(Duration.ofSeconds(6));
        assertThat(gates.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gates.problem()).isNull();
    }

    @Test
    void theLastStateIsReportedIfNoPartIsUsed() {
        makeUnreachable(gates.to("a"), "gone");
        time.pass(Duration.ofMinutes(5));
        assertThat(gates.state()).isEqualTo(Breaker.OPEN);
        assertThat(gates.problem()).isEqualTo("gone");
    }

    @Test
    void partsBeyondAThousandShareOneGateUntilOthersAreForgotten() {
        for (int i = 0; i < 1_000; i++) {
            assertThat(gates.to("part-" + i)).isNotSameAs(gates.whole());
        }
        assertThat(gates.to("one more")).isSameAs(gates.whole());
        time.pass(Duration.ofSeconds(11));
        assertThat(gates.to("one more")).isNotSameAs(gates.whole());
    }

    private static void makeUnreachable(CircuitGate gate, String message) {
        gate.recordFailure(0, new LimitStoreException(Kind.UNREACHABLE, message));
    }
}
