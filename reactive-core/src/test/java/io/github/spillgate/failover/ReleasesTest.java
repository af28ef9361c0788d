package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** The releases of which the primary store could not be told: how long they wait, and how many of them. */
class ReleasesTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final FailingStore store = new FailingStore(LocalStore.bounded(100, time));
    private final CircuitGates gates =
            new CircuitGates(store, Fallback.deny(), 10, 100_000_000, UnaryOperator.identity());
    private final Releases queue = new Releases(store, gates);
    private final RateLimiter limiter = RateLimiter.builder("test")
            .store(store)
            .limit(Limit.concurrent(1_000))
            .build();
    private final Claim claim = DecidedClaims.of(limiter.peek("a").block()).get(0);

    @Test
    void releasesAreDeliveredWhenTheStoreIsBack() {
        List<Claim> holds = holds(300);
        store.hold(holds, HoldAction.RENEW).block();
        store.fails = true;
        queue.add(holds);
        queue.add(holds);
        assertThat(queue.size()).isEqualTo(300);
        time.pass(Duration.ofSeconds(10));
        assertThat(queue.size()).isEqualTo(300);
        assertThat(used()).isEqualTo(300);
        store.fails = false;
        time.pass(Duration.ofSeconds(5));
        assertThat(queue.size()).isZero();
        assertThat(used()).isZero();
    }

    @Test
    void releasesAreDroppedWhenTheHoldsHaveExpired() {
        store.fails = true;
        queue.add(holds(3));
        time.pass(Duration.ofSeconds(59));
        assertThat(queue.size()).isEqualTo(3);
        time.pass(Duration.ofSeconds(2));
        assertThat(queue.size()).isZero();
        int calls = store.calls;
        time.pass(Duration.ofMinutes(1));
        assertThat(store.calls).isEqualTo(calls);
    }

    @Test
    void anOpenBreakerIsProbedByReleases() {
        List<Claim> holds = holds(3);
        store.hold(holds, HoldAction.RENEW).block();
        gates.whole().recordFailure(0, new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
        assertThat(gates.whole().isOpen()).isTrue();
        queue.add(holds);
        time.pass(Duration.ofSeconds(5));
        assertThat(queue.size()).isZero();
        assertThat(used()).isZero();
        assertThat(gates.whole().isOpen()).isFalse();
    }

    /** It says nothing about decisions. */
    @Test
    void aRefusedReleaseDoesNotOpenTheBreaker() {
        store.fails = true;
        store.error = new LimitStoreException(Kind.REFUSED, "no permission");
        queue.add(holds(3));
        time.pass(Duration.ofSeconds(40));
        assertThat(store.calls).isGreaterThan(30);
        assertThat(gates.whole().isOpen()).isFalse();
    }

    @Test
    void aStoreThatCannotNameItsNodeIsAskedAgain() {
        List<Claim> holds = holds(3);
        store.hold(holds, HoldAction.RENEW).block();
        store.namesNoNode = true;
        queue.add(holds);
        time.pass(Duration.ofSeconds(3));
        store.namesNoNode = false;
        time.pass(Duration.ofSeconds(2));
        assertThat(queue.size()).isZero();
        assertThat(used()).isZero();
    }

    /** The store may be closed by then, and a hold may last for a day. */
    @Test
    void theEndIsTheLastAttempt() {
        store.fails = true;
        queue.add(holds(3));
        time.pass(Duration.ZERO);
        assertThat(store.calls).isEqualTo(1);
        queue.end();
        time.pass(Duration.ZERO);
        assertThat(store.calls).as("without a subscriber").isEqualTo(2);
        queue.end().block();
        queue.add(holds(3));
        time.pass(Duration.ofSeconds(10));
        assertThat(store.calls).isEqualTo(2);
    }

    @Test
    void theirNumberIsBounded() {
        store.fails = true;
        queue.add(holds(Releases.MOST + 10));
        assertThat(queue.size()).isEqualTo(Releases.MOST);
    }

    private List<Claim> holds(int number) {
        return IntStream.range(0, number)
                .mapToObj(i -> claim.withHoldId(new UUID(1, i)))
                .toList();
    }

    private long used() {
        return limiter.peek("a").block().limits().get(0).used();
    }

    private static final class FailingStore extends Unprotected {

        private boolean fails;
        private Throwable error = new LimitStoreException(Kind.UNAVAILABLE, "told to fail");
        private boolean namesNoNode;
        private int calls;

        FailingStore(LocalStore store) {
            super(store);
        }

        @Override
        public String node(List<Claim> claims) {
            if (namesNoNode) {
                throw new IllegalStateException("told to fail");
            }
            return super.node(claims);
        }

        @Override
        public Mono<Void> release(List<Claim> holds) {
            calls++;
            return fails ? Mono.error(error) : super.release(holds);
        }
    }
}
