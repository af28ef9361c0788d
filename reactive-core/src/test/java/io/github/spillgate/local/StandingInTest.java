package io.github.spillgate.local;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.github.benmanes.caffeine.cache.Policy;
import io.github.spillgate.Charge;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.FallbackStore.Fit;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Settlement;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** The local store in place of another: what it remembers of that one, and what it owes to it. */
class StandingInTest {

    private static final long WINDOW = 60_000;

    private final ManualClock clock = new ManualClock();
    private final LocalStore store = LocalStore.bounded(1_000, clock);
    private final List<List<Claim>> seen = new ArrayList<>();
    private final LimitStore watched = new Unprotected(store) {
        @Override
        public Mono<Decision> take(List<Claim> claims) {
            seen.add(claims);
            return super.take(claims);
        }

        @Override
        public Mono<Decision> peek(List<Claim> claims) {
            seen.add(claims);
            return super.peek(claims);
        }
    };

    @BeforeEach
    void standIn() {
        store.standInFor(new Unprotected(LocalStore.bounded(16)));
    }

    // What is remembered

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter", "10/1m counter aligned", "10/1m resolution=1s"})
    void whatIsKnownCountsUntilItsInstantAndIsGoneThen(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        remember(limiter, "a", 7, 50_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        clock.advanceMillis(49_999);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        clock.advanceMillis(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void theOtherStoresClockNeedNotBeOurs() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - Duration.ofDays(3).toMillis();
        store.remember(Decision.ofTake(Source.OTHER, there, List.of(Usage.of(claim, 10, false, there, there + 5_000))));
        clock.advanceMillis(4_999);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void anAnswerThatComesLateDoesNotTakeThePlaceOfANewerOne() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 9, false, at, at + WINDOW))));
        store.remember(Decision.ofTake(Source.OTHER, at - 2, List.of(Usage.of(claim, 4, false, at, at + WINDOW))));
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 8, false, at, at + WINDOW))));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        // But one whose clock has stepped back is believed.
        long back = at - Duration.ofHours(1).toMillis();
        store.remember(Decision.ofTake(Source.OTHER, back, List.of(Usage.of(claim, 2, false, back, back + WINDOW))));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(8);
    }

    @Test
    void anAnswerThatComesLateAndTellsOfMoreIsNotForgotten() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 2, WINDOW);
        clock.advanceMillis(-5);
        remember(limiter, "a", 7, WINDOW);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        // Nor is it gone any sooner, until there is a newer one.
        clock.advanceMillis(5);
        remember(limiter, "a", 4, 1_000);
        clock.advanceMillis(1_001);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        remember(limiter, "a", 4, WINDOW);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    /** Of several servers each has decided at a time of its own, and none later than the last of them. */
    @Test
    void aDecisionOfSeveralServersIsNoNewerThanItsParts() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim a = claim(limiter, "a").asking(1);
        Claim b = claim(limiter, "b").asking(1);
        long at = clock.millis();
        Decision first = Decision.ofTake(Source.OTHER, at, List.of(Usage.of(a, 3, false, at, at + WINDOW)));
        Decision newer = Decision.ofTake(Source.OTHER, at + 4, List.of(Usage.of(a, 8, false, at, at + WINDOW)));
        for (boolean violated : new boolean[] {false, true}) {
            Decision last = Decision.ofTake(Source.OTHER, at + 9, List.of(Usage.of(b, 10, violated, at, at + WINDOW)));
            store.remember(newer);
            store.remember(Decision.ofParts(List.of(a, b), List.of(first, last)));
            assertThat(now(limiter.peek("a")).remaining()).isEqualTo(2);
            assertThat(now(limiter.peek("b")).remaining()).isZero();
        }
    }

    /** What was settled may be more than the limit; it has left by then, and whoever asks all the time is not to wait for the clock. */
    @Test
    void whatWasUsedBeforeTheOtherClockSteppedBackKeepsNobodyOutForLongerThanTwoWindows() {
        RateLimiter limiter = limiter(Limit.perSecond(10));
        Claim claim = claim(limiter, "a").asking(1);
        remember(limiter, "a", 15, 1_000);
        long later = 0;
        Fit fit = Fit.NO;
        while (fit != Fit.YES && later < 30_000) {
            clock.advanceMillis(100);
            later += 100;
            long at = clock.millis() - 30_000;
            fit = store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 1, false, at, at + 1_000))));
        }
        assertThat(later).isLessThanOrEqualTo(2_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(9);
    }

    @Test
    void whatIsGivenBackIsForgottenWhereItIsCertainlyAmongWhatIsKnown() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision taken = taken(limiter, "a", 3);
        clock.advanceMillis(WINDOW - 1);
        remember(limiter, "a", 8, WINDOW);
        store.refund(taken).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
    }

    @Test
    void whatIsGivenBackAfterItHasLeftIsNotForgottenOnceMore() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision taken = taken(limiter, "a", 3);
        clock.advanceMillis(WINDOW);
        remember(limiter, "a", 8, WINDOW);
        store.refund(taken).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(2);
    }

    /** It has faded to one that nobody here knows. */
    @Test
    void whatIsGivenBackOfACounterIsForgottenOnlyIfNothingNewerIsKnown() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        Decision taken = taken(limiter, "a", 3);
        store.refund(taken).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
        clock.advanceMillis(1);
        Decision faded = taken(limiter, "a", 3);
        clock.advanceMillis(1);
        remember(limiter, "a", 4, WINDOW);
        store.refund(faded).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    // What fits together

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter", "10/1m counter aligned", "10/1m resolution=1s"})
    void whatTheOtherStoreHasAllowedFitsAsFarAsNothingElseWasAdmittedHere(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        assertThat(remember(limiter, "a", 10, WINDOW)).isEqualTo(Fit.YES);
        now(limiter.tryAcquire("b", 4));
        assertThat(remember(limiter, "b", 6, WINDOW)).isEqualTo(Fit.YES);
        assertThat(remember(limiter, "b", 7, WINDOW)).isEqualTo(Fit.NO);
        // It has charged that, be it told or not.
        assertThat(now(limiter.peek("b")).remaining()).isZero();
    }

    @Test
    void whatIsHandedOverMayBeAmongWhatTheOtherStoreTellsOf() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 4));
        Settlement settlement = store.toSettle(10, claim -> false).get(0);
        now(limiter.tryAcquire("a", 1));
        assertThat(remember(limiter, "a", 5, WINDOW)).isEqualTo(Fit.YES);
        assertThat(remember(limiter, "a", 6, WINDOW)).isEqualTo(Fit.IF_SETTLED);
        assertThat(remember(limiter, "a", 9, WINDOW)).isEqualTo(Fit.IF_SETTLED);
        assertThat(remember(limiter, "a", 10, WINDOW)).isEqualTo(Fit.NO);
        clock.advanceMillis(1);
        store.settled(settlement, true);
        assertThat(remember(limiter, "a", 9, WINDOW)).isEqualTo(Fit.YES);
        assertThat(remember(limiter, "a", 10, WINDOW)).isEqualTo(Fit.NO);
    }

    @Test
    void whatIsHandedOverMayBeAmongItAlsoIfNothingHasBeenAdmittedSince() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 4));
        store.toSettle(10, claim -> false);
        assertThat(remember(limiter, "a", 6, WINDOW)).isEqualTo(Fit.YES);
        assertThat(remember(limiter, "a", 7, WINDOW)).isEqualTo(Fit.IF_SETTLED);
    }

    @Test
    void whatWasSettledOnTopOfTheLimitLeavesNothingForWhoeverWasUnderWay() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 11, WINDOW);
        clock.advanceMillis(-1);
        assertThat(remember(limiter, "a", 5, WINDOW)).isEqualTo(Fit.NO);
    }

    /** Nobody has asked here since. */
    @Test
    void whatHasLeftHereIsNotInTheWayOfWhatTheOtherStoreHasAllowed() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        now(limiter.tryAcquire("a", 4));
        clock.advanceMillis(WINDOW);
        assertThat(remember(claim, 10, WINDOW)).isEqualTo(Fit.NO);
        clock.advanceMillis(1);
        assertThat(remember(claim, 10, WINDOW)).isEqualTo(Fit.YES);
    }

    @Test
    void aClockThatStepsBackLeavesNobodyInDoubtForLongerThanTwoWindows() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        now(limiter.tryAcquire("a", 4));
        store.toSettle(10, one -> false);
        clock.advance(Duration.ofHours(-5));
        assertThat(remember(claim, 7, WINDOW)).isEqualTo(Fit.IF_SETTLED);
        clock.advanceMillis(2 * WINDOW + 1);
        assertThat(remember(claim, 7, WINDOW)).isEqualTo(Fit.YES);
    }

    @Test
    void whatHasChargedNothingAlwaysFits() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        List<Usage> used = List.of(Usage.of(claim, 10, false, at, at + WINDOW));
        List<Usage> violated = List.of(Usage.of(claim, 10, true, at, at + WINDOW));
        assertThat(store.remember(Decision.ofPeek(Source.OTHER, at, used))).isEqualTo(Fit.YES);
        assertThat(store.remember(Decision.ofTake(Source.OTHER, at, violated))).isEqualTo(Fit.YES);
        assertThat(store.remember(Decision.ofTake(Source.OTHER, at, used))).isEqualTo(Fit.NO);
    }

    @Test
    void aClockThatStepsBackKeepsNobodyOutForLongerThanTwoWindows() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 10, WINDOW);
        clock.advance(Duration.ofHours(-5));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(2 * WINDOW + 1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void aClockThatStepsBackPullsAlsoWhatWillBeKnownLater() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 9, false, at, at + 1_000))));
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 4, false, at, at + WINDOW))));
        clock.advanceMillis(-30_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(WINDOW + 1);
        clock.advanceMillis(WINDOW + 1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void theShareIsRoundedTowardsDenying() {
        Limit limit = Limit.perMinute(10);
        RateLimiter limiter = limiter(limit);
        remember(limiter, "a", 1, WINDOW);
        store.share(0.29);
        // floor(2.9) − ceil(0.29)
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        store.share(0.09);
        // One permit is left of every limit, and this key's is used.
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        assertThat(now(limiter.peek("b")).remaining()).isEqualTo(1);
    }

    /** Asked any earlier, it is denied; asked then, it is allowed: against what is tried millisecond by millisecond. */
    @ParameterizedTest
    @ValueSource(strings = {"8/97ms", "8/97ms counter", "8/97ms counter aligned", "8/97ms resolution=7ms"})
    void theRetryAfterIsExactWhateverWeighsOnACount(String text) {
        Random random = new Random(7);
        for (int run = 0; run < 200; run++) {
            String key = "key-" + run;
            store.share(random.nextInt(4) == 0 ? 0.6 : 1);
            RateLimiter limiter = limiter(Limit.parse(text));
            int most = store.share() == 1 ? 8 : 4;
            for (int step = 0; step < 6; step++) {
                switch (random.nextInt(4)) {
                    case 0 -> remember(limiter, key, random.nextInt(9), 1 + random.nextInt(190));
                    case 1 -> store.toSettle(1, claim -> false);
                    default -> now(limiter.tryAcquire(key, 1 + random.nextInt(most)));
                }
                clock.advanceMillis(random.nextInt(60));
            }
            int cost = 1 + random.nextInt(most);
            Decision denied = now(limiter.peek(Charge.of(key).permits(cost)));
            if (denied.isAllowed()) {
                continue;
            }
            long wait = denied.retryAfter().orElseThrow().toMillis();
            for (long waited = 0; waited < wait; waited++) {
                assertThat(now(limiter.peek(Charge.of(key).permits(cost))).isAllowed())
                        .as("run %d after %d of %d ms", run, waited, wait)
                        .isFalse();
                clock.advanceMillis(1);
            }
            assertThat(now(limiter.peek(Charge.of(key).permits(cost))).isAllowed())
                    .as("run %d after %d ms", run, wait)
                    .isTrue();
        }
    }

    @Test
    void ofTwoAnswersOfOneInstantTheOneThatTellsMoreHoldsAsLongAsItCounts() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 7, false, at, at + 5_000))));
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 9, false, at, at + 5_000))));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        clock.advanceMillis(5_000);
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 4, false, at, at + 5_000))));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    @Test
    void ofTwoAnswersOfOneInstantTheOneThatTellsOfLessForLongerHoldsWhenTheOtherIsGone() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 9, false, at, at + 5_000))));
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 4, false, at, at + 8_000))));
        assertThat(fitsAfter(limiter, "a", 2)).isEqualTo(5_000);
        assertThat(fitsAfter(limiter, "a", 7)).isEqualTo(8_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(8_000);
        clock.advanceMillis(4_999);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        clock.advanceMillis(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
        assertThat(fitsAfter(limiter, "a", 7)).isEqualTo(3_000);
        clock.advanceMillis(2_999);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
        clock.advanceMillis(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void whatIsGoneOfWhatWasKnownDoesNotMakeTheRestLastLonger() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 9, false, at, at + 1_000))));
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 7, false, at, at + 2_000))));
        clock.advanceMillis(1_500);
        store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 5, false, at, at + 2_500))));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        clock.advanceMillis(500);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
        clock.advanceMillis(2_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void whatIsGivenBackOrKnownAnewIsNotWhatWillBeKnownLaterEither() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        for (String key : List.of("part", "all", "anew")) {
            Claim claim = claim(limiter, key);
            long at = clock.millis();
            store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 7, false, at, at + 5_000))));
            store.remember(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 4, false, at, at + 8_000))));
        }
        limiter.refund("part", 5).block();
        limiter.refund("all", 7).block();
        assertThat(wholeAfter(limiter, "part")).isEqualTo(8_000);
        assertThat(wholeAfter(limiter, "all")).isZero();
        clock.advanceMillis(1);
        remember(limiter, "anew", 3, 4_999);
        assertThat(wholeAfter(limiter, "anew")).isEqualTo(4_999);
        clock.advanceMillis(4_999);
        assertThat(now(limiter.peek("part")).remaining()).isEqualTo(8);
        assertThat(now(limiter.peek("all")).remaining()).isEqualTo(10);
        assertThat(now(limiter.peek("anew")).remaining()).isEqualTo(10);
    }

    @Test
    void aKeyIsWholeAgainWhenNothingWeighsOnItAnyMore() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        remember(limiter, "a", 7, 50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(50_000);
        limiter.refund("a", 7).block();
        assertThat(wholeAfter(limiter, "a")).isZero();
        now(limiter.tryAcquire("a", 2));
        store.toSettle(10, claim -> false);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW);
        remember(limiter, "a", 1, 50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW);
        clock.advanceMillis(50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW - 50_000);
    }

    @Test
    void whatTheOtherStoreHasTakenAndGivesBackIsKnownNoMore() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 7, WINDOW);
        Claim three = claim(limiter, "a").asking(3);
        long at = clock.millis();
        store.refund(Decision.ofTake(Source.OTHER, at, List.of(Usage.of(three, 7, false, at, at + WINDOW))))
                .block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    @Test
    void aRefundTakesNothingOffWhatIsKnownOnceThatIsGone() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 5, 50_000);
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(50_000);
        limiter.refund("a", 2).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(9);
    }

    @Test
    void anAnswerThatTellsOfNoUseIsNotRemembered() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        remember(limiter, "a", 0, 0);
        store.counts().cleanUp();
        assertThat(store.counts().estimatedSize()).isZero();
    }

    @Test
    void whomTheOtherStoreHasDeniedIsKeptApartAndWhomItHasAllowedIsNot() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        remember(claim, 10, WINDOW);
        assertThat(store.apart().size()).isZero();
        store.remember(denied(claim, clock.millis(), clock.millis() + WINDOW));
        assertThat(store.apart().size()).isEqualTo(1);
    }

    /** By its clock, which need not be ours. */
    @Test
    void whomTheOtherStoreHasDeniedIsKeptApartUntilHeIsWholeThere() {
        LocalStore small = LocalStore.bounded(16, clock);
        RateLimiter limiter = limiter(Limit.perMinute(10));
        long there = clock.millis() - Duration.ofDays(3).toMillis();
        Claim late = claim(limiter, "late");
        for (int i = 0; i < 16; i++) {
            small.remember(denied(claim(limiter, "key-" + i), there, there + 5_000));
        }
        clock.advanceMillis(4_999);
        small.remember(denied(late, there + 4_999, there + WINDOW));
        assertThat(small.apart().get(late.handle())).isNull();
        clock.advanceMillis(1);
        small.remember(denied(late, there + 5_000, there + WINDOW));
        assertThat(small.apart().get(late.handle())).isNotNull();
    }

    /** One answer has found the count of a key and is about to lock it, when the store forgets it. */
    @Test
    void anAnswerIsNotRememberedInACountThatIsForgottenMeanwhile() throws Exception {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Claim claim = claim(limiter, "a");
        remember(claim, 1, WINDOW);
        Count forgotten = store.counts().asMap().values().iterator().next();
        Thread answer = new Thread(() -> remember(claim, 7, WINDOW));

        synchronized (forgotten) {
            answer.start();
            await().until(() -> answer.getState() == Thread.State.BLOCKED);
            Policy.Eviction<Object, Count> bound =
                    store.counts().policy().eviction().orElseThrow();
            bound.setMaximum(0);
            bound.setMaximum(1_000);
            assertThat(forgotten.isRetired()).isTrue();
        }
        answer.join();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
    }

    /** No wait helps but that the other store decides again, which has the whole limit. */
    @Test
    void whoAsksForMoreThanTheShareMayComeBackInASecond() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        store.share(0.5);
        Decision denied = now(limiter.tryAcquire("a", 6));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).hasValue(Duration.ofSeconds(1));
        assertThat(now(limiter.tryAcquire("a", 5)).isAllowed()).isTrue();
    }

    // What is owed

    @Test
    void whatSomebodyAsksForIsHandedOverBeforeAllTheRest() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        assertThat(store.owes(List.of(claim(limiter, "a")))).isFalse();
        for (int i = 0; i < 50; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        assertThat(store.owes(List.of(claim(limiter, "nobody")))).isFalse();
        for (int i : new int[] {31, 4, 17}) {
            Claim wanted = claim(limiter, "key-" + i);
            assertThat(store.owes(List.of(claim(limiter, "nobody"), wanted))).isTrue();
            assertThat(store.toSettle(1, claim -> false))
                    .extracting(one -> one.claim().identity())
                    .containsExactly(wanted.identity());
            assertThat(store.owes(List.of(wanted))).isFalse();
        }
    }

    @Test
    void whoWasAskedForOnceWaitsHisTurnTheNextTime() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        for (int i = 0; i < 30; i++) {
            now(limiter.tryAcquire("early-" + i));
            assertThat(store.owes(List.of(claim(limiter, "early-" + i)))).isTrue();
        }
        store.toSettle(100, claim -> false).forEach(one -> store.settled(one, true));
        for (int i = 0; i < 30; i++) {
            now(limiter.tryAcquire("early-" + i));
        }
        now(limiter.tryAcquire("late"));
        Claim late = claim(limiter, "late");
        assertThat(store.owes(List.of(late))).isTrue();
        assertThat(store.toSettle(1, claim -> false))
                .extracting(one -> one.claim().identity())
                .containsExactly(late.identity());
    }

    @Test
    void whatHasLeftBeforeItIsForgottenIsNotToldAsLost() {
        LocalStore small = LocalStore.bounded(16, clock);
        small.standInFor(new Unprotected(store));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(small)
                .limit(Limit.perMinute(10))
                .build();
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("early-" + i, 2));
        }
        clock.advanceMillis(WINDOW + 1);
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire("late-" + i, 0));
        }
        small.counts().cleanUp();
        assertThat(small.state().toSettle()).as("as some are forgotten").isLessThan(20);
        assertThat(small.state().lost()).isZero();
    }

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter"})
    void whereTheClockHasSteppedBackWhatLiesAheadIsHandedOverAsTakenNow(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(-5_000);
        Settlement settlement = store.toSettle(10, claim -> false).get(0);
        clock.advanceMillis(10_000);
        assertThat(settlement.ages()).containsExactly(new Settlement.Hits(10_000, 10_000, 2));
    }

    @Test
    void aCounterIsHandedOverAsTheWindowsThatHoldSomething() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        now(limiter.tryAcquire("current", 4));
        assertThat(store.toSettle(10, claim -> false).get(0).ages()).containsExactly(new Settlement.Hits(0, 0, 4));
        now(limiter.tryAcquire("before", 4));
        clock.advanceMillis(WINDOW);
        assertThat(store.toSettle(10, claim -> false).get(0).ages()).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"3/1m", "3/1m counter"})
    void whatADenialRecordsIsOwedAtOnce(String text) {
        RateLimiter limiter = limiter(Limit.parse(text).countingDenied());
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(10_000);
        assertThat(now(limiter.tryAcquire("a", 2)).isAllowed()).isFalse();
        assertThat(store.state().toSettle()).isEqualTo(3);
        assertThat(store.toSettle(10, claim -> false).get(0).ages())
                .last()
                .extracting(Settlement.Hits::toMillis)
                .isEqualTo(0L);
    }

    @Test
    void whatIsTakenBackHereIsNotGivenBackElsewhereToo() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision first = now(limiter.tryAcquire("a", 2));
        store.toSettle(10, claim -> false);
        Decision second = now(limiter.tryAcquire("a", 3));
        assertThat(store.takeBack(second)).isEmpty();
        assertThat(store.takeBack(first)).extracting(Claim::permits).containsExactly(2L);
        now(limiter.tryAcquire("a"));
        assertThat(store.takeBack(first)).extracting(Claim::permits).containsExactly(1L);
    }

    @Test
    void aClockThatStepsBackKeepsNobodyOutForWhatIsHandedOverForLongerThanTwoWindows() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 10));
        store.toSettle(10, claim -> false);
        clock.advance(Duration.ofHours(-5));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(2 * WINDOW + 1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void nothingIsOwedByAStoreThatStandsInForNobody() {
        LocalStore alone = LocalStore.bounded(1_000, clock);
        now(RateLimiter.builder("api")
                .store(alone)
                .limit(Limit.perMinute(10))
                .build()
                .tryAcquire("a", 4));
        assertThat(alone.state().toSettle()).isZero();
        assertThat(alone.toSettle(10, claim -> false)).isEmpty();
    }

    @Test
    void whatIsHandedOverHasItsTimesAndGoesOnCounting() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(1_000);
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(500);
        List<Settlement> settlements = store.toSettle(10, claim -> false);
        assertThat(settlements).hasSize(1);
        assertThat(settlements.get(0).permits()).isEqualTo(5);
        assertThat(settlements.get(0).ages())
                .containsExactly(new Settlement.Hits(1_500, 1_500, 2), new Settlement.Hits(500, 500, 3));
        clock.advanceMillis(100);
        assertThat(settlements.get(0).ages().get(1).toMillis()).isEqualTo(600);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
        assertThat(store.state().toSettle()).isEqualTo(5);
    }

    @Test
    void aCountIsHandedOverOnceUntilItsFateIsKnown() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        Settlement first = store.toSettle(10, claim -> false).get(0);
        now(limiter.tryAcquire("a", 3));
        assertThat(store.toSettle(10, claim -> false)).isEmpty();
        remember(limiter, "a", 2, WINDOW);
        store.settled(first, true);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
        Settlement second = store.toSettle(10, claim -> false).get(0);
        assertThat(second.permits()).isEqualTo(3);
        assertThat(second.id()).isNotEqualTo(first.id());
        store.settled(second, true);
        assertThat(store.state().toSettle()).isZero();
        assertThat(store.state().settled()).isEqualTo(5);
        assertThat(store.toSettle(10, claim -> false)).isEmpty();
    }

    @Test
    void whatIsInDoubtIsLeftAlone() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        now(limiter.tryAcquire("b", 3));
        List<Settlement> settlements =
                store.toSettle(10, claim -> claim.identity().contains("{a}"));
        assertThat(settlements.stream().map(Settlement::permits)).containsExactly(3L);
    }

    @Test
    void noMoreIsHandedOverThanWasAskedFor() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        for (int i = 0; i < 50; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        List<String> ids = new ArrayList<>();
        for (int batch = 0; batch < 5; batch++) {
            List<Settlement> settlements = store.toSettle(10, claim -> false);
            assertThat(settlements).hasSize(10);
            settlements.forEach(one -> {
                ids.add(one.id());
                store.settled(one, true);
            });
        }
        assertThat(ids).doesNotHaveDuplicates();
        assertThat(store.toSettle(10, claim -> false)).isEmpty();
    }

    @Test
    void whatHasLeftIsNotOwedAnyMore() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(30_000);
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(30_001);
        assertThat(store.toSettle(10, claim -> false).get(0).permits()).isEqualTo(3);
        assertThat(store.state().toSettle()).isEqualTo(3);
    }

    @Test
    void whatHasLeftAltogetherIsNotOwedAnyMoreEither() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(WINDOW + 1);
        assertThat(store.toSettle(10, claim -> false)).isEmpty();
        assertThat(store.state().toSettle()).isZero();
        assertThat(store.state().lost()).isZero();
    }

    @Test
    void aCounterIsHandedOverAsItsTwoWindows() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        now(limiter.tryAcquire("a", 4));
        clock.advanceMillis(WINDOW + 30_000);
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(1_000);
        assertThat(store.toSettle(10, claim -> false).get(0).ages())
                .containsExactly(
                        new Settlement.Hits(WINDOW + 31_000, 31_001, 4), new Settlement.Hits(31_000, 1_000, 3));
    }

    @Test
    void aLogWithManyEntriesIsHandedOverInAFewThatErrTowardsDenying() {
        RateLimiter limiter = limiter(Limit.of(1_000, Duration.ofMinutes(1)));
        for (int i = 0; i < 1_000; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(3);
        }
        Settlement settlement = store.toSettle(10, claim -> false).get(0);
        assertThat(settlement.permits()).isEqualTo(1_000);
        assertThat(settlement.ages()).hasSizeLessThanOrEqualTo(64);
        long seenSoFar = 0;
        for (Settlement.Hits hits : settlement.ages()) {
            seenSoFar += hits.permits();
            assertThat(hits.toMillis()).as("the age of the last of them").isEqualTo(3_000 - 3 * (seenSoFar - 1));
        }
    }

    @Test
    void aLogOfSixtyFourEntriesIsHandedOverAsItIs() {
        RateLimiter limiter = limiter(Limit.of(1_000, Duration.ofMinutes(1)));
        // These will have left by then.
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(1);
        }
        clock.advanceMillis(30_000);
        for (int i = 0; i < 64; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(3);
        }
        clock.advanceMillis(WINDOW - 30_000);
        assertThat(store.toSettle(10, claim -> false).get(0).ages())
                .hasSize(64)
                .allMatch(hits -> hits.permits() == 1 && hits.fromMillis() == hits.toMillis());
    }

    /** A hit of a slot may have come at any time of it. */
    @Test
    void theHitsOfASlotAreHandedOverAsOfAllOfIt() {
        RateLimiter limiter = limiter(Limit.parse("10/1m resolution=1s"));
        clock.advanceMillis(300);
        now(limiter.tryAcquire("a", 2));
        clock.advanceMillis(100);
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(5_000);
        now(limiter.tryAcquire("a", 1));
        clock.advanceMillis(1_600);
        // At 7,000, of the slots from 0 to 999 and from 5,000 to 5,999.
        assertThat(store.toSettle(10, claim -> false).get(0).ages())
                .containsExactly(new Settlement.Hits(7_000, 6_001, 5), new Settlement.Hits(2_000, 1_001, 1));
    }

    @Test
    void whatIsForgottenForWantOfMemoryIsToldAsLost() {
        LocalStore small = LocalStore.bounded(16, clock);
        small.standInFor(new Unprotected(store));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(small)
                .limit(Limit.perMinute(10))
                .build();
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire("key-" + i, 2));
        }
        small.counts().cleanUp();
        assertThat(small.state().lost()).isGreaterThan(900);
        assertThat(small.state().lost() + small.state().toSettle()).isEqualTo(1_000);
        long handedOver = small.toSettle(1_000, claim -> false).stream()
                .mapToLong(Settlement::permits)
                .sum();
        assertThat(handedOver).isEqualTo(small.state().toSettle());
    }

    @Test
    void whatIsForgottenForWantOfMemoryTakesNoneAnyMore() {
        LocalStore small = LocalStore.bounded(16, clock);
        small.standInFor(new Unprotected(store));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(small)
                .limit(Limit.perMinute(10))
                .build();
        List<WeakReference<Count>> counts = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire("key-" + i, 2));
            small.counts().asMap().values().forEach(count -> counts.add(new WeakReference<>(count)));
        }
        await().untilAsserted(() -> {
            System.gc();
            assertThat(counts.stream()
                            .map(WeakReference::get)
                            .filter(Objects::nonNull)
                            .distinct())
                    .hasSizeLessThanOrEqualTo(17);
        });
    }

    @Test
    void whatWhoeverIsKeptApartOwesIsNotLostWhenTheCacheForgetsHim() {
        LocalStore small = LocalStore.bounded(16, clock);
        small.standInFor(new Unprotected(store));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(small)
                .limit(Limit.perMinute(10))
                .build();
        now(limiter.tryAcquire("a", 10));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire("key-" + i, 0));
        }
        small.counts().cleanUp();
        assertThat(small.state().lost()).isZero();
        assertThat(small.toSettle(10, claim -> false))
                .extracting(Settlement::permits)
                .containsExactly(10L);
    }

    @Test
    void aResetForgetsWhatIsOwed() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        now(limiter.tryAcquire("a", 2));
        remember(limiter, "a", 5, WINDOW);
        limiter.reset("a").block();
        assertThat(store.state().toSettle()).isZero();
        assertThat(store.toSettle(10, claim -> false)).isEmpty();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    /** What the other store has said before it heard of the reset may be heard after it, in any order. */
    @Test
    void afterAResetNothingIsTakenOffWhatIsKnownUntilNoAnswerOfBeforeCanCome() {
        RateLimiter limiter = limiter(Limit.perHour(10));
        limiter.tryAcquire("a").block();
        limiter.reset("a").block();
        Decision before = taken(limiter, "a", 2);
        clock.advanceMillis(1);
        taken(limiter, "a", 3);
        store.refund(before).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(7);

        clock.advanceMillis(61_000);
        Decision after = taken(limiter, "a", 4);
        store.refund(after).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    /** Its first answer is still on its way when it is reset. */
    @Test
    void aResetOfWhatNothingIsKnownOfYetHoldsToo() {
        RateLimiter limiter = limiter(Limit.perHour(10));
        limiter.reset("a").block();
        Decision before = taken(limiter, "a", 2);
        clock.advanceMillis(1);
        taken(limiter, "a", 3);
        store.refund(before).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(7);
    }

    @Test
    void whereTheClockHasSteppedBackAResetIsNotLongerAgoThanItWas() {
        RateLimiter limiter = limiter(Limit.perHour(10));
        limiter.tryAcquire("a").block();
        clock.advanceMillis(3_600_000);
        limiter.tryAcquire("a").block();
        limiter.reset("a").block();
        clock.advanceMillis(-3_600_000);
        now(limiter.peek("a"));
        clock.advanceMillis(61_000);
        store.refund(taken(limiter, "a", 4)).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void whatAResetHasForgottenIsNotOwedBackElsewhere() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        Decision before = now(limiter.tryAcquire("a", 2));
        limiter.reset("a").block();
        now(limiter.tryAcquire("a", 3));
        assertThat(store.toSettle(10, claim -> false)).hasSize(1);
        assertThat(store.takeBack(before)).isEmpty();
        assertThat(store.state().toSettle()).isEqualTo(3);
    }

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter"})
    void aRefundTakesWhatIsKnownFirstForItIsOlder(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        remember(limiter, "a", 5, WINDOW);
        now(limiter.tryAcquire("a", 3));
        limiter.refund("a", 6).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(8);
        assertThat(store.state().toSettle()).isEqualTo(2);
    }

    @Test
    void aSettlementThatIsLostWasNeverChargedAndIsNotGivenBackElsewhere() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision decision = now(limiter.tryAcquire("a", 2));
        Settlement settlement = store.toSettle(10, claim -> false).get(0);
        assertThat(store.takeBack(decision)).hasSize(1);
        store.settled(settlement, false);
        assertThat(store.takeBack(decision)).isEmpty();
        assertThat(store.state().lost()).isEqualTo(2);
    }

    @Test
    void whatIsTakenBackOfASettledDecisionIsToBeGivenBackElsewhereOnlyAsLongAsItCounts() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision decision = now(limiter.tryAcquire("a", 2));
        store.settled(store.toSettle(10, claim -> false).get(0), true);
        List<Claim> rest = store.takeBack(decision);
        assertThat(rest).hasSize(1);
        assertThat(rest.get(0).permits()).isEqualTo(2);
        clock.advanceMillis(WINDOW + 1);
        assertThat(store.takeBack(decision)).isEmpty();
    }

    @Test
    void whatWasSettledFirstIsToBeGivenBackElsewhereAlsoAfterTheNextSettlement() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        Decision first = now(limiter.tryAcquire("a", 2));
        store.settled(store.toSettle(10, claim -> false).get(0), true);
        clock.advanceMillis(1_000);
        Decision second = now(limiter.tryAcquire("a", 3));
        store.settled(store.toSettle(10, claim -> false).get(0), true);
        assertThat(store.takeBack(first)).extracting(Claim::permits).containsExactly(2L);
        assertThat(store.takeBack(second)).extracting(Claim::permits).containsExactly(3L);
    }

    @Test
    void countedDenialsAreOwedToo() {
        RateLimiter limiter = limiter(Limit.of(3, Duration.ofMinutes(1)).countingDenied());
        now(limiter.tryAcquire("a", 3));
        clock.advanceMillis(10_000);
        assertThat(now(limiter.tryAcquire("a", 2)).isAllowed()).isFalse();
        Settlement settlement = store.toSettle(10, claim -> false).get(0);
        assertThat(settlement.permits()).isEqualTo(3);
        assertThat(store.state().toSettle()).isEqualTo(3);
        assertThat(settlement.ages().get(1)).isEqualTo(new Settlement.Hits(0, 0, 2));
    }

    @Test
    void permitsAreOwedOrSettledOrLostAndNeverAnythingElse() {
        Random random = new Random(11);
        RateLimiter limiter = limiter(
                Limit.of(6, Duration.ofMillis(200)),
                Limit.of(9, Duration.ofMillis(300)).counter());
        List<Decision> decisions = new ArrayList<>();
        List<Settlement> open = new ArrayList<>();
        for (int step = 0; step < 20_000; step++) {
            String key = "key-" + random.nextInt(8);
            switch (random.nextInt(10)) {
                case 0 -> open.addAll(store.toSettle(random.nextInt(4), claim -> random.nextBoolean()));
                case 1, 2 -> {
                    if (!open.isEmpty()) {
                        store.settled(open.remove(random.nextInt(open.size())), random.nextInt(4) > 0);
                    }
                }
                case 3 -> {
                    if (!decisions.isEmpty()) {
                        store.takeBack(decisions.remove(random.nextInt(decisions.size())));
                    }
                }
                case 4 -> limiter.refund(key, 1 + random.nextInt(3)).block();
                case 5 -> clock.advanceMillis(random.nextInt(80));
                default -> {
                    Decision decision = now(limiter.tryAcquire(key, 1 + random.nextInt(3)));
                    if (decision.isCharged()) {
                        decisions.add(decision);
                    }
                }
            }
            assertThat(store.state().toSettle()).isNotNegative();
        }
        open.forEach(one -> store.settled(one, true));
        store.toSettle(1_000, claim -> false).forEach(one -> store.settled(one, true));
        assertThat(store.state().toSettle()).isZero();
    }

    private RateLimiter limiter(Limit... limits) {
        RateLimiter.Builder builder = RateLimiter.builder("api").store(watched);
        IntStream.range(0, limits.length).forEach(i -> builder.limit(limits[i].named("limit-" + i)));
        return builder.build();
    }

    /** The other store has taken so much, of what was whole. */
    private Decision taken(RateLimiter limiter, String key, long permits) {
        Claim claim = claim(limiter, key).asking(permits);
        long at = clock.millis();
        Decision taken = Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, permits, false, at, at + WINDOW)));
        store.remember(taken);
        return taken;
    }

    /** The other store has said that so much is used, for so long. */
    private Fit remember(RateLimiter limiter, String key, long used, long millis) {
        return remember(claim(limiter, key).asking(1), used, millis);
    }

    private Fit remember(Claim claim, long used, long millis) {
        long at = clock.millis();
        return store.remember(
                Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, used, false, at, at + millis))));
    }

    private static Decision denied(Claim claim, long at, long until) {
        return Decision.ofTake(Source.OTHER, at, List.of(Usage.of(claim, 10, true, until, until)));
    }

    private static long fitsAfter(RateLimiter limiter, String key, long cost) {
        return now(limiter.peek(Charge.of(key).permits(cost)))
                .retryAfter()
                .orElseThrow()
                .toMillis();
    }

    private static long wholeAfter(RateLimiter limiter, String key) {
        Decision decision = now(limiter.peek(key));
        return decision.limits().get(0).wholeAt().toEpochMilli() - decision.at().toEpochMilli();
    }

    private Claim claim(RateLimiter limiter, String key) {
        now(limiter.peek(key));
        return seen.get(seen.size() - 1).get(0);
    }

    private static Decision now(Mono<Decision> decision) {
        return requireNonNull(decision.block());
    }
}
