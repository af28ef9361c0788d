package io.github.spillgate.failover;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.CombinedDecision;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Subscription;
import reactor.core.Disposable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.test.subscriber.TestSubscriber;

/** Leases of one instance, in virtual time. */
class LeasesTest extends ResilientStoreFixture {

    private static final Limit LEASED = Limit.perMinute(1_000).leased();

    @Test
    void aHotKeyIsDecidedFromALease() {
        RateLimiter limiter = limiter(LEASED);
        List<Decision> decisions = take(limiter, "a", 100);
        assertThat(decisions).allMatch(Decision::isAllowed);
        assertThat(decisions.get(0).source()).isEqualTo(Source.OTHER);
        assertThat(leased(decisions)).hasSizeGreaterThan(70);
        assertThat(now(limiter.peek("a")).limits().get(0).used()).isGreaterThanOrEqualTo(100);
        StoreState.LeaseStatistics state = limiter.state().leases();
        assertThat(state.decisions()).isEqualTo(leased(decisions).size());
    }

    /** With much less than one request in a lease time, most leases would end unspent. */
    @ParameterizedTest
    @CsvSource({"1, 1", "10, 10", "1, 10", "0, 1", "1, 0"})
    void aKeyThatIsNotHotIsNotLeased(int even, int odd) {
        RateLimiter limiter = limiter(LEASED);
        for (int i = 0; i < 50; i++) {
            now(limiter.tryAcquire(Charge.of("a", i % 2 == 0 ? even : odd)));
            time.passMillis(500);
        }
        assertThat(remote.leases()).isZero();
        assertThat(remote.calls()).isEqualTo(50);
    }

    /** Requests that were granted from the last lease are not recent any more. */
    @Test
    void aKeyThatWasHotIsNotLeasedLater() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 100);
        int leases = remote.leases();
        time.pass(Duration.ofSeconds(5));
        now(limiter.tryAcquire("a"));
        assertThat(remote.leases()).isEqualTo(leases);
    }

    /** Permits cannot be leased for requests that ask for none. */
    @Test
    void aKeyWithRequestsWithoutACostIsNotLeased() {
        RateLimiter limiter = limiter(LEASED);
        for (int i = 0; i < 50; i++) {
            now(limiter.tryAcquire(Charge.of("a", 0)));
        }
        assertThat(remote.leases()).isZero();
    }

    /** If such requests arrive at random, leases save a third of the trips. */
    @Test
    void aKeyWithOneRequestInTwoLeaseTimesIsLeased() {
        RateLimiter limiter = limiter(LEASED);
        for (int i = 0; i < 50; i++) {
            now(limiter.tryAcquire("a"));
            time.passMillis(200);
        }
        assertThat(remote.leases()).isGreaterThan(40);
    }

    @Test
    void aLimitThatIsNotLeasedHasNoLeases() {
        RateLimiter limiter = limiter(Limit.perMinute(1_000));
        take(limiter, "a", 200);
        assertThat(remote.leases()).isZero();
    }

    @Test
    void whatIsNotSpentIsRefundedWhenTheLeaseEnds() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        assertThat(usedOf("a")).isGreaterThan(30);
        time.passMillis(99);
        assertThat(usedOf("a")).isGreaterThan(30);
        time.passMillis(7);
        assertThat(usedOf("a")).isEqualTo(30);
        StoreState.LeaseStatistics state = limiter.state().leases();
        assertThat(state.permits() - state.refunded()).isEqualTo(state.decisions());
    }

    /** Permits that are spent at the end of the lease count for a whole window from then on. */
    @Test
    void aPermitCountsForAWindowAfterItIsSpent() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        time.passMillis(99);
        long spent = leased(take(limiter, "a", 200)).size();
        assertThat(spent).isPositive();
        time.pass(LEASED.window().minusMillis(1));
        RateLimiter other = remote.unprotected("api").limit(LEASED).build();
        assertThat(now(other.peek("a")).limits().get(0).used()).isGreaterThanOrEqualTo(200);
    }

    /** They are charged together with the leased permits, which is later than the time of the decision. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void permitsThatAreTakenBesideLeasesAreRefunded(boolean leased) {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 3);
        time.passMillis(50);
        take(limiter, "a", 100);
        long used = usedOf("a");
        RateLimiter other = remote.unprotected("api")
                .limit(leased ? LEASED : Limit.perMinute(1_000))
                .build();
        time.passMillis(10);
        Decision refunded = now(other.tryAcquire(Charge.of("a", 150)));
        now(other.refund(refunded).thenReturn(refunded));
        assertThat(usedOf("a")).isEqualTo(used);
        Decision settled = now(other.tryAcquire(Charge.of("a", 150)));
        now(other.settle(settled, 10).thenReturn(settled));
        assertThat(usedOf("a")).isEqualTo(used + 10);
    }

    @Test
    void aLeaseThatArrivesLateIsRefunded() {
        RateLimiter limiter = limiter(LEASED);
        leaseWithoutReply(limiter);
        time.passMillis(99);
        assertThat(usedOf("a")).isGreaterThan(20);
        remote.isAvailable();
        time.passMillis(1);
        remote.replyToAll();
        assertThat(limiter.state().leases().refunded())
                .isEqualTo(limiter.state().leases().permits())
                .isPositive();
        assertThat(limiter.state().leases().decisions()).isZero();
    }

    /** While the lease was in flight, the fallback has granted the whole limit. */
    @Test
    void aLeaseThatDoesNotFitTogetherWithLocalGrantsIsNotUsed() {
        RateLimiter limiter = limiter(LEASED);
        leaseWithoutReply(limiter);
        remote.fails();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 1_000))).isAllowed()).isTrue();
        remote.isAvailable();
        remote.replyToAll();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        assertThat(limiter.state().leases().decisions()).isZero();
    }

    @Test
    void aRequestUnderSeveralLimitsIsLeasedOrNotAsAWhole() {
        RateLimiter limiter = limiter(LEASED, Limit.perHour(5_000).leased());
        List<Decision> decisions = take(limiter, "a", 60);
        Decision last = decisions.get(59);
        assertThat(last.source()).isEqualTo(Source.LEASE);
        assertThat(last.limits())
                .isUnmodifiable()
                .hasSize(2)
                .allMatch(usage -> usage.used() > 50 && usage.used() <= 60);
        now(limiter.refund(last).thenReturn(last));
        assertThat(now(limiter.peek("a")).limits()).allMatch(usage -> usage.used() >= 59);
        time.passMillis(150);
        assertThat(now(limiter.peek("a")).limits()).allMatch(usage -> usage.used() == 59);
    }

    /** The need of each limit is known, also if another one has no lease. Otherwise only the first would be leased. */
    @Test
    void allLimitsOfARequestAreLeasedAtTheSameTime() {
        RateLimiter limiter = limiter(LEASED, Limit.perHour(5_000).leased());
        List<Decision> decisions = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            decisions.addAll(take(limiter, "a", 2));
            time.passMillis(200);
        }
        assertThat(leased(decisions)).hasSizeGreaterThan(40);
    }

    /** Both keys have a lease, but the request also needs a limit that has none. */
    @Test
    void aRequestUnderALimitWithoutLeasesAsksTheStore() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        int calls = remote.calls();
        Decision decision = now(limiter.tryAcquire(
                Charge.of("a", LEASED), Charge.of("a", Limit.perHour(5_000)), Charge.of("b", LEASED)));
        assertThat(decision.source()).isEqualTo(Source.OTHER);
        assertThat(remote.calls()).isEqualTo(calls + 1);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LEASE);
        time.passMillis(150);
        assertThat(usedOf("a")).isEqualTo(32);
    }

    /** A block that no request can be granted from would only keep permits from others. */
    @Test
    void nothingIsLeasedIfEachRequestNeedsALimitWithoutLeases() {
        RateLimiter limiter = limiter(LEASED, Limit.perHour(5_000));
        take(limiter, "a", 100);
        limiter.replaceLimits(List.of(Limit.perHour(5_000), LEASED));
        take(limiter, "a", 100);
        assertThat(remote.leases()).isZero();
    }

    /** The clocks of the servers differ by 10 s. */
    @Test
    void aDecisionOnLeasesOfTwoServersHasTimesOfOneClock() {
        LimitStore servers = new TwoServers(
                LocalStore.bounded(100, time),
                LocalStore.bounded(100, () -> time.instant().plusSeconds(10)));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(servers)
                .fallback(local)
                .limit(LEASED)
                .build();
        Decision last = null;
        for (int i = 0; i < 60; i++) {
            last = now(limiter.tryAcquire(Charge.of("a"), Charge.of("b")));
        }
        assertThat(last.source()).isEqualTo(Source.LEASE);
        for (Decision.Usage usage : last.limits()) {
            assertThat(Duration.between(last.at(), usage.wholeAt()))
                    .isBetween(LEASED.window(), LEASED.window().plusMillis(102));
            assertThat(usage.fitsAt()).isEqualTo(last.at());
        }
        listen(limiter.refund(last));
        time.passMillis(150);
        assertThat(now(limiter.peek("a")).limits().get(0).used()).isEqualTo(59);
        assertThat(now(limiter.peek("b")).limits().get(0).used()).isEqualTo(59);
    }

    @Test
    void aResetEndsALease() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        now(limiter.reset("a").thenReturn(now(limiter.peek("b"))));
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        time.passMillis(150);
        assertThat(usedOf("a")).isEqualTo(1);
    }

    /** The reset removes the permits of the lease. Without local ledgers the limiter records resets, too. */
    @Test
    void aLeaseFromBeforeAResetIsNotUsedWithoutALocalFallback() {
        RateLimiter limiter = limiterWith(Fallback.error(), LEASED);
        leaseWithoutReply(limiter);
        remote.isAvailable();
        time.passMillis(1);
        limiter.reset("a").subscribe();
        remote.replyToAll();
        assertThat(now(limiter.tryAcquire("a")).source()).isNotEqualTo(Source.LEASE);
        assertThat(limiter.state().leases().decisions()).isZero();
    }

    /** The store executes it all the same, and removes the permits that were leased since. */
    @Test
    void aResetThatWasCancelledEndsALease() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new WithoutDeadline(remote) {
                    @Override
                    public Mono<Void> reset(List<Claim> claims, long deadline) {
                        return Mono.delay(Duration.ofMillis(5)).then(remote.reset(claims, NO_DEADLINE));
                    }
                })
                .fallback(local)
                .limit(LEASED)
                .build();
        Disposable reset = limiter.reset("a").subscribe();
        time.passMillis(1);
        reset.dispose();
        take(limiter, "a", 30);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LEASE);
        time.passMillis(10);
        assertThat(usedOf("a")).isZero();
        assertThat(take(limiter, "a", 1_100).stream().filter(Decision::isAllowed))
                .hasSize(1_000);
    }

    @Test
    void aResetThatIsRefusedRefundsWhatIsNotSpent() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        remote.failsWith(new LimitStoreException(Kind.REFUSED, "told to refuse"));
        listen(limiter.reset("a"));
        assertThat(signals).hasSize(1).first().is(kind(Kind.REFUSED));
        remote.isAvailable();
        time.passMillis(150);
        assertThat(usedOf("a")).isEqualTo(30);
    }

    @Test
    void aCallerThatCancelsBeforeItRequestsSpendsNothing() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        long spent = limiter.state().leases().decisions();
        limiter.tryAcquire("a").subscribe(new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription s) {
                s.cancel();
                s.request(1);
            }
        });
        assertThat(limiter.state().leases().decisions()).isEqualTo(spent);
        time.passMillis(150);
        assertThat(usedOf("a")).isEqualTo(30);
    }

    @Test
    void aCallerThatRequestsAfterTheLeaseTimeGetsNothingOfTheLease() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        TestSubscriber<Decision> late = withoutDemand();
        limiter.tryAcquire("a").subscribe(late);
        time.passMillis(100);
        late.request(1);
        assertThat(late.getReceivedOnNext()).hasSize(1).allMatch(decision -> decision.source() == Source.OTHER);
    }

    /** Leased permits are spent first; nothing of them is charged again. */
    @Test
    void leasedPermitsAreSpentDuringAnOutage() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        long charged = usedOf("a");
        remote.isUnreachable();
        now(limiter.peek("open"));
        Decision first = now(limiter.tryAcquire("a"));
        assertThat(first.source()).isEqualTo(Source.LEASE);
        List<Decision> others = take(limiter, "a", 1_200);
        assertThat(others.stream().filter(Decision::isAllowed).count() + 31).isEqualTo(1_000);
        assertThat(leased(others)).hasSize((int) (charged - 31));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(usedOf("a")).isEqualTo(1_000);
    }

    /** The store denies until the window has passed, because it does not know which permits will be refunded. */
    @ParameterizedTest
    @CsvSource({
        "1000/1m leased, 1000/1m leased, 0",
        // The lease has ended, and its unspent permits are about to be refunded.
        "1000/1m leased, 1000/1m leased, 102",
        // A slot is longer than the lease time. Most leases end in the slot in which they were charged.
        "20000/1d leased, 20000/1d leased, 0",
        // As during a deployment that switches leases on. The log shows that another instance leases.
        "1000/1m leased, 1000/1m, 0"
    })
    void aWaiterGetsPermitsThatAreRefundedWhenALeaseEnds(String leased, String waited, int later) {
        Limit limit = Limit.parse(leased);
        RateLimiter leasing = limiter(limit);
        RateLimiter waiting = limiterWith(Fallback.deny(), Limit.parse(waited));
        passToNextSlot(limit);
        take(leasing, "a", 100);
        assertThat(now(waiting.tryAcquire(Charge.of("a", limit.permits() - used("a", limit))))
                        .isAllowed())
                .isTrue();
        time.passMillis(later);
        assertThat(used("a", limit)).isEqualTo(limit.permits());
        List<Decision> decisions = new ArrayList<>();
        waiting.acquire("a", limit.window().multipliedBy(2)).subscribe(decisions::add);
        assertThat(decisions).isEmpty();
        time.passMillis(300);
        assertThat(used("a", limit)).isLessThan(limit.permits());
        assertThat(decisions).hasSize(1).allMatch(Decision::isAllowed);
    }

    /** In a log with long slots, the reply does not show that permits are leased. */
    @Test
    void aDenialBesideALeaseOfThisInstanceIsCounted() {
        Limit coarse = Limit.perDay(20_000).leased();
        RateLimiter leasing = limiter(coarse);
        RateLimiter other = remote.unprotected("api").limit(coarse).build();
        passToNextSlot(coarse);
        take(leasing, "a", 100);
        now(other.tryAcquire(Charge.of("a", 20_000 - used("a", coarse))));
        assertThat(now(leasing.tryAcquire(Charge.of("a", 1_000))).isAllowed()).isFalse();
        assertThat(leasing.state().leases().denied()).isEqualTo(1_000);
        time.passMillis(300);
        now(other.tryAcquire(Charge.of("a", 20_000 - used("a", coarse))));
        assertThat(now(leasing.tryAcquire(Charge.of("a", 1_000))).isAllowed()).isFalse();
        assertThat(leasing.state().leases().denied()).isEqualTo(1_000);
    }

    /** A limit without leases denies for longer, so the waiter does not ask in vain. */
    @Test
    void aWaiterDoesNotAskAgainForALimitWithoutLeases() {
        RateLimiter leasing = limiter(LEASED);
        Limit other = Limit.perHour(900);
        AtomicInteger takes = new AtomicInteger();
        RateLimiter waiting = RateLimiter.builder("api")
                .store(WithoutDeadline.taking(remote, claims -> {
                    takes.incrementAndGet();
                    return remote.take(StoreRequest.take(claims));
                }))
                .fallback(Fallback.deny())
                .limit(LEASED)
                .limit(other)
                .build();
        take(leasing, "a", 100);
        assertThat(now(waiting.tryAcquire(Charge.of("a", 1_000 - usedOf("a")))).isAllowed())
                .isTrue();
        now(waiting.tryAcquire(Charge.of("a", other).permits(900 - used("a", other))));
        takes.set(0);
        waiting.acquire("a", Duration.ofHours(2)).subscribe();
        time.pass(Duration.ofSeconds(10));
        assertThat(takes).hasValue(1);
    }

    @Test
    void aHotBucketIsDecidedFromALease() {
        Limit bucket = Limit.perMinute(6_000).burst(1_000).leased();
        RateLimiter limiter = limiter(bucket);
        List<Decision> decisions = take(limiter, "a", 200);
        assertThat(decisions).allMatch(Decision::isAllowed);
        assertThat(leased(decisions)).hasSizeGreaterThan(150);
        // A permit returns in 10 ms. What is not spent is refunded when the lease ends. The first lease has raised the
        // level, to 10 permits at most.
        time.passMillis(110);
        RateLimiter other = remote.unprotected("api").limit(bucket).build();
        assertThat(now(other.peek("a")).limits().get(0).used()).isBetween(189L, 199L);
    }

    /** More than the burst is not leased, and what is granted locally is what is left. */
    @Test
    void aBucketGrantsItsBurstAtOnce() {
        RateLimiter limiter = limiter(Limit.perMinute(60).burst(200).leased());
        List<Decision> decisions = take(limiter, "a", 300);
        assertThat(decisions.stream().filter(Decision::isAllowed)).hasSize(200);
        assertThat(decisions).anyMatch(decision -> decision.source() == Source.LEASE);
    }

    @Test
    void closingRefundsWhatIsLeft() {
        RateLimiter limiter = limiter(LEASED);
        take(limiter, "a", 30);
        assertThat(usedOf("a")).isGreaterThan(30);
        limiter.close();
        assertThat(usedOf("a")).isEqualTo(30);
    }

    private static List<Decision> leased(List<Decision> decisions) {
        return decisions.stream()
                .filter(decision -> decision.source() == Source.LEASE)
                .toList();
    }

    private static List<Decision> take(RateLimiter limiter, String key, int number) {
        return IntStream.range(0, number)
                .mapToObj(i -> now(limiter.tryAcquire(key)))
                .toList();
    }

    /** Sends requests for a key, so that permits are leased, and holds the replies. */
    private void leaseWithoutReply(RateLimiter limiter) {
        remote.holdsReplies();
        IntStream.range(0, 20).forEach(i -> listen(limiter.tryAcquire("a")));
        assertThat(remote.leases()).isEqualTo(1);
    }

    private void passToNextSlot(Limit log) {
        long slot = log.resolution().toMillis();
        time.passMillis(slot - time.millis() % slot);
    }

    private long usedOf(String key) {
        return used(key, LEASED);
    }

    /** A store of two servers, one of which decides on the key "a". */
    private static final class TwoServers extends WithoutDeadline {

        private final LimitStore one;
        private final LimitStore other;

        TwoServers(LimitStore one, LimitStore other) {
            super(one);
            this.one = one;
            this.other = other;
        }

        private LimitStore of(List<Claim> claims) {
            return claims.get(0).key().equals("a") ? one : other;
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return Flux.fromIterable(claims)
                    .map(List::of)
                    .concatMap(claim -> of(claim).take(StoreRequest.take(claim)))
                    .collectList()
                    .map(parts -> CombinedDecision.of(claims, parts));
        }

        @Override
        protected Mono<StoreDecision> lease(StoreRequest request) {
            return of(request.claims()).take(request);
        }

        @Override
        public Mono<StoreDecision> peek(List<Claim> claims) {
            return of(claims).take(StoreRequest.peek(claims));
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return Flux.fromIterable(corrections)
                    .concatMap(refund -> of(List.of(refund.claim())).correct(List.of(refund)))
                    .concatMapIterable(results -> results)
                    .collectList();
        }
    }
}
