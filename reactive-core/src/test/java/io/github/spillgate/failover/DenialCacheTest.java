package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.WithoutDeadline;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.time.Instant;
import java.util.AbstractList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.test.subscriber.TestSubscriber;

/** Which requests a cached denial denies, how long it lives, and what invalidates it. */
class DenialCacheTest {

    /**
     * A denial at the instant of the hit has a retry-after of 101 ms: a hit expires a window after the end of its slot.
     */
    private static final Limit ONE = Limit.of(1, Duration.ofMillis(100));

    private static final Limit TEN = Limit.of(10, Duration.ofMillis(100));

    /** In virtual time. */
    @Nested
    class InVirtualTime extends ResilientStoreFixture {

        // Lifetime

        @Test
        void aCachedDenialExpiresOneMillisecondBeforeItsRetryTime() {
            RateLimiter limiter = limiter(ONE);
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
            Decision denied = now(limiter.tryAcquire("a"));
            assertThat(denied.source()).isEqualTo(Source.OTHER);
            assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(101));

            time.pass(Duration.ofNanos(99_999_999));
            deniedByTheCache(limiter.tryAcquire("a"));
            time.pass(Duration.ofNanos(1));
            Decision again = now(limiter.tryAcquire("a"));
            assertThat(again.isAllowed()).isFalse();
            assertThat(again.source())
                    .as("the clock of the store may have shown the end of its millisecond")
                    .isEqualTo(Source.OTHER);
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @Test
        void theExpiryOfACachedDenialCountsFromTheRequest() {
            RateLimiter limiter = limiter(ONE);
            deniedAfter(60, limiter);
            assertThat(decision(0).retryAfter()).hasValue(Duration.ofMillis(101));

            time.passMillis(39);
            deniedByTheCache(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aDenialThatArrivesAfterItsExpiryIsNotCached() {
            Limit quick = Limit.of(1, Duration.ofMillis(20));
            RateLimiter limiter = limiter(quick);
            deniedAfter(50, limiter);
            assertThat(decision(0).isAllowed()).isFalse();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @Test
        void aDenialThatArrivesAfterACancelIsCached() {
            Limit slow = Limit.of(1, Duration.ofSeconds(10));
            RateLimiter limiter = limiter(slow);
            now(limiter.tryAcquire("a"));
            remote.holdsReplies();
            limiter.tryAcquire("a").subscribe().dispose();
            remote.replyToAll();
            remote.isAvailable();
            deniedByTheCache(limiter.tryAcquire("a"));
        }

        @Test
        void aCachedDenialMustHoldWhenTheCallerRequests() {
            RateLimiter limiter = exhausted(ONE);
            deniedByTheCache(limiter.tryAcquire("a"));
            TestSubscriber<Decision> late = withoutDemand();
            limiter.tryAcquire("a").subscribe(late);
            time.passMillis(101);
            late.request(1);
            assertThat(late.getReceivedOnNext()).singleElement().matches(Decision::isAllowed);
        }

        @Test
        void aRetryAfterOfOneMillisecondIsNotCached() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            time.passMillis(100);
            for (int i = 0; i < 3; i++) {
                Decision denied = now(limiter.tryAcquire("a"));
                assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(1));
                assertThat(denied.source()).isEqualTo(Source.OTHER);
            }
        }

        @Test
        void aCachedDenialLivesForAtMostASecondByDefault() {
            RateLimiter limiter = exhausted(Limit.of(1, Duration.ofHours(1)));
            time.passMillis(999);
            deniedByTheCache(limiter.tryAcquire("a"));
            end(remote.unprotected("api")
                    .limit(Limit.of(1, Duration.ofHours(1)))
                    .build()
                    .reset("a"));
            deniedByTheCache(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed())
                    .as("a refund in another process shows when the cached denial expires")
                    .isTrue();
        }

        @Test
        void anExpiredDenialIsReplacedByTheNextOfItsCount() {
            RateLimiter limiter = limiter(Limit.of(1, Duration.ofHours(1)));
            Decision taken = now(limiter.tryAcquire("a"));
            for (int second = 0; second < 3; second++) {
                assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
                deniedByTheCache(limiter.tryAcquire("a"));
                time.passMillis(1_000);
            }
            now(limiter.tryAcquire("a"));
            end(limiter.refund(taken));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
            deniedByTheCache(limiter.tryAcquire("a"));
        }

        @Test
        void theMaximumLifetimeIsConfigurable() {
            RateLimiter limiter = caching(Duration.ofMillis(30), Limit.of(1, Duration.ofHours(1)));
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            time.passMillis(29);
            deniedByTheCache(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void everyDenialComesFromTheStoreIfTheCacheIsDisabled() {
            RateLimiter limiter = caching(Duration.ZERO, ONE);
            now(limiter.tryAcquire("a"));
            for (int i = 0; i < 3; i++) {
                assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
            }
            assertThat(remote.calls()).isEqualTo(4);
        }

        @Test
        void denialsOfALimitThatCountsDeniedAreNotCached() {
            Limit counting = TEN.countingDenied();
            RateLimiter limiter = limiter(counting, Limit.of(1, Duration.ofHours(1)));
            now(limiter.tryAcquire("a"));
            for (int i = 0; i < 3; i++) {
                Decision denied = now(limiter.tryAcquire("a"));
                assertThat(denied.isAllowed()).isFalse();
                assertThat(denied.source()).isEqualTo(Source.OTHER);
                assertThat(denied.limits().get(0).used()).isEqualTo(2 + i);
            }
            assertThat(remote.calls()).isEqualTo(4);
        }

        @Test
        void aPeekBypassesTheCache() {
            RateLimiter limiter = exhausted(ONE);
            assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.OTHER);
        }

        @ParameterizedTest
        @ValueSource(longs = {-1, 60_001})
        void aMaximumLifetimeOutOfRangeIsRejected(long millis) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> ResilientStore.builder(remote).cacheDenials(Duration.ofMillis(millis)))
                    .withMessageStartingWith("cacheDenials PT")
                    .withMessageContaining("for example 1 s");
        }

        // Scope

        @Test
        void aCachedDenialOfAHighCostDoesNotDenyALowerCost() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire(Charge.of("a", 7)));
            assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).isAllowed()).isFalse();
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 5)));
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 6)));
            Decision cheap = now(limiter.tryAcquire(Charge.of("a", 3)));
            assertThat(cheap.isAllowed()).isTrue();
            assertThat(cheap.source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aDenialOfALowCostReplacesOneOfAHighCost() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            time.passMillis(50);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            // The expensive request waits until both hits expire, the cheap one only for the first.
            assertThat(now(limiter.tryAcquire(Charge.of("a", 10))).retryAfter()).hasValue(Duration.ofMillis(101));
            assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).retryAfter()).hasValue(Duration.ofMillis(51));
            time.passMillis(49);
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 1)));
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 10)));
            time.passMillis(2);
            assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).isAllowed()).isTrue();
        }

        @Test
        void aDenialOfAHighCostDoesNotReplaceOneOfALowCostThatWasInFlightWithIt() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire(Charge.of("a", 10)));
            remote.holdsReplies();
            listen(limiter.tryAcquire(Charge.of("a", 1)));
            listen(limiter.tryAcquire(Charge.of("a", 5)));
            remote.replyToAll();
            remote.isAvailable();
            assertThat(sources()).containsExactly(Source.OTHER, Source.OTHER);
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 1)));
        }

        /** It is the shortest wait that may be enough. */
        @Test
        void theRetryAfterOfACachedDenialMayBeTooEarlyForAHigherCost() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            time.passMillis(50);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).retryAfter()).hasValue(Duration.ofMillis(51));
            Decision dear = deniedByTheCache(limiter.tryAcquire(Charge.of("a", 10)));
            assertThat(dear.retryAfter()).hasValue(Duration.ofMillis(51));
            time.pass(dear.retryAfter().orElseThrow());
            assertThat(now(limiter.tryAcquire(Charge.of("a", 10))).retryAfter()).hasValue(Duration.ofMillis(50));
        }

        @Test
        void eachKeyHasItsOwnCachedDenial() {
            RateLimiter limiter = exhausted(ONE);
            deniedByTheCache(limiter.tryAcquire("a"));
            assertThat(now(limiter.tryAcquire("b")).isAllowed()).isTrue();
            Decision both = deniedByTheCache(limiter.tryAcquire(Charge.of("c"), Charge.of("a")));
            assertThat(both.limits()).extracting(Usage::key).containsExactly("a");
            assertThat(now(limiter.tryAcquire("c")).isAllowed()).isTrue();
        }

        @Test
        void aLimitThatWasNotViolatedIsNotCachedAsDenied() {
            Limit wide = Limit.of(100, Duration.ofHours(1));
            RateLimiter limiter = limiter(TEN, wide);
            now(limiter.tryAcquire(Charge.of("a", 10)));
            now(limiter.tryAcquire(Charge.of("a", 10)));
            Decision denied = deniedByTheCache(limiter.tryAcquire(Charge.of("a", 10)));
            assertThat(denied.violated()).containsExactly(TEN);
            assertThat(denied.limits()).extracting(Usage::limit).containsExactly(TEN, wide);
            assertThat(denied.limits()).extracting(Usage::used).containsExactly(10L, 10L);
            assertThat(denied.limits()).extracting(Usage::isViolated).containsExactly(true, false);
            assertThat(denied.remaining()).isZero();
            assertThat(now(limiter.tryAcquire(Charge.of("a", wide))).isAllowed())
                    .isTrue();
        }

        @Test
        void aDenialOverSeveralLimitsExpiresPerLimit() {
            Limit slow = Limit.of(1, Duration.ofMillis(500));
            RateLimiter limiter = limiter(ONE, slow);
            now(limiter.tryAcquire("a"));
            assertThat(now(limiter.tryAcquire("a")).retryAfter()).hasValue(Duration.ofMillis(501));
            time.passMillis(50);
            Decision denied = deniedByTheCache(limiter.tryAcquire("a"));
            assertThat(denied.violated()).containsExactly(ONE, slow);
            assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(451));
            time.passMillis(51);
            assertThat(deniedByTheCache(limiter.tryAcquire("a")).violated())
                    .as("the shorter limit may fit again")
                    .containsExactly(slow);
        }

        // Contents

        @Test
        void theRetryAfterOfACachedDenialDecreasesWithTime() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            Decision byTheStore = now(limiter.tryAcquire("a"));
            time.passMillis(20);
            Decision here = deniedByTheCache(limiter.tryAcquire("a"));
            assertThat(here.at()).isEqualTo(byTheStore.at().plusMillis(20));
            assertThat(here.retryAfter()).hasValue(Duration.ofMillis(81));
            assertThat(here.limits().get(0).fitsAt())
                    .isEqualTo(byTheStore.limits().get(0).fitsAt());
            assertThat(here.limits().get(0).wholeAt())
                    .isEqualTo(byTheStore.limits().get(0).wholeAt());
            assertThat(here.isCharged()).isFalse();
            assertThat(here.source()).isEqualTo(Source.CACHED_DENIAL);
        }

        // Invalidation

        static Stream<Function<RateLimiter, Mono<Void>>> everyRelease() {
            return Stream.of(
                    limiter -> limiter.refund(Charge.of("a", 1)),
                    limiter -> limiter.reset("a"),
                    limiter -> limiter.refund(Charge.of("b"), Charge.of("a")));
        }

        @Test
        void aRaisedLimitAllowsAtOnceAndALoweredOneDenies() {
            RateLimiter limiter = exhausted(ONE);
            Limit two = Limit.of(2, Duration.ofMillis(100));
            assertThat(now(limiter.tryAcquire(Charge.of("a", two))).isAllowed()).isTrue();
            assertThat(now(limiter.tryAcquire(Charge.of("a", two))).isAllowed()).isFalse();
            deniedByTheCache(limiter.tryAcquire("a"));
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", two)));
        }

        /** The room is the same, but the permit returns ten times as soon. */
        @Test
        void aHigherRateOfABucketIsNotDenied() {
            Limit slow = Limit.bucket(1, Duration.ofMillis(100), 1);
            Limit fast = Limit.bucket(10, Duration.ofMillis(100), 1);
            RateLimiter limiter = exhausted(slow);
            time.passMillis(20);
            deniedByTheCache(limiter.tryAcquire("a"));
            assertThat(now(limiter.tryAcquire(Charge.of("a", fast))).isAllowed())
                    .isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyRelease")
        void aDenialInFlightDuringAReleaseIsNotCached(Function<RateLimiter, Mono<Void>> release) {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            remote.holdsReplies();
            listen(limiter.tryAcquire("a"));
            time.passMillis(1);
            remote.isAvailable();
            end(release.apply(limiter));
            time.passMillis(1);
            remote.replyToAll();
            assertThat(decision(0).isAllowed()).isFalse();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyRelease")
        void aSlowReleaseTakesEffectWhenItCompletes(Function<RateLimiter, Mono<Void>> release) {
            SlowReleases slowStore = new SlowReleases(LocalStore.bounded(100, time));
            RateLimiter limiter =
                    RateLimiter.builder("api").store(slowStore).limit(ONE).build();
            now(limiter.tryAcquire("a"));
            listen(release.apply(limiter).then(limiter.tryAcquire("a")));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed())
                    .as("nothing is released yet")
                    .isFalse();
            time.passMillis(1);
            slowStore.goOn();
            assertThat(decision(0).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyRelease")
        void aReleaseCompletedAfterItsDeadlineTakesEffect(Function<RateLimiter, Mono<Void>> release) {
            Limit hourly = Limit.of(1, Duration.ofHours(1));
            SlowReleases slowStore = new SlowReleases(LocalStore.bounded(100, time));
            RateLimiter limiter =
                    RateLimiter.builder("api").store(slowStore).limit(hourly).build();
            now(limiter.tryAcquire("a"));
            listen(release.apply(limiter).thenReturn("told in time"));
            time.passMillis(100);
            assertThat(signals).containsExactly("told in time");
            time.passMillis(1);
            now(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.CACHED_DENIAL);
            slowStore.goOn();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyRelease")
        void aReleaseTakesEffectBeforeItsReply(Function<RateLimiter, Mono<Void>> release) {
            RateLimiter limiter = exhausted(ONE);
            time.passMillis(1);
            remote.holdsReplies();
            listen(release.apply(limiter));
            remote.isAvailable();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        /** The store may have denied during the refund before it executed the refund. */
        @Test
        void aCancelledRefundInvalidatesTheCachedDenial() {
            RateLimiter limiter = limiter(Limit.of(10, Duration.ofHours(1)));
            now(limiter.tryAcquire(Charge.of("a", 10)));
            remote.holdsReplies();
            Disposable pending = limiter.refund(Charge.of("a", 1)).subscribe();
            remote.isAvailable();
            time.passMillis(1);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 5)));
            time.passMillis(1);
            pending.dispose();
            assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aRefundThatFailsAfterItsDeadlineInvalidatesTheCachedDenial() {
            RateLimiter limiter = limiter(Limit.of(10, Duration.ofHours(1)));
            now(limiter.tryAcquire(Charge.of("a", 10)));
            remote.holdsReplies();
            listen(limiter.refund(Charge.of("a", 1)).thenReturn("told in time"));
            remote.isAvailable();
            time.passMillis(100);
            assertThat(signals).containsExactly("told in time");
            time.passMillis(1);
            now(limiter.tryAcquire(Charge.of("a", 5)));
            deniedByTheCache(limiter.tryAcquire(Charge.of("a", 5)));
            time.passMillis(1);
            remote.failAllHeld(new LimitStoreException(Kind.UNANSWERED, "lost"));
            assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).source()).isEqualTo(Source.OTHER);
        }

        // Bound

        @Test
        void theNumberOfCachedDenialsIsBounded() {
            AtomicInteger asked = new AtomicInteger();
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(WithoutDeadline.taking(remote, claims -> {
                        asked.incrementAndGet();
                        return Mono.just(deniedForAnHour(claims));
                    }))
                    .limit(ONE)
                    .build();
            int keys = 40_000;
            for (int i = 0; i < keys; i++) {
                now(limiter.tryAcquire("key-" + i));
            }
            assertThat(asked).hasValue(keys);
            int remembered = 0;
            for (int i = 0; i < keys; i++) {
                remembered += now(limiter.tryAcquire("key-" + i)).source() == Source.CACHED_DENIAL ? 1 : 0;
            }
            assertThat(remembered)
                    .as("keys without a collision, if the slots are used evenly")
                    .isBetween(3_000, 1 << 14);
            assertThat(asked).hasValue(2 * keys - remembered);
        }

        private StoreDecision deniedForAnHour(List<Claim> claims) {
            long later = time.millis() + TimeUnit.HOURS.toMillis(1);
            Reply reply = new Reply(Source.OTHER, time.millis());
            return StoreDecision.ofTake(
                    reply,
                    claims.stream()
                            .map(claim ->
                                    StoreUsage.of(reply, claim, claim.limit().permits(), true, later, later))
                            .toList());
        }

        /** Returns a limiter that has allowed one request for a key, and denied the next one. */
        private RateLimiter exhausted(Limit limit) {
            RateLimiter limiter = limiter(limit);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            return limiter;
        }

        /** Takes a permit, and gets the denial of another one this much later than it was requested. */
        private void deniedAfter(int millis, RateLimiter limiter) {
            now(limiter.tryAcquire("a"));
            remote.holdsReplies();
            listen(limiter.tryAcquire("a"));
            time.passMillis(millis);
            remote.replyToAll();
            remote.isAvailable();
        }

        private RateLimiter caching(Duration longest, Limit limit) {
            return RateLimiter.builder("api")
                    .store(remote)
                    .cacheDenials(longest)
                    .limit(limit)
                    .build();
        }

        private Decision deniedByTheCache(Mono<Decision> question) {
            int before = remote.calls();
            Decision decision = now(question);
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.CACHED_DENIAL);
            assertThat(remote.calls()).isEqualTo(before);
            return decision;
        }

        private Decision decision(int n) {
            return (Decision) signals.get(n);
        }

        private void end(Mono<Void> done) {
            AtomicBoolean ended = new AtomicBoolean();
            done.subscribe(none -> {}, error -> {}, () -> ended.set(true));
            assertThat(ended).isTrue();
        }
    }

    // Threads

    /** Invalidates the denial at each access to the claims, as another thread may. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void aDenialInvalidatedDuringALookupIsNotReadAsAllowed(int number) {
        List<Claim> asked = IntStream.range(0, number)
                .mapToObj(i -> ClaimForTests.of("key-" + i, Limit.perMinute(1)))
                .toList();
        Reply reply = new Reply(Source.OTHER, 1_000);
        StoreDecision denial = StoreDecision.ofTake(
                reply,
                asked.stream()
                        .map(claim -> StoreUsage.of(reply, claim, 1, true, 61_000, 61_000))
                        .toList());
        for (int look = 0; look < 5 * number; look++) {
            DenialCache denials = new DenialCache(Duration.ofMinutes(1));
            denials.remember(denial, Time.nanos());
            assertThat(denials.find(asked)).isNotNull();
            int freedAt = look;
            AtomicInteger looks = new AtomicInteger();
            Decision found = denials.find(new AbstractList<>() {
                @Override
                public Claim get(int index) {
                    if (looks.getAndIncrement() == freedAt) {
                        denials.freed(asked);
                    }
                    return asked.get(index);
                }

                @Override
                public int size() {
                    return asked.size();
                }
            });
            assertThat(found == null || !found.isAllowed())
                    .as("freed at look %d, found %s", look, found)
                    .isTrue();
        }
    }

    /** The clock of Redis, read before a cached denial, is before the instant at which the request fits. */
    @ParameterizedTest
    @ValueSource(strings = {"1/5ms", "3/10ms", "3/10ms counter", "3/7ms counter aligned"})
    void noCachedDenialOutlivesTheRetryTimeOfRedis(String text) {
        RedisURI uri = RedisForTests.first().uri();
        RedisClient client = RedisClient.create(uri);
        try (RedisStore redis = RedisStore.builder(uri)
                        .namespace("denials-" + System.nanoTime())
                        .build();
                RateLimiter limiter = RateLimiter.builder("api")
                        .store(redis)
                        .deadline(Duration.ofSeconds(20))
                        .limit(Limit.parse(text))
                        .build()) {
            RedisCommands<String, String> looking = client.connect().sync();
            for (int cachedDenials = 0; cachedDenials < 500; ) {
                List<String> time = looking.time();
                Instant before =
                        Instant.ofEpochSecond(Long.parseLong(time.get(0)), 1_000 * Long.parseLong(time.get(1)));
                Decision decision = limiter.tryAcquire("a").block();
                if (decision.source() == Source.CACHED_DENIAL) {
                    cachedDenials++;
                    assertThat(before).isBefore(decision.limits().get(0).fitsAt());
                }
            }
        } finally {
            client.shutdown();
        }
    }

    /** A store that holds refunds and resets until {@link #goOn()}. */
    private static final class SlowReleases extends WithoutDeadline {

        private final Sinks.Empty<Void> goesOn = Sinks.empty();

        SlowReleases(LimitStore store) {
            super(store);
        }

        void goOn() {
            goesOn.tryEmitEmpty();
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return goesOn.asMono().then(super.correct(corrections));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long deadline) {
            return goesOn.asMono().then(super.reset(claims, deadline));
        }
    }
}
