package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.internal.SharedFailure;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.time.InstantSource;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Hooks;

/** The gate omits calls from the breaker's window only where they make no difference. */
class CircuitGateTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    @Test
    void aTimeBasedWindowCountsEveryCall() {
        CircuitGate gate = gate(how -> how.slidingWindow(60, 10, SlidingWindowType.TIME_BASED));
        // Successes outside the window must not count.
        answered(gate, 100, 0);
        time.pass(Duration.ofSeconds(60));
        answered(gate, 30, 0);
        failed(gate, 10);
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
        time.pass(Duration.ofSeconds(60));
        failed(gate, 10);
        assertThat(gate.state()).isEqualTo(Breaker.OPEN);
    }

    @Test
    void slowRepliesLeaveTheWindow() {
        CircuitGate gate = gate(
                how -> how.slowCallDurationThreshold(Duration.ofNanos(1_000)).slowCallRateThreshold(50));
        for (int i = 0; i < 3; i++) {
            answered(gate, 100, 0);
            answered(gate, 9, 2_000);
            assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
        }
    }

    @Test
    void probesAreNotCountedInTheClosedWindow() {
        CircuitGate gate =
                gate(how -> how.permittedNumberOfCallsInHalfOpenState(20).failureRateThreshold(46));
        openAndWait(gate);
        probe(gate, 20);
        answered(gate, 20, 0);
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
        answered(gate, 100, 0);
        failed(gate, 9);
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
    }

    /** As many successes as the window has do not close it if the user asks for more. */
    @Test
    void aHalfOpenBreakerGetsTheResultOfEachProbe() {
        CircuitGate gate =
                gate(how -> how.permittedNumberOfCallsInHalfOpenState(40).minimumNumberOfCalls(40));
        openAndWait(gate);
        probe(gate, 40);
        answered(gate, 40, 0);
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void aProbeThatTurnsBackFreesItsPermissionForOthers() {
        CircuitGate gate = gate(UnaryOperator.identity());
        openAndWait(gate);
        for (int i = 0; i < 10; i++) {
            assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
            gate.releaseWithoutResult(CircuitGate.Passage.PROBE);
        }
        probe(gate, 3);
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.OPEN);
    }

    @Test
    void probesThatFindForeignValuesCloseTheBreaker() {
        CircuitGate gate = gate(UnaryOperator.identity());
        openAndWait(gate);
        for (int i = 0; i < 3; i++) {
            assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
            gate.recordFailure(0, new LimitStoreException(Kind.FOREIGN_VALUE, "the value under a key is not ours"));
        }
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void theStoreIsProbedAfterTheBreakerHasThrown() {
        AtomicBoolean isBroken = new AtomicBoolean();
        InstantSource clock = () -> {
            if (isBroken.get()) {
                throw new IllegalStateException("broken");
            }
            return time.instant();
        };
        CircuitGate gate = gate(settings -> settings.clock(clock.withZone(ZoneOffset.UTC)));
        openAndWait(gate);
        isBroken.set(true);
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.FAILED);
        isBroken.set(false);
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
    }

    /** To become half open, the breaker takes a lock, for which event loops must not wait. */
    @Test
    void oneThreadAtATimeAsksAnOpenBreaker() {
        AtomicReference<Runnable> whileAsked = new AtomicReference<>(() -> {});
        InstantSource clock = () -> {
            whileAsked.getAndSet(() -> {}).run();
            return time.instant();
        };
        CircuitGate gate = gate(settings -> settings.clock(clock.withZone(ZoneOffset.UTC)));
        openAndWait(gate);
        List<CircuitGate.Passage> others = new ArrayList<>();
        whileAsked.set(
                () -> others.add(CompletableFuture.supplyAsync(gate::pass).join()));
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
        assertThat(others).containsExactly(CircuitGate.Passage.OPEN);
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
    }

    /** A breaker stays closed yet refuses calls if its settings throw while it opens. */
    @Test
    void aCallRefusedByAClosedBreakerFreesItsPlace() {
        CircuitGate gate = gate(how -> how.waitIntervalFunctionInOpenState(attempt -> {
            throw new IllegalStateException("broken");
        }));
        List<String> dropped = new ArrayList<>();
        Hooks.onErrorDropped(error -> dropped.add(error.getMessage()));
        try {
            failed(gate, 10);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(dropped).containsExactly("broken");
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
        assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.OPEN);
        assertThat(gate.freeCapacity()).isEqualTo(100);
    }

    @Test
    void failuresThatShareTheirCauseCountAsOneForEachGate() {
        CircuitGate gate = gate(settings -> settings);
        CircuitGate ofAnotherLimiter = gate(settings -> settings);
        List<LostForTests> lost = Stream.generate(LostForTests::new).limit(9).toList();
        // Of several at the same time.
        for (int request = 0; request < 50; request++) {
            lost.forEach(cause -> gate.recordFailure(0, unanswered(cause)));
        }
        assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
        lost.forEach(cause -> ofAnotherLimiter.recordFailure(0, unanswered(cause)));
        for (CircuitGate each : List.of(gate, ofAnotherLimiter)) {
            each.recordFailure(0, unanswered(new LostForTests()));
            assertThat(each.state()).isEqualTo(Breaker.OPEN);
        }
    }

    /** A store of a user may create its exceptions once. */
    @Test
    void failuresWithTheSameExceptionAreCountedEach() {
        CircuitGate gate = gate(settings -> settings);
        Throwable error = unanswered(new CancellationException());
        for (int request = 0; request < 10; request++) {
            assertThat(gate.state()).isEqualTo(Breaker.CLOSED);
            gate.recordFailure(0, error);
        }
        assertThat(gate.state()).isEqualTo(Breaker.OPEN);
    }

    private static LimitStoreException unanswered(Throwable cause) {
        return new LimitStoreException(Kind.UNANSWERED, "no reply", cause);
    }

    private static final class LostForTests extends RuntimeException implements SharedFailure {

        private static final long serialVersionUID = 1L;

        private final transient Set<Object> observers = new HashSet<>();

        @Override
        public boolean isFirstFor(Object observer) {
            return observers.add(observer);
        }
    }

    private static CircuitGate gate(UnaryOperator<CircuitBreakerConfig.Builder> change) {
        return new CircuitGate("the store", "the fallback", 100, 100_000_000, change, () -> {});
    }

    private static void answered(CircuitGate gate, int times, long nanos) {
        for (int i = 0; i < times; i++) {
            gate.recordReply(nanos);
        }
    }

    /** Opens the breaker, and waits until it permits probes. */
    private void openAndWait(CircuitGate gate) {
        failed(gate, 20);
        assertThat(gate.state()).isEqualTo(Breaker.OPEN);
        time.pass(Duration.ofSeconds(2));
    }

    private static void probe(CircuitGate gate, int times) {
        for (int i = 0; i < times; i++) {
            assertThat(gate.pass()).isEqualTo(CircuitGate.Passage.PROBE);
        }
    }

    private static void failed(CircuitGate gate, int times) {
        for (int i = 0; i < times; i++) {
            gate.recordFailure(0, new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
        }
    }
}
