package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.awaitility.Awaitility.await;

import com.github.benmanes.caffeine.cache.Policy;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.count.Count;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.scheduler.Schedulers;

/** What the contract cannot ask of every store: the bound, and what happens at it. */
class LocalStoreTest {

    private final ManualClock clock = new ManualClock();

    @Test
    void theShareIsReturnedAsItWasSet() {
        assertThat(LocalStore.bounded(100).share()).isEqualTo(1);
        assertThat(LocalStore.bounded(100).share(0.25).share()).isEqualTo(0.25);
    }

    @Test
    void theNumberOfCountsIsBounded() {
        LocalStore store = LocalStore.bounded(100, clock);
        RateLimiter limiter = limiter(store, Limit.perHour(1));
        Flux.range(0, 10_000).concatMap(i -> limiter.tryAcquire("key-" + i)).blockLast();
        assertThat(remembered(store)).isLessThanOrEqualTo(100);
        long denied = Flux.range(0, 10_000)
                .concatMap(i -> limiter.peek("key-" + i))
                .filter(decision -> !decision.isAllowed())
                .count()
                .block();
        assertThat(denied).isBetween(1L, 100L);
    }

    /** The example in docs/limits.md. */
    @Test
    void theWaitOfACounterIsExactAlthoughLongerThanItsWindow() {
        RateLimiter limiter =
                limiter(LocalStore.bounded(100, clock), Limit.perDay(100).counter());
        assertThat(limiter.tryAcquire(Charge.of("a", 100)).block().isAllowed()).isTrue();
        assertThat(limiter.tryAcquire(Charge.of("a", 100)).block().retryAfter()).hasValue(Duration.ofDays(2));
        Duration wait = Duration.parse("PT24H14M24S");
        assertThat(limiter.tryAcquire("a").block().retryAfter()).hasValue(wait);
        clock.advance(wait.minusMillis(1));
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isFalse();
        clock.advanceMillis(1);
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isTrue();
    }

    @Test
    void aPeekStoresNothing() {
        LocalStore store = LocalStore.bounded(100, clock);
        limiter(store, Limit.perHour(1)).peek("a").block();
        assertThat(remembered(store)).isZero();
    }

    @Test
    void onlyCountsOfViolatedLimitsAreProtected() {
        LocalStore store = LocalStore.bounded(100, clock);
        RateLimiter one = limiter(store, Limit.perHour(1));
        one.tryAcquire("a").block();
        assertThat(store.counts().denied().size()).isZero();
        one.tryAcquire("a").block();
        assertThat(store.counts().denied().size()).isEqualTo(1);

        RateLimiter several = RateLimiter.builder("several")
                .store(store)
                .limit(Limit.perHour(100))
                .limit(Limit.perMinute(1))
                .limit(Limit.perSecond(1))
                .build();
        several.tryAcquire("a").block();
        assertThat(store.counts().denied().size()).isEqualTo(1);
        several.tryAcquire("a").block();
        assertThat(store.counts().denied().size()).isEqualTo(3);
    }

    /** By denials, or by a call. */
    @Test
    void aBanIsProtectedBeforeItDenies() {
        LocalStore store = LocalStore.bounded(64, clock);
        RateLimiter limiter = RateLimiter.builder("login")
                .store(store)
                .limit(Limit.perMinute(1))
                .limit(Limit.ban(Duration.ofHours(1), 1, Duration.ofMinutes(1)))
                .build();
        limiter.tryAcquire("denied").block();
        limiter.tryAcquire("denied").block();
        limiter.ban("called", Duration.ofHours(1)).block();
        clock.advance(Duration.ofMinutes(2));
        Flux.range(0, 10_000).concatMap(i -> limiter.tryAcquire("key-" + i)).blockLast();
        assertThat(limiter.peek("denied").block().isAllowed()).isFalse();
        assertThat(limiter.peek("called").block().isAllowed()).isFalse();
    }

    @Test
    void aDeniedCountIsProtectedUntilItsResetTime() {
        LocalStore store = LocalStore.bounded(64, clock);
        RateLimiter limiter = limiter(store, Limit.of(1, Duration.ofSeconds(5)));
        for (int i = 0; i < 16; i++) {
            limiter.tryAcquire("key-" + i).block();
            limiter.tryAcquire("key-" + i).block();
        }
        clock.advanceMillis(5_000);
        Object late =
                DecidedClaims.of(limiter.tryAcquire("late").block()).get(0).handle();
        limiter.tryAcquire("late").block();
        assertThat(store.counts().denied().get(late)).isNull();
        clock.advanceMillis(1);
        limiter.tryAcquire("late").block();
        assertThat(store.counts().denied().get(late)).isNotNull();
    }

    /** It may decide for another store during an outage, and has not taken what that store has. */
    @Test
    void decisionsOfOtherStoresAreNotRefundedOrSettledHere() {
        LocalStore store = LocalStore.bounded(100, clock);
        RateLimiter limiter = limiter(store, Limit.perHour(10));
        StoreDecision taken =
                (StoreDecision) limiter.tryAcquire(Charge.of("a", 3)).block();
        Claim claim = taken.claims().get(0);
        StoreUsage here = taken.usages().get(0);
        Reply reply = new Reply(Source.REDIS, clock.millis(), taken.reply().stamp());
        StoreUsage remote =
                StoreUsage.of(reply, claim, 3, false, 0, here.wholeAt().toEpochMilli());
        store.correct(List.of(new Refund(claim, remote, 0))).block();
        store.correct(List.of(new Settlement("s-1", claim, remote, 0, 0, 20, 0)))
                .block();
        assertThat(limiter.peek("a").block().limits().get(0).used()).isEqualTo(3);
        store.correct(List.of(new Settlement("s-1", claim, here, 0, 0, 20, 0))).block();
        assertThat(limiter.peek("a").block().limits().get(0).used()).isZero();
    }

    @Test
    void aBoundBelowOneDecisionIsRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> LocalStore.bounded(15))
                .withMessage("maximumCounts 15 is less than one decision may need: expected 16 or more,"
                        + " for example 100_000");
    }

    /**
     * Verdicts over the same keys in opposite orders: with monitors taken as they come, they would wait for each other.
     */
    @RepeatedTest(3)
    void decisionsOverManyKeysNeverDeadlockAndAreAtomic() {
        RateLimiter limiter = limiter(LocalStore.bounded(100, clock), Limit.perHour(100));
        Charge a = Charge.of("a");
        Charge b = Charge.of("b");
        Charge c = Charge.of("c");
        Charge[][] orders = {{a, b, c}, {c, b, a}, {b, c, a}, {c, a, b}};
        long allowed = Flux.range(0, 4_000)
                .parallel(8)
                .runOn(Schedulers.newParallel("orders", 8))
                .flatMap(i -> limiter.tryAcquire(orders[i % 4]))
                .sequential()
                .filter(Decision::isAllowed)
                .count()
                .block(Duration.ofMinutes(1));
        assertThat(allowed).isEqualTo(100);
        assertThat(limiter.peek(a, b, c).block().limits()).allMatch(usage -> usage.used() == 100);
    }

    /** The count is evicted and recreated by another caller between the lookup and the lock of the first one. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void aCountEvictedBeforeItsLockIsNotUsed(int keys) throws Exception {
        LocalStore store = LocalStore.bounded(100, clock);
        RateLimiter limiter = limiter(store, Limit.perHour(1));
        Charge[] charges =
                IntStream.range(0, keys).mapToObj(i -> Charge.of("key-" + i)).toArray(Charge[]::new);
        limiter.tryAcquire(Charge.of("key-0", 0)).block();
        Count forgotten = store.counts().cache().asMap().values().iterator().next();
        AtomicReference<Decision> late = new AtomicReference<>();
        Thread caller = new Thread(() -> limiter.tryAcquire(charges).subscribe(late::set));

        synchronized (forgotten) {
            caller.start();
            await().until(() -> caller.getState() == Thread.State.BLOCKED);
            Policy.Eviction<Object, Count> bound =
                    store.counts().cache().policy().eviction().orElseThrow();
            bound.setMaximum(0);
            bound.setMaximum(100);
            assertThat(forgotten.isEvicted()).isTrue();
            assertThat(limiter.tryAcquire("key-0").block().isAllowed()).isTrue();
        }
        caller.join();
        assertThat(late.get().isAllowed()).isFalse();
    }

    /** The limits page warns of that. A refund without a decision does not say which request took the permits. */
    @ParameterizedTest
    @CsvSource({"0, 1", "9, 1", "10, 3"})
    void permitsThatAreRefundedTwiceAreTakenFromTheirSlotOnly(long pause, long left) {
        RateLimiter limiter = limiter(LocalStore.bounded(100, clock), Limit.parse("5/1s resolution=10ms"));
        while (clock.millis() % 10 != 0) {
            clock.advanceMillis(1);
        }
        Decision first = limiter.tryAcquire(Charge.of("a", 2)).block();
        limiter.refund(Charge.of("a", 2)).block();
        clock.advanceMillis(pause);
        limiter.tryAcquire(Charge.of("a", 3)).block();
        limiter.refund(first).block();
        assertThat(limiter.peek("a").block().limits().get(0).used()).isEqualTo(left);
    }

    /** Several large verdicts over keys that are always new, in a store that can remember just one of them. */
    @Test
    void decisionsCompleteWhileTheirCountsAreEvicted() {
        RateLimiter limiter = limiter(LocalStore.bounded(16, clock), Limit.perHour(1));
        Flux.range(0, 500)
                .concatMap(i -> limiter.tryAcquire(Charge.of("frequent-" + i % 12, 0)))
                .blockLast();
        Long verdicts = Flux.range(0, 2_000)
                .parallel(4)
                .runOn(Schedulers.newParallel("large", 4))
                .flatMap(verdict -> limiter.tryAcquire(IntStream.range(0, 16)
                        .mapToObj(i -> Charge.of("key-" + verdict + "-" + i))
                        .toArray(Charge[]::new)))
                .sequential()
                .count()
                .block(Duration.ofMinutes(1));
        assertThat(verdicts).isEqualTo(2_000);
    }

    private static long remembered(LocalStore store) {
        store.counts().cache().cleanUp();
        return store.counts().cache().estimatedSize();
    }

    private static RateLimiter limiter(LocalStore store, Limit limit) {
        return RateLimiter.builder("test").store(store).limit(limit).build();
    }
}
