package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Whom a denial denies without a trip, until when, and what puts an end to it. */
class DenialCacheTest {

    /**
     * Whoever is denied at the instant of the hit waits for 101 ms: the hit leaves when the end of its slot is a window
     * old.
     */
    private static final Limit ONE = Limit.of(1, Duration.ofMillis(100));

    private static final Limit TEN = Limit.of(10, Duration.ofMillis(100));

    /** In a time that passes when it is told to. */
    @Nested
    class ToTheInstant {

        private final VirtualTime time = new VirtualTime();
        private final ControlledStore remote = new ControlledStore(time);
        private final List<Object> said = new ArrayList<>();

        @AfterEach
        void backToRealTime() {
            time.close();
        }

        // Until when

        @Test
        void aDenialHoldsUntilAMillisecondBeforeTheInstantThatItNames() {
            RateLimiter limiter = limiter(ONE);
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
            Decision denied = now(limiter.tryAcquire("a"));
            assertThat(denied.source()).isEqualTo(Source.OTHER);
            assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(101));

            time.pass(Duration.ofNanos(99_999_999));
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
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
        void aDenialIsCountedFromTheSendingHoweverLateItIsAnswered() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            remote.hangs();
            listen(limiter.tryAcquire("a"));
            time.passMillis(60);
            remote.goOn();
            remote.answers();
            assertThat(decision(0).retryAfter()).hasValue(Duration.ofMillis(101));

            time.passMillis(39);
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aDenialThatIsAnsweredAfterItsTimeIsNotRemembered() {
            Limit quick = Limit.of(1, Duration.ofMillis(20));
            RateLimiter limiter = limiter(quick);
            now(limiter.tryAcquire("a"));
            remote.hangs();
            listen(limiter.tryAcquire("a"));
            time.passMillis(50);
            remote.goOn();
            remote.answers();
            assertThat(decision(0).isAllowed()).isFalse();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @Test
        void aDenialThatIsAnsweredWhenNobodyWaitsAnyMoreDeniesTheNext() {
            Limit slow = Limit.of(1, Duration.ofSeconds(10));
            RateLimiter limiter = limiter(slow);
            now(limiter.tryAcquire("a"));
            remote.hangs();
            limiter.tryAcquire("a").subscribe().dispose();
            remote.goOn();
            remote.answers();
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
        }

        @Test
        void aWaitOfAMillisecondIsTooShortToBeRemembered() {
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
        void nothingIsDeniedForLongerThanASecondWithoutATrip() {
            RateLimiter limiter = limiter(Limit.of(1, Duration.ofHours(1)));
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            time.passMillis(999);
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            end(remote.asItIs("api")
                    .limit(Limit.of(1, Duration.ofHours(1)))
                    .build()
                    .reset("a"));
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed())
                    .as("a refund in another process shows when the cached denial expires")
                    .isTrue();
        }

        @Test
        void aDenialThatHoldsNoMoreLeavesItsPlaceToTheNextOfTheSameCount() {
            RateLimiter limiter = limiter(Limit.of(1, Duration.ofHours(1)));
            Decision taken = now(limiter.tryAcquire("a"));
            for (int second = 0; second < 3; second++) {
                assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
                assertDeniedWithoutATrip(limiter.tryAcquire("a"));
                time.passMillis(1_000);
            }
            now(limiter.tryAcquire("a"));
            end(limiter.refund(taken));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
        }

        @Test
        void theCapCanBeSet() {
            RateLimiter limiter = builder(Limit.of(1, Duration.ofHours(1)))
                    .cacheDenials(Duration.ofMillis(30))
                    .build();
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            time.passMillis(29);
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void switchedOffEveryDenialIsATrip() {
            RateLimiter limiter = builder(ONE).cacheDenials(Duration.ZERO).build();
            now(limiter.tryAcquire("a"));
            for (int i = 0; i < 3; i++) {
                assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
            }
            assertThat(remote.questions()).isEqualTo(4);
        }

        @Test
        void whereDeniedRequestsCountEveryOneOfThemIsATrip() {
            Limit counting = TEN.countingDenied();
            RateLimiter limiter = limiter(counting, Limit.of(1, Duration.ofHours(1)));
            now(limiter.tryAcquire("a"));
            for (int i = 0; i < 3; i++) {
                Decision denied = now(limiter.tryAcquire("a"));
                assertThat(denied.isAllowed()).isFalse();
                assertThat(denied.source()).isEqualTo(Source.OTHER);
                assertThat(denied.limits().get(0).used()).isEqualTo(2 + i);
            }
            assertThat(remote.questions()).isEqualTo(4);
        }

        @Test
        void whoOnlyLooksIsToldByTheStore() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.OTHER);
        }

        @ParameterizedTest
        @ValueSource(longs = {-1, 60_001})
        void aCapThatIsOutOfRangeIsRefused(long millis) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> ResilientStore.builder(remote).cacheDenials(Duration.ofMillis(millis)))
                    .withMessageStartingWith("cacheDenials PT")
                    .withMessageContaining("for example Duration.ofSeconds(1)");
        }

        // Whom

        @Test
        void aDearRequestThatWasDeniedDoesNotKeepOutACheapOneThatFits() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire("a", 7));
            assertThat(now(limiter.tryAcquire("a", 5)).isAllowed()).isFalse();
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 5));
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 6));
            Decision cheap = now(limiter.tryAcquire("a", 3));
            assertThat(cheap.isAllowed()).isTrue();
            assertThat(cheap.source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aCheapDenialTakesThePlaceOfADearOneAndCoversIt() {
            RateLimiter limiter = limiter(TEN);
            now(limiter.tryAcquire("a", 5));
            time.passMillis(50);
            now(limiter.tryAcquire("a", 5));
            // The dear one has to wait until both hits have left, the cheap one only for the first.
            assertThat(now(limiter.tryAcquire("a", 10)).retryAfter()).hasValue(Duration.ofMillis(101));
            assertThat(now(limiter.tryAcquire("a", 1)).retryAfter()).hasValue(Duration.ofMillis(51));
            time.passMillis(49);
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 1));
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 10));
            time.passMillis(2);
            assertThat(now(limiter.tryAcquire("a", 1)).isAllowed()).isTrue();
        }

        @Test
        void keysAreDeniedEachForThemselves() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            assertThat(now(limiter.tryAcquire("b")).isAllowed()).isTrue();
            Decision both = deniedWithoutATrip(limiter.tryAcquire(Charge.of("c"), Charge.of("a")));
            assertThat(both.limits()).extracting(Usage::key).containsExactly("a");
            assertThat(now(limiter.tryAcquire("c")).isAllowed()).isTrue();
        }

        @Test
        void aLimitThatDidNotDenyDeniesNobody() {
            Limit wide = Limit.of(100, Duration.ofHours(1));
            RateLimiter limiter = limiter(TEN, wide);
            now(limiter.tryAcquire("a", 10));
            now(limiter.tryAcquire("a", 10));
            Decision denied = deniedWithoutATrip(limiter.tryAcquire("a", 10));
            assertThat(denied.violated()).containsExactly(TEN);
            assertThat(denied.limits()).extracting(Usage::limit).containsExactly(TEN, wide);
            assertThat(denied.limits()).extracting(Usage::used).containsExactly(10L, 10L);
            assertThat(denied.limits()).extracting(Usage::isViolated).containsExactly(true, false);
            assertThat(denied.remaining()).isZero();
            assertThat(now(limiter.tryAcquire(Charge.of("a", wide))).isAllowed())
                    .isTrue();
        }

        @Test
        void severalLimitsAreWaitedForTogether() {
            Limit slow = Limit.of(1, Duration.ofMillis(500));
            RateLimiter limiter = limiter(ONE, slow);
            now(limiter.tryAcquire("a"));
            assertThat(now(limiter.tryAcquire("a")).retryAfter()).hasValue(Duration.ofMillis(501));
            time.passMillis(50);
            Decision denied = deniedWithoutATrip(limiter.tryAcquire("a"));
            assertThat(denied.violated()).containsExactly(ONE, slow);
            assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(451));
            time.passMillis(51);
            assertThat(deniedWithoutATrip(limiter.tryAcquire("a")).violated())
                    .as("the quicker one may fit again")
                    .containsExactly(slow);
        }

        // What it says

        @Test
        void whoIsToldLaterIsToldToWaitForLess() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            Decision byTheStore = now(limiter.tryAcquire("a"));
            time.passMillis(20);
            Decision here = deniedWithoutATrip(limiter.tryAcquire("a"));
            assertThat(here.at()).isEqualTo(byTheStore.at().plusMillis(20));
            assertThat(here.retryAfter()).hasValue(Duration.ofMillis(81));
            assertThat(here.limits().get(0).fitsAt())
                    .isEqualTo(byTheStore.limits().get(0).fitsAt());
            assertThat(here.limits().get(0).wholeAt())
                    .isEqualTo(byTheStore.limits().get(0).wholeAt());
            assertThat(here.isCharged()).isFalse();
            assertThat(here.source()).isEqualTo(Source.CACHED_DENIAL);
        }

        @Test
        void whoComesBackWhenHeWasToldToFits() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            remote.hangs();
            listen(limiter.tryAcquire("a"));
            time.passMillis(30);
            remote.goOn();
            remote.answers();
            time.passMillis(10);
            Decision here = deniedWithoutATrip(limiter.tryAcquire("a"));
            time.pass(here.retryAfter().orElseThrow());
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        // What is given back here

        static Stream<Function<RateLimiter, Mono<Void>>> everyWayToFree() {
            return Stream.of(
                    limiter -> limiter.refund("a", 1),
                    limiter -> limiter.reset("a"),
                    limiter -> limiter.refund(Charge.of("b"), Charge.of("a")));
        }

        @ParameterizedTest
        @MethodSource("everyWayToFree")
        void whatIsFreedHereShowsAtOnce(Function<RateLimiter, Mono<Void>> free) {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            time.passMillis(1);
            end(free.apply(limiter));
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @Test
        void aDecisionThatIsGivenBackShowsAtOnce() {
            RateLimiter limiter = limiter(ONE);
            Decision taken = now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            end(limiter.refund(taken));
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @Test
        void aLimitThatIsRaisedShowsAtOnceAndOneThatIsLoweredDenies() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            Limit two = Limit.of(2, Duration.ofMillis(100));
            assertThat(now(limiter.tryAcquire(Charge.of("a", two))).isAllowed()).isTrue();
            assertThat(now(limiter.tryAcquire(Charge.of("a", two))).isAllowed()).isFalse();
            assertDeniedWithoutATrip(limiter.tryAcquire("a"));
            assertDeniedWithoutATrip(limiter.tryAcquire(Charge.of("a", two)));
        }

        @ParameterizedTest
        @MethodSource("everyWayToFree")
        void aDenialThatIsUnderWayWhileSomethingIsFreedDoesNotHold(Function<RateLimiter, Mono<Void>> free) {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            remote.hangs();
            listen(limiter.tryAcquire("a"));
            time.passMillis(1);
            remote.answers();
            end(free.apply(limiter));
            time.passMillis(1);
            remote.goOn();
            assertThat(decision(0).isAllowed()).isFalse();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyWayToFree")
        void whatIsFreedLateShowsAsSoonAsItsEndIsTold(Function<RateLimiter, Mono<Void>> free) {
            Tardy tardy = new Tardy(LocalStore.bounded(100, time));
            RateLimiter limiter =
                    RateLimiter.builder("api").store(tardy).limit(ONE).build();
            now(limiter.tryAcquire("a"));
            listen(free.apply(limiter).then(limiter.tryAcquire("a")));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).isAllowed())
                    .as("nothing is freed yet")
                    .isFalse();
            time.passMillis(1);
            tardy.goOn();
            assertThat(decision(0).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyWayToFree")
        void whatIsFreedAfterNobodyWaitsForItAnyMoreShowsToo(Function<RateLimiter, Mono<Void>> free) {
            Limit hourly = Limit.of(1, Duration.ofHours(1));
            Tardy tardy = new Tardy(LocalStore.bounded(100, time));
            RateLimiter limiter =
                    RateLimiter.builder("api").store(tardy).limit(hourly).build();
            now(limiter.tryAcquire("a"));
            listen(free.apply(limiter).thenReturn("told in time"));
            time.passMillis(100);
            assertThat(said).containsExactly("told in time");
            time.passMillis(1);
            now(limiter.tryAcquire("a"));
            time.passMillis(1);
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.CACHED_DENIAL);
            tardy.goOn();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        @ParameterizedTest
        @MethodSource("everyWayToFree")
        void whatIsFreedShowsAlsoBeforeItsEndIsTold(Function<RateLimiter, Mono<Void>> free) {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            time.passMillis(1);
            remote.hangs();
            listen(free.apply(limiter));
            remote.answers();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        /** What was denied while it was given back may have been denied before the store had it. */
        @Test
        void whoDoesNotWaitForWhatHeGivesBackAsksTheStoreNext() {
            RateLimiter limiter = limiter(Limit.of(10, Duration.ofHours(1)));
            now(limiter.tryAcquire("a", 10));
            remote.hangs();
            Disposable leaves = limiter.refund("a", 1).subscribe();
            remote.answers();
            time.passMillis(1);
            now(limiter.tryAcquire("a", 5));
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 5));
            time.passMillis(1);
            leaves.dispose();
            assertThat(now(limiter.tryAcquire("a", 5)).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aRefundThatFailsWhenNobodyWaitsForItAnyMoreCountsAsGiven() {
            RateLimiter limiter = limiter(Limit.of(10, Duration.ofHours(1)));
            now(limiter.tryAcquire("a", 10));
            remote.hangs();
            listen(limiter.refund("a", 1).thenReturn("told in time"));
            remote.answers();
            time.passMillis(100);
            assertThat(said).containsExactly("told in time");
            time.passMillis(1);
            now(limiter.tryAcquire("a", 5));
            assertDeniedWithoutATrip(limiter.tryAcquire("a", 5));
            time.passMillis(1);
            remote.failsToGoOn(new LimitStoreUnansweredException("lost", null));
            assertThat(now(limiter.tryAcquire("a", 5)).source()).isEqualTo(Source.OTHER);
        }

        @Test
        void aRefundWhoseAnswerIsLostCountsAsGiven() {
            RateLimiter limiter = limiter(ONE);
            now(limiter.tryAcquire("a"));
            now(limiter.tryAcquire("a"));
            remote.losesAnswersWith(new LimitStoreUnansweredException("lost", null));
            end(limiter.refund("a", 1));
            remote.answers();
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }

        // How many

        @Test
        void noMoreThanAFewThousandDenialsAreRemembered() {
            Denying denying = new Denying(time);
            RateLimiter limiter =
                    RateLimiter.builder("api").store(denying).limit(ONE).build();
            int keys = 40_000;
            for (int i = 0; i < keys; i++) {
                now(limiter.tryAcquire("key-" + i));
            }
            assertThat(denying.asked).isEqualTo(keys);
            int remembered = 0;
            for (int i = 0; i < keys; i++) {
                remembered += now(limiter.tryAcquire("key-" + i)).source() == Source.CACHED_DENIAL ? 1 : 0;
            }
            assertThat(remembered)
                    .as("as many as have a place for themselves, if all places are used alike")
                    .isBetween(3_000, 1 << 14);
            assertThat(denying.asked).isEqualTo(2 * keys - remembered);
        }

        private RateLimiter limiter(Limit... limits) {
            return builder(limits).build();
        }

        private RateLimiter.Builder builder(Limit... limits) {
            RateLimiter.Builder builder = RateLimiter.builder("api").store(remote);
            Stream.of(limits).forEach(builder::limit);
            return builder;
        }

        private void assertDeniedWithoutATrip(Mono<Decision> question) {
            deniedWithoutATrip(question);
        }

        private Decision deniedWithoutATrip(Mono<Decision> question) {
            int before = remote.questions();
            Decision decision = now(question);
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.CACHED_DENIAL);
            assertThat(remote.questions()).isEqualTo(before);
            return decision;
        }

        private void listen(Mono<?> answer) {
            answer.subscribe(said::add, said::add);
        }

        private Decision decision(int n) {
            return (Decision) said.get(n);
        }

        private Decision now(Mono<Decision> decision) {
            Sinks.One<Decision> answer = Sinks.one();
            decision.subscribe(answer::tryEmitValue, answer::tryEmitError, answer::tryEmitEmpty);
            return requireNonNull(answer.asMono().block(Duration.ZERO));
        }

        private void end(Mono<Void> done) {
            AtomicBoolean ended = new AtomicBoolean();
            done.subscribe(none -> {}, error -> {}, () -> ended.set(true));
            assertThat(ended).isTrue();
        }
    }

    // Threads

    /** What somebody else does between two looks at the claims is done here at each of them. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void aDenialThatGoesWhileItIsReadAllowsNobody(int number) {
        List<Claim> asked = claims(number);
        StoreDecision denial = StoreDecision.ofTake(
                Source.OTHER,
                1_000,
                asked.stream()
                        .map(claim -> StoreUsage.of(claim, 1, true, 61_000, 61_000))
                        .toList());
        for (int look = 0; look < 5 * number; look++) {
            DenialCache denials = new DenialCache(Duration.ofMinutes(1));
            denials.remember(denial, Deadlines.now());
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

    private static List<Claim> claims(int number) {
        List<Claim> claims = new ArrayList<>();
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Unprotected(LocalStore.bounded(100)) {
                    @Override
                    public Mono<StoreDecision> take(List<Claim> asked) {
                        claims.addAll(asked);
                        return super.take(asked);
                    }
                })
                .limit(Limit.of(1, Duration.ofMinutes(1)))
                .build();
        List<Charge> charges = new ArrayList<>();
        for (int i = 0; i < number; i++) {
            charges.add(Charge.of("key-" + i));
        }
        limiter.tryAcquire(charges).block();
        return claims;
    }

    /** From end to end. */
    @Nested
    class OverRedis {

        private RedisClient client;
        private RedisStore redis;
        private Trips trips;

        @BeforeEach
        void connect() {
            client = RedisClient.create(RedisForTests.first().uri());
            redis = RedisStore.builder(client)
                    .namespace("denials-" + System.nanoTime())
                    .build();
            trips = new Trips(redis);
        }

        @AfterEach
        void shutdown() {
            client.shutdown();
        }

        @ParameterizedTest
        @ValueSource(strings = {"5/1h", "5/1h counter", "5/1h counter aligned"})
        void whoWasDeniedByRedisIsDeniedHereUntilSomethingIsGivenBack(String text) {
            RateLimiter limiter = limiter(Limit.parse(text));
            Decision taken = limiter.tryAcquire("a", 5).block();
            int before = trips.number.get();
            List<Decision> denied =
                    limiter.tryAcquire("a").repeat(99).collectList().block();
            assertThat(denied).hasSize(100).noneMatch(Decision::isAllowed);
            assertThat(denied)
                    .filteredOn(decision -> decision.source() == Source.CACHED_DENIAL)
                    .isNotEmpty();
            assertThat(trips.number.get() - before)
                    .isEqualTo(denied.stream()
                            .filter(decision -> decision.source() == Source.REDIS)
                            .count());
            limiter.refund(taken).block();
            assertThat(limiter.tryAcquire("a", 5).block().isAllowed()).isTrue();
        }

        /** Asked before he is denied here, Redis's clock has not shown the instant at which he would fit. */
        @ParameterizedTest
        @ValueSource(strings = {"1/5ms", "3/10ms", "3/10ms counter", "3/7ms counter aligned"})
        void nobodyIsDeniedHereWhenRedisWouldLetHimIn(String text) {
            RateLimiter limiter = limiter(Limit.parse(text));
            int cachedDenials = 0;
            try (var looking = client.connect()) {
                while (cachedDenials < 500) {
                    List<String> time = looking.sync().time();
                    Instant before =
                            Instant.ofEpochSecond(Long.parseLong(time.get(0)), 1_000 * Long.parseLong(time.get(1)));
                    Decision decision = limiter.tryAcquire("a").block();
                    if (decision.source() == Source.CACHED_DENIAL) {
                        cachedDenials++;
                        assertThat(before).isBefore(decision.limits().get(0).fitsAt());
                    }
                }
            }
        }

        @Test
        void whoWaitsForHisTurnIsServedThoughOthersAreDeniedHere() {
            RateLimiter limiter = limiter(Limit.parse("5/50ms"));
            List<Decision> decisions = limiter.tryAcquire("a")
                    .repeat(200)
                    .subscribeOn(Schedulers.parallel())
                    .thenMany(limiter.acquire("a", Duration.ofSeconds(30)).repeat(29))
                    .collectList()
                    .block();
            assertThat(decisions).hasSize(30).allMatch(Decision::isAllowed);
        }

        private RateLimiter limiter(Limit limit) {
            return RateLimiter.builder("api")
                    .store(trips)
                    .deadline(Duration.ofSeconds(20))
                    .limit(limit)
                    .build();
        }
    }

    /** Counts the questions to a store. */
    private static final class Trips extends Unprotected {

        private final AtomicInteger number = new AtomicInteger();

        Trips(LimitStore store) {
            super(store);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return super.take(claims).doOnSubscribe(asked -> number.incrementAndGet());
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }

    /** A store that gives back, and forgets, when it is told to go on, and not before. */
    private static final class Tardy extends Unprotected {

        private final Sinks.Empty<Void> goesOn = Sinks.empty();

        Tardy(LimitStore store) {
            super(store);
        }

        void goOn() {
            goesOn.tryEmitEmpty();
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return goesOn.asMono().then(super.refund(claims));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return goesOn.asMono().then(super.reset(claims));
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }

    /** A store that denies everything for an hour. */
    private static final class Denying extends Unprotected {

        private final InstantSource clock;
        private int asked;

        Denying(InstantSource clock) {
            super(LocalStore.bounded(16, clock));
            this.clock = clock;
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return Mono.fromSupplier(() -> {
                asked++;
                long now = clock.millis();
                long later = now + TimeUnit.HOURS.toMillis(1);
                return StoreDecision.ofTake(
                        Source.OTHER,
                        now,
                        claims.stream()
                                .map(claim -> StoreUsage.of(claim, claim.limit().permits(), true, later, later))
                                .toList());
            });
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }
}
