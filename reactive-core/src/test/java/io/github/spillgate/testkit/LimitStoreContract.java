package io.github.spillgate.testkit;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The contract of every {@link LimitStore}. To test a store of your own, extend this class and return the store. The
 * class is in the artifact of the core with the classifier {@code contract}, which needs JUnit Jupiter and AssertJ.
 *
 * <p>What {@link LimitStore} calls optional may be left out. Settlements and concurrency limits are tested, unless the
 * subclass says that the store does not have them.
 *
 * <p>No test depends on the speed of the machine: either the windows are longer than the test, or each decision is
 * checked against its own instant.
 */
public abstract class LimitStoreContract {

    private static final AtomicInteger NUMBER = new AtomicInteger();
    private static final Duration SOON = Duration.ofMillis(150);
    private static final Duration NEVER = Duration.ofHours(5);

    /** The limiters of one test share its number, and no test shares another's counts. */
    private final String name = "contract-" + NUMBER.incrementAndGet() + "-" + System.nanoTime();

    private @Nullable LimitStore unprotected;

    /**
     * Returns the store under test; the same one throughout a test.
     *
     * @return the store
     */
    protected abstract LimitStore store();

    /**
     * Lets a little time pass on the store's clock. Override it if the test sets that clock, and advance it by a
     * millisecond.
     */
    protected void tick() {
        LockSupport.parkNanos(200_000);
    }

    /**
     * Returns whether the store applies a {@link io.github.spillgate.spi.Settlement}.
     *
     * @return true by default; with false the tests of settlements are skipped
     */
    protected boolean hasSettlements() {
        return true;
    }

    /**
     * Returns whether the store implements {@link LimitStore#hold}.
     *
     * @return true by default; with false the tests of concurrency limits are skipped
     */
    protected boolean hasConcurrencyLimits() {
        return true;
    }

    /**
     * Returns whether the store implements {@link LimitStore#exchange}.
     *
     * @return true by default; with false the tests of exchanges are skipped
     */
    protected boolean hasExchanges() {
        return true;
    }

    // How much is admitted

    @ParameterizedTest
    @MethodSource("kinds")
    void admitsExactlyThePermits(Limit limit) {
        RateLimiter limiter = limiter(limit);
        for (int taken = 1; taken <= limit.permits(); taken++) {
            Decision decision = now(limiter.tryAcquire("a"));
            assertThat(decision.isAllowed()).isTrue();
            assertThat(decision.isCharged()).isTrue();
            assertThat(decision.remaining()).isEqualTo(limit.permits() - taken);
            assertThat(decision.violated()).isEmpty();
            assertThat(decision.retryAfter()).isEmpty();
            assertThat(only(decision).used()).isEqualTo(taken);
        }
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.isCharged()).isFalse();
        assertThat(denied.remaining()).isZero();
        assertThat(denied.violated()).containsExactly(limit);
        assertThat(denied.retryAfter()).isPresent();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aCostIsChargedCompletelyOrNotAtAll(Limit limit) {
        RateLimiter limiter = limiter(limit);
        assertThat(now(limiter.tryAcquire(Charge.of("a", limit.permits() - 1))).isAllowed())
                .isTrue();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 2))).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).isAllowed()).isFalse();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void deniedRequestsRecordNothing(Limit limit) {
        RateLimiter limiter = limiter(limit);
        now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        Usage full = only(now(limiter.peek("a")));
        for (int i = 0; i < 20; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        }
        Usage after = only(now(limiter.peek("a")));
        assertThat(after.used()).isLessThanOrEqualTo(full.used());
        assertThat(after.wholeAt()).isEqualTo(full.wholeAt());
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aCostOfZeroIsAllowedAndChargesNothing(Limit limit) {
        RateLimiter limiter = limiter(limit);
        now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 0)));
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.isCharged()).isFalse();
        assertThat(only(decision).used()).isEqualTo(limit.permits());
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aCostAboveTheLimitIsDeniedWithoutARetryTime(Limit limit) {
        Decision decision = now(limiter(limit).tryAcquire(Charge.of("a", limit.permits() + 1)));
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.violated()).containsExactly(limit);
        assertThat(decision.retryAfter()).isEmpty();
        assertThat(only(now(limiter(limit).peek("a"))).used()).isZero();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "1/1h",
                "1/1h counter",
                "1/1h counter aligned",
                "1/100ms",
                "1/100ms counter",
                "1/1ms",
                "10000000/24h",
                "10000000/24h resolution=5m",
                "1000000000000/24h counter",
                "3/366d",
                "3/366d counter",
                "4294967295/366d",
                "1/1ms burst=1",
                "1/1h burst=1",
                "10000000/24h burst=10000000",
                "100000000000000/1ms burst=100000000000000",
                "9007199254740/1s burst=9007199254740",
                "3/366d burst=300"
            })
    void limitsOfEverySizeWork(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(limit);
        Decision all = now(limiter.tryAcquire(Charge.of("a", limit.capacity())));
        assertThat(all.isAllowed()).isTrue();
        assertThat(all.remaining()).isZero();
        Decision more = now(limiter.tryAcquire("a"));
        Instant gone = all.at().plus(limit.window());
        if (more.at().isBefore(gone) && limit.capacity() == 1) {
            assertThat(more.isAllowed()).isFalse();
            assertThat(more.at().plus(retryAfter(more))).isAfterOrEqualTo(gone);
        } else if (more.at().isBefore(all.at().plus(limit.window().dividedBy(2)))) {
            assertThat(more.isAllowed() || !more.retryAfter().isEmpty()).isTrue();
            Decision allAgain = now(limiter.tryAcquire(Charge.of("a", limit.capacity())));
            assertThat(allAgain.isAllowed() && allAgain.at().isBefore(all.at().plus(limit.window())))
                    .isFalse();
        }
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void concurrentCallersGetExactlyThePermits(Limit limit) {
        Limit twenty = Limit.parse(
                limit.toString().replace("5/", "20/").replace("5 ", "20 ").replace("=5", "=20"));
        RateLimiter limiter = limiter(twenty);
        List<Decision> decisions = requireNonNull(Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire("a").subscribeOn(Schedulers.boundedElastic()), 64)
                .collectList()
                .block());
        assertThat(decisions.stream().filter(Decision::isAllowed)).hasSize(20);
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(20);
    }

    /** Each decision is checked against the level of the bucket at its own instant, in units that need no rounding. */
    @ParameterizedTest
    @ValueSource(strings = {"7/30ms burst=4", "3/1s burst=2", "1/7ms burst=1", "1000/1s burst=30"})
    void aBucketGrantsItsBurstAndThenItsRate(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(limit);
        long window = limit.window().toMillis();
        long level = 0;
        Instant before = now(limiter.peek("a")).at();
        for (int i = 0; i < 200; i++) {
            Decision decision = now(limiter.tryAcquire("a"));
            long passed = Duration.between(before, decision.at()).toMillis();
            level = Math.max(0, level - passed * limit.permits());
            before = decision.at();
            assertThat(decision.isAllowed()).isEqualTo(level + window <= limit.capacity() * window);
            level += decision.isAllowed() ? window : 0;
            assertThat(only(decision).used()).isEqualTo((level + window - 1) / window);
            tick();
        }
    }

    // Several limits and several keys

    @Test
    void aDenialByOneOfThreeLimitsChargesNone() {
        Limit log = Limit.of(100, NEVER).named("log");
        Limit counter = Limit.counter(100, NEVER).named("counter");
        Limit tight = Limit.of(3, NEVER).named("tight");
        RateLimiter limiter = limiter(log, tight, counter);
        for (int i = 0; i < 3; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        }
        List<Long> before = used(now(limiter.peek("a")));
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.violated()).containsExactly(tight);
        assertThat(used(denied)).isEqualTo(before).isEqualTo(List.of(3L, 3L, 3L));
        assertThat(used(now(limiter.peek("a")))).isEqualTo(before);
    }

    @Test
    void severalKeysAreDecidedAtomically() {
        RateLimiter limiter = limiter();
        Limit wide = Limit.of(10, NEVER);
        Limit narrow = Limit.of(1, NEVER);
        Charge[] both = {Charge.of("a", wide).permits(2), Charge.of("b", narrow)};
        assertThat(now(limiter.tryAcquire(both)).isAllowed()).isTrue();
        Decision denied = now(limiter.tryAcquire(both));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.limits()).extracting(Usage::key).containsExactly("a", "b");
        assertThat(denied.limits()).extracting(Usage::isViolated).containsExactly(false, true);
        assertThat(only(now(limiter.peek(Charge.of("a", wide)))).used()).isEqualTo(2);
    }

    @Test
    void equalChargesInOneDecisionAreSummed() {
        RateLimiter limiter = limiter(Limit.of(3, NEVER));
        assertThat(now(limiter.tryAcquire(Charge.of("a", 2), Charge.of("a", 2))).isAllowed())
                .isFalse();
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2), Charge.of("a")));
        assertThat(decision.isAllowed()).isTrue();
        assertThat(only(decision).used()).isEqualTo(3);
    }

    @Test
    void oneDecisionHoldsManyClaims() {
        RateLimiter limiter =
                limiter(Limit.of(5, NEVER), Limit.counter(5, NEVER).named("counter"));
        Charge[] charges = Stream.iterate(0, i -> i + 1)
                .limit(8)
                .map(i -> Charge.of("key-" + i))
                .toArray(Charge[]::new);
        Decision decision = now(limiter.tryAcquire(charges));
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.limits()).hasSize(16).extracting(Usage::used).containsOnly(1L);
    }

    @Test
    void concurrentDecisionsOverSeveralKeysAreAtomic() {
        RateLimiter limiter =
                limiter(Limit.of(40, NEVER), Limit.counter(30, NEVER).named("counter"));
        Charge a = Charge.of("a");
        Charge b = Charge.of("b");
        Charge c = Charge.of("c", 2);
        Charge[][] verdicts = {{a, b}, {b, c}, {c, a}, {c, b, a}};
        List<Decision> allowed = requireNonNull(Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire(verdicts[i % 4]).subscribeOn(Schedulers.boundedElastic()), 64)
                .filter(Decision::isAllowed)
                .collectList()
                .block());
        for (String key : List.of("a", "b", "c")) {
            long taken = allowed.stream()
                    .flatMap(decision -> DecidedClaims.of(decision).stream())
                    .filter(claim -> claim.key().equals(key))
                    .mapToLong(Claim::permits)
                    .sum();
            // Each was counted under two limits.
            assertThat(used(now(limiter.peek(key)))).containsExactly(taken / 2, taken / 2);
            assertThat(taken / 2).isLessThanOrEqualTo(30);
        }
        assertThat(limiter.peek(a, b, c).block().remaining()).isLessThanOrEqualTo(1);
    }

    @Test
    void theRetryAfterIsTheLongestOfTheViolatedLimits() {
        Limit short1 = Limit.of(1, Duration.ofHours(1)).named("short");
        Limit long1 = Limit.of(1, Duration.ofHours(3)).named("long");
        Limit roomy = Limit.of(100, Duration.ofHours(9)).named("roomy");
        RateLimiter limiter = limiter(short1, long1, roomy);
        Decision taken = now(limiter.tryAcquire("a"));
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.violated()).containsExactly(short1, long1);
        assertThat(denied.at().plus(retryAfter(denied)))
                .isEqualTo(taken.at().plus(Duration.ofHours(3)).plusMillis(1));
        assertThat(taken.limits())
                .extracting(Usage::wholeAt)
                .containsExactly(
                        taken.at().plus(Duration.ofHours(1)).plusMillis(1),
                        taken.at().plus(Duration.ofHours(3)).plusMillis(1),
                        taken.at().plus(Duration.ofHours(9)).plusMillis(1));
    }

    @Test
    void theRetryAfterIncludesTheCountedDenial() {
        Limit tight = Limit.of(1, Duration.ofHours(1)).named("tight");
        Limit counting = Limit.of(3, Duration.ofHours(4)).named("counting").countingDenied();
        RateLimiter limiter = limiter(tight, counting);
        now(limiter.tryAcquire("a"));
        now(limiter.tryAcquire("a"));
        Decision third = now(limiter.tryAcquire("a"));
        assertThat(third.violated()).containsExactly(tight);
        assertThat(used(third)).containsExactly(1L, 3L);
        assertThat(retryAfter(third)).isGreaterThan(Duration.ofHours(3));
    }

    @Test
    void operationsOnSeveralKeysApplyToEachKey() {
        RateLimiter limiter =
                limiter(Limit.of(10, NEVER), Limit.counter(10, NEVER).named("counter"));
        Charge[] both = {Charge.of("a", 4), Charge.of("b", 6)};
        Decision decision = now(limiter.tryAcquire(both));
        assertThat(used(now(limiter.peek(both)))).containsExactly(4L, 4L, 6L, 6L);
        assertThat(now(limiter.peek(both)).limits()).extracting(Usage::key).containsExactly("a", "a", "b", "b");
        limiter.refund(Charge.of("a", 1), Charge.of("b", 2)).block();
        assertThat(used(now(limiter.peek(both)))).containsExactly(3L, 3L, 4L, 4L);
        limiter.reset(both).block();
        tick();
        assertThat(used(now(limiter.peek(both)))).containsExactly(0L, 0L, 0L, 0L);

        Decision again = now(limiter.tryAcquire(both));
        limiter.refund(again).block();
        assertThat(used(now(limiter.peek(both)))).containsExactly(0L, 0L, 0L, 0L);
        assertThat(decision.limits()).hasSize(4);
    }

    // What is counted apart

    @Test
    void similarKeysHaveSeparateCounts() {
        RateLimiter limiter = limiter(Limit.of(1, NEVER));
        String huge = "x".repeat(1 << 20);
        List<String> keys = Stream.of(
                        List.of(
                                "a", "A", "a ", " a", "{a}", "{a", "a}", "{}", "}{", "{a}b", "a:b", "a*", "*", "?",
                                "[a]"),
                        List.of(
                                "a\nb", "a\r", "\0", "a\0", "%", "%00", "%25", "#", "é", "e\u0301", "😀", "\ud83d",
                                "\ude00"),
                        List.of("?\ude00", "\ufffd", "ab".repeat(200), "ab".repeat(201), huge, huge + "y", "y" + huge))
                .flatMap(List::stream)
                .toList();
        for (String key : keys) {
            assertThat(now(limiter.tryAcquire(key)).isAllowed())
                    .as("first %.20s", key)
                    .isTrue();
        }
        for (String key : keys) {
            Decision second = now(limiter.tryAcquire(key));
            assertThat(second.isAllowed()).as("second %.20s", key).isFalse();
            if (key.length() <= 128) {
                assertThat(only(second).key()).isEqualTo(key);
            } else {
                assertThat(only(second).key()).matches("#[A-Za-z0-9_-]{43}");
            }
        }
    }

    @Test
    void groupsHaveSeparateCounts() {
        RateLimiter limiter = limiter(Limit.of(1, NEVER));
        List<Charge> charges = List.of(
                Charge.of("a"),
                Charge.of("a").group("a"),
                Charge.of("a").group("b"),
                Charge.of("b").group("a"),
                Charge.of("}a").group("{b"),
                Charge.of("ab").group("c"),
                Charge.of("b").group("ca"));
        for (Charge charge : charges) {
            assertThat(now(limiter.tryAcquire(charge)).isAllowed())
                    .as("%s", charge)
                    .isTrue();
            assertThat(now(limiter.tryAcquire(charge)).isAllowed())
                    .as("%s", charge)
                    .isFalse();
        }
    }

    @Test
    void limitsAndLimitersHaveSeparateCounts() {
        List<Limit> limits = List.of(
                Limit.of(1, Duration.ofHours(1)),
                Limit.of(1, Duration.ofHours(1)).named("other"),
                Limit.of(1, Duration.ofHours(1)).resolution(Duration.ofSeconds(1)),
                Limit.of(1, Duration.ofHours(2)),
                Limit.counter(1, Duration.ofHours(1)),
                Limit.counter(1, Duration.ofHours(1)).alignedToClock(),
                Limit.bucket(1, Duration.ofHours(1), 1));
        for (String limiterName : List.of(name + "-1", name + "-2")) {
            for (Limit limit : limits) {
                RateLimiter limiter = RateLimiter.builder(limiterName)
                        .store(unprotected())
                        .limit(limit)
                        .build();
                assertThat(now(limiter.tryAcquire("a")).isAllowed())
                        .as("%s", limit)
                        .isTrue();
                assertThat(now(limiter.tryAcquire("a")).isAllowed())
                        .as("%s", limit)
                        .isFalse();
            }
        }
    }

    @Test
    void limitersOfOneNameShareTheirCounts() {
        Limit limit = Limit.of(2, NEVER);
        assertThat(now(limiter(limit).tryAcquire("a")).isAllowed()).isTrue();
        assertThat(now(limiter(limit).tryAcquire("a")).isAllowed()).isTrue();
        assertThat(now(limiter(limit).tryAcquire("a")).isAllowed()).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"%d/1h", "%d/1h counter", "1/1h burst=%d", "%1$d/1h burst=%1$d"})
    void raisingAndLoweringThePermitsKeepsTheHistory(String text) {
        assertThat(now(limiter(Limit.parse(text.formatted(3))).tryAcquire(Charge.of("a", 3)))
                        .isAllowed())
                .isTrue();
        Decision raised = now(limiter(Limit.parse(text.formatted(5))).tryAcquire("a"));
        assertThat(raised.isAllowed()).isTrue();
        assertThat(raised.remaining()).isEqualTo(1);
        Decision lowered = now(limiter(Limit.parse(text.formatted(2))).tryAcquire("a"));
        assertThat(lowered.isAllowed()).isFalse();
        assertThat(only(lowered).used()).isEqualTo(4);
        assertThat(lowered.remaining()).isZero();
    }

    // Time

    @ParameterizedTest
    @MethodSource("costs")
    void aRequestIsDeniedBeforeTheRetryTimeAndAllowedAtIt(String text, int cost) {
        RateLimiter limiter = limiter(Limit.parse(text));
        // Three rounds, so that a counter is asked in its first window, in the one after it, and with both counts
        // used.
        for (int round = 0; round < 3; round++) {
            Decision denied = takeUntilDenied(limiter, "a", cost);
            Instant due = denied.at().plus(retryAfter(denied));
            while (true) {
                Decision peeked = now(limiter.peek(Charge.of("a", cost)));
                assertThat(peeked.isAllowed())
                        .as("round %d, due at %s, asked at %s", round, due, peeked.at())
                        .isEqualTo(!peeked.at().isBefore(due));
                if (peeked.isAllowed()) {
                    break;
                }
                tick();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"1/20ms", "5/50ms", "5/50ms resolution=10ms"})
    void noWindowHoldsMoreThanThePermitsOfALog(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(limit);
        List<Instant> admitted = new ArrayList<>();
        Instant end = now(limiter.peek("a")).at().plusMillis(300);
        Decision decision;
        do {
            decision = now(limiter.tryAcquire("a"));
            if (decision.isAllowed()) {
                admitted.add(decision.at());
            }
            tick();
            // A busy machine may need longer to take more than one window's permits.
        } while (decision.at().isBefore(end) || admitted.size() <= limit.permits());
        assertNoWindowHoldsMore(limit, admitted);
    }

    @ParameterizedTest
    @MethodSource("windows")
    void aKeyIsUnusedAtItsResetTime(Limit limit) {
        Limit soon = Limit.parse(limit.toString().replace("5h", "50ms"));
        RateLimiter limiter = limiter(soon);
        Instant whole = only(now(limiter.tryAcquire(Charge.of("a", 2)))).wholeAt();
        while (true) {
            Decision peeked = now(limiter.peek("a"));
            if (!peeked.at().isBefore(whole)) {
                assertThat(only(peeked).used()).isZero();
                assertThat(only(peeked).wholeAt()).isEqualTo(peeked.at());
                return;
            }
            assertThat(only(peeked).wholeAt()).isEqualTo(whole);
            tick();
        }
    }

    @Test
    void aQuotaFitsAgainAtTheEndOfItsPeriod() {
        Limit.Quota quota = Limit.monthly(2).in(ZoneId.of("Europe/Berlin")).from(31);
        RateLimiter limiter = limiter(quota);
        Usage taken = only(now(limiter.tryAcquire(Charge.of("a", 2))));
        Decision denied = now(limiter.tryAcquire("a"));
        Instant end = quota.periodEnd(denied.at());
        assertThat(taken.wholeAt()).isEqualTo(end);
        assertThat(only(denied).fitsAt()).isEqualTo(end);
        assertThat(denied.retryAfter()).contains(Duration.between(denied.at(), end));
    }

    // Counting denied requests

    @ParameterizedTest
    @MethodSource("kinds")
    void countedDenialsNeverExceedTheLimit(Limit limit) {
        RateLimiter limiter = limiter(limit.countingDenied());
        now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        Usage first = only(now(limiter.peek("a")));
        pass(Duration.ofMillis(20), limiter);
        for (int i = 0; i < 3 * limit.permits(); i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        }
        Usage after = only(now(limiter.peek("a")));
        assertThat(after.used()).isEqualTo(limit.permits());
        assertThat(after.wholeAt()).isAfterOrEqualTo(first.wholeAt());
    }

    @Test
    void countedDenialsKeepAPersistentClientDenied() {
        Limit limit = Limit.of(2, SOON).countingDenied();
        RateLimiter limiter = limiter(limit);
        Decision beforeLast = takeUntilDenied(limiter, "a", 1);
        Decision last = now(limiter.tryAcquire("a"));
        Instant end = last.at().plus(SOON.multipliedBy(2));
        while (last.at().isBefore(end)) {
            Decision next = now(limiter.tryAcquire("a"));
            // The two before this one keep it out, if they are in the window. A machine that slept so long lets it in,
            // rightly.
            if (Duration.between(beforeLast.at(), next.at()).compareTo(SOON) < 0) {
                assertThat(next.isAllowed()).isFalse();
            }
            beforeLast = last;
            last = next;
            tick();
        }
    }

    @Test
    void aDenialIsRecordedOnlyInLimitsThatCountDenied() {
        Limit plain = Limit.of(10, NEVER).named("plain");
        Limit counting = Limit.of(10, NEVER).named("counting").countingDenied();
        Limit tight = Limit.of(1, NEVER).named("tight");
        RateLimiter limiter = limiter(plain, counting, tight);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.violated()).containsExactly(tight);
        assertThat(used(denied)).containsExactly(1L, 2L, 1L);
        assertThat(used(now(limiter.peek("a")))).containsExactly(1L, 2L, 1L);
    }

    // Settle

    @ParameterizedTest
    @MethodSource("kinds")
    void aLowerRealCostRefundsTheDifference(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision all = now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        limiter.settle(all, 1).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(1);
        assertThat(now(limiter.tryAcquire(Charge.of("a", limit.permits() - 1))).isAllowed())
                .isTrue();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aHigherRealCostIsChargedEvenAboveTheLimit(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision one = now(limiter.tryAcquire(Charge.of("a", 1)));
        limiter.settle(one, limit.permits() + 1).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(limit.permits() + 1);
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).isPresent();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aDebtIsAtMostOneFullLimit(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision first = now(limiter.tryAcquire(Charge.of("a", 1)));
        Decision second = now(limiter.tryAcquire(Charge.of("a", 1)));
        limiter.settle(first, Long.MAX_VALUE).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(2 * limit.capacity());
        limiter.settle(second, 1_000).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(2 * limit.capacity());
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aDecisionIsSettledOrRefundedOnce(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision settled = now(limiter.tryAcquire(Charge.of("a", 1)));
        limiter.settle(settled, 2).block();
        limiter.settle(settled, 3).block();
        limiter.refund(settled).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(2);
        Decision equal = now(limiter.tryAcquire(Charge.of("b", 1)));
        limiter.settle(equal, 1).block();
        limiter.settle(equal, 2).block();
        limiter.refund(equal).block();
        assertThat(only(now(limiter.peek("b"))).used()).isEqualTo(1);
        Decision refunded = now(limiter.tryAcquire(Charge.of("c", 1)));
        limiter.refund(refunded).block();
        limiter.settle(refunded, 2).block();
        assertThat(only(now(limiter.peek("c"))).used()).isZero();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aRealCostOfZeroRefundsEverything(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        limiter.settle(now(limiter.tryAcquire(Charge.of("a", 2))), 0).block();
        assertThat(only(now(limiter.peek("a"))).used()).isZero();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void nothingIsSettledAfterAReset(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision before = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision other = now(limiter.tryAcquire(Charge.of("a", 1)));
        limiter.reset("a").block();
        tick();
        now(limiter.tryAcquire(Charge.of("a", 1)));
        limiter.settle(before, 0).block();
        limiter.settle(other, 2).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(1);
    }

    /** Work may take longer than the window. */
    @ParameterizedTest
    @MethodSource("shortKinds")
    void nothingIsSettledAfterAResetEvenWhenThePermitsWouldHaveExpired(Limit limit) {
        assumeSettlements();
        RateLimiter limiter = limiter(limit);
        Decision before = now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.reset("a").block();
        Instant expired = before.at().plus(SOON.multipliedBy(3));
        while (now(limiter.peek("a")).at().isBefore(expired)) {
            tick();
        }
        limiter.settle(before, 5).block();
        assertThat(only(now(limiter.peek("a"))).used()).isZero();
    }

    @Test
    void aDenialAndAPeekHaveNothingToSettle() {
        RateLimiter limiter = limiter(Limit.of(1, NEVER));
        limiter.settle(now(limiter.peek("a")), 5).block();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        limiter.settle(now(limiter.tryAcquire("a")), 5).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(1);
    }

    @Test
    void eachLimitMayHaveItsOwnRealCost() {
        assumeSettlements();
        Limit requests = Limit.of(10, NEVER).named("requests");
        Limit tokens = Limit.of(1_000, NEVER).named("tokens");
        RateLimiter limiter = limiter();
        Decision decision = now(limiter.tryAcquire(
                Charge.of("a", requests), Charge.of("a", tokens).permits(200)));
        limiter.settle(decision, usage -> usage.limit().equals(tokens) ? 663 : usage.cost())
                .block();
        Decision after = now(limiter.peek(Charge.of("a", requests), Charge.of("a", tokens)));
        assertThat(after.limits()).extracting(Usage::used).containsExactly(1L, 663L);
    }

    /** The function may read a counter, and set it to zero. */
    @Test
    void theRealCostOfEachLimitIsComputedOnce() {
        assumeSettlements();
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        AtomicLong parts = new AtomicLong(7);
        limiter.settle(decision, usage -> parts.getAndSet(0)).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(7);
    }

    @Test
    void aCostBelowZeroCannotBeSettled() {
        assumeSettlements();
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.settle(decision, -1))
                .withMessageContaining("-1", "0 or more");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.settle(decision, usage -> -2).block())
                .withMessageContaining("-2", "0 or more");
        limiter.settle(decision, 1).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(1);
    }

    // Peek, refund, reset

    @Test
    void aDecisionMayBeRefundedUnderOneOfSeveralLimits() {
        Limit minute = Limit.perMinute(10);
        Limit hour = Limit.perHour(10).counter();
        RateLimiter limiter = limiter(minute, hour);
        Decision three = now(limiter.tryAcquire(Charge.of("a", 3)));
        now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.refund(three, usage -> false).block();
        limiter.refund(three, usage -> usage.limit().equals(minute)).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(2L, 5L);
        // The permits of each limit are refunded once.
        limiter.refund(three).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(2L, 2L);
        limiter.refund(three).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(2L, 2L);
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aPeekChargesNothing(Limit limit) {
        RateLimiter limiter = limiter(limit.countingDenied());
        for (int i = 0; i < 2 * limit.permits(); i++) {
            Decision peeked = now(limiter.peek("a"));
            assertThat(peeked.isAllowed()).isTrue();
            assertThat(peeked.isCharged()).isFalse();
            assertThat(only(peeked).used()).isZero();
        }
        now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        for (int i = 0; i < 5; i++) {
            assertThat(now(limiter.peek("a")).isAllowed()).isFalse();
        }
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(limit.permits());
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aDecisionIsRefundedOnceAndExactly(Limit limit) {
        RateLimiter limiter = limiter(limit);
        Decision two = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision one = now(limiter.tryAcquire(Charge.of("a", 1)));
        assertThat(used(now(limiter.peek("a")))).containsExactly(3L);
        limiter.refund(two).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(1L);
        limiter.refund(two).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(1L);
        limiter.refund(one).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L);
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void anUnchargedDecisionRefundsNothing(Limit limit) {
        RateLimiter limiter = limiter(limit);
        now(limiter.tryAcquire(Charge.of("a", limit.permits())));
        limiter.refund(now(limiter.tryAcquire("a"))).block();
        limiter.refund(now(limiter.peek(Charge.of("a", 0)))).block();
        limiter.refund(now(limiter.tryAcquire(Charge.of("a", limit.permits() + 1))))
                .block();
        limiter.refund(Charge.of("b", 1)).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(limit.permits());
        assertThat(used(now(limiter.peek("b")))).containsExactly(0L);
    }

    @Test
    void expiredPermitsAreNotRefunded() {
        Limit limit = Limit.of(3, Duration.ofMillis(50));
        RateLimiter limiter = limiter(limit);
        Decision old = now(limiter.tryAcquire("a"));
        pass(Duration.ofMillis(60), limiter);
        Decision young = now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.refund(old).block();
        Decision peeked = now(limiter.peek("a"));
        if (peeked.at().isBefore(young.at().plus(limit.window()))) {
            assertThat(used(peeked)).containsExactly(2L);
        }
    }

    /** Of the first five, one permit is left: if all five were refunded, 14 would be granted at once. */
    @Test
    void aRefundFromABucketReturnsOnlyWhatHasNotReturnedYet() {
        Duration window = Duration.ofSeconds(1);
        RateLimiter limiter = limiter(Limit.bucket(100, window, 10));
        Decision first = now(limiter.tryAcquire(Charge.of("a", 5)));
        pass(Duration.ofMillis(40), limiter);
        Decision second = now(limiter.tryAcquire(Charge.of("a", 5)));
        limiter.refund(first).block();
        Decision peeked = now(limiter.peek("a"));
        long returned = Duration.between(second.at(), peeked.at()).toMillis() / 10;
        assertThat(only(peeked).used()).isGreaterThanOrEqualTo(Math.max(0, 5 - returned - 1));
        limiter.refund(second).block();
        assertThat(only(now(limiter.peek("a"))).used()).isZero();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aRefundByKeyIsLimitedToTheUsage(Limit limit) {
        RateLimiter limiter = limiter(limit);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        limiter.refund(Charge.of("a", 1)).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(2L);
        limiter.refund(Charge.of("a", 1_000)).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L);
        assertThat(now(limiter.tryAcquire(Charge.of("a", limit.permits()))).isAllowed())
                .isTrue();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @Test
    void aRefundByKeyRemovesTheOldestPermitsFirst() {
        RateLimiter limiter = limiter(Limit.of(5, NEVER));
        Instant oldest = now(limiter.tryAcquire(Charge.of("a", 2))).at();
        pass(Duration.ofMillis(5), limiter);
        Instant newest = now(limiter.tryAcquire(Charge.of("a", 3))).at();
        limiter.refund(Charge.of("a", 2)).block();
        Decision denied = now(limiter.peek(Charge.of("a", 3)));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.at().plus(retryAfter(denied)))
                .isAfter(oldest.plus(NEVER).plusMillis(1))
                .isEqualTo(newest.plus(NEVER).plusMillis(1));
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aResetAffectsItsKeyOnly(Limit limit) {
        RateLimiter limiter = limiter(limit, Limit.of(100, NEVER).named("second"));
        now(limiter.tryAcquire(Charge.of("a", 2), Charge.of("b", 2)));
        limiter.reset("a").block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L, 0L);
        assertThat(used(now(limiter.peek("b")))).containsExactly(2L, 2L);
        limiter.reset("never seen").block();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aRefundOfADecisionBeforeAResetRemovesNoLaterPermits(Limit limit) {
        RateLimiter limiter = limiter(limit, limit.named("second"));
        Decision before = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision untouched = now(limiter.tryAcquire(Charge.of("b", 2)));
        limiter.reset("a").block();
        // On a clock that stands still, a store may not know before from after.
        tick();
        Decision after = now(limiter.tryAcquire(Charge.of("a", 3)));
        limiter.refund(before).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(3L, 3L);
        limiter.refund(after).block();
        limiter.refund(untouched).block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L, 0L);
        assertThat(used(now(limiter.peek("b")))).containsExactly(0L, 0L);
    }

    @Test
    void aRefundOverSeveralKeysSkipsThoseThatWereReset() {
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        Decision both = now(limiter.tryAcquire(Charge.of("a", 2), Charge.of("b", 3)));
        limiter.reset("a").block();
        now(limiter.tryAcquire(Charge.of("a", 4), Charge.of("b", 5)));
        limiter.refund(both).block();
        assertThat(used(now(limiter.peek(Charge.of("a"), Charge.of("b"))))).containsExactly(4L, 5L);
    }

    // Reactive

    @Test
    void eachSubscriptionIsOneLazyAttempt() {
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        Mono<Decision> lazy = limiter.tryAcquire("a");
        Mono<Void> refund = limiter.refund(Charge.of("a", 1));
        Mono<Void> reset = limiter.reset("a");
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L);
        now(lazy);
        now(lazy);
        assertThat(used(now(limiter.peek("a")))).containsExactly(2L);
        refund.block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(1L);
        reset.block();
        assertThat(used(now(limiter.peek("a")))).containsExactly(0L);
    }

    @Test
    void theStoreItselfIsLazyToo() {
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        StoreDecision decision = (StoreDecision) now(limiter.tryAcquire(Charge.of("a", 5)));
        List<Claim> claims = decision.claims();
        Mono<StoreDecision> take = store().take(StoreRequest.take(claims));
        Mono<Void> refund = store().correct(RefundOldest.of(claims)).then();
        Mono<Void> exactly = store().correct(Refund.of(decision)).then();
        Mono<Void> reset = store().reset(claims, LimitStore.NO_DEADLINE);
        assertThat(used(now(store().take(StoreRequest.peek(claims))))).containsExactly(5L);
        now(take);
        assertThat(used(now(store().take(StoreRequest.peek(claims))))).containsExactly(10L);
        assertThat(now(take).isAllowed()).isFalse();
        refund.block();
        assertThat(used(now(store().take(StoreRequest.peek(claims))))).containsExactly(5L);
        exactly.block();
        reset.block();
        assertThat(used(now(store().take(StoreRequest.peek(claims))))).containsExactly(0L);
    }

    // Requests and corrections

    /** A store that took a lease like other permits would let them expire while they may still be spent. */
    @Test
    void aLeaseIsChargedAtItsEndOrNotMade() {
        Limit leased = Limit.perMinute(100).leased();
        Claim claim = DecidedClaims.of(now(limiter(leased).peek("a"))).get(0).withPermits(10);
        StoreDecision lease = store().take(StoreRequest.lease(claim, 2, LimitStore.NO_DEADLINE))
                .block();
        long permits = lease == null ? 0 : lease.claims().get(0).permits();
        assertThat(only(now(limiter(leased).peek("a"))).used()).isEqualTo(permits);
        if (lease != null) {
            assertThat(lease.usages().get(0).chargedAt())
                    .isGreaterThanOrEqualTo(lease.at().plus(leased.leaseTime()).toEpochMilli());
        }
    }

    @Test
    void eachCorrectionOfAListHasItsResult() {
        RateLimiter limiter = limiter(Limit.of(10, NEVER));
        StoreDecision first = (StoreDecision) now(limiter.tryAcquire(Charge.of("a", 3)));
        StoreDecision second = (StoreDecision) now(limiter.tryAcquire(Charge.of("b", 4)));
        now(limiter.tryAcquire(Charge.of("c", 5)));
        Claim third = DecidedClaims.of(now(limiter.peek("c"))).get(0);
        Claim fourth = DecidedClaims.of(now(limiter.peek("d"))).get(0);
        List<Grants> grants = List.of(new Grants(1_790_000_000_000L, 1_790_000_000_000L, 6));
        InstantSource clock = InstantSource.fixed(Instant.ofEpochMilli(1_790_000_000_000L));
        List<Corrected> results = requireNonNull(store().correct(List.of(
                        Refund.of(first).get(0),
                        Reconciliation.of("contract", 1, fourth, grants, List.of(), clock),
                        new RefundOldest(third.withPermits(2)),
                        Refund.of(second).get(0).without(3)))
                .block());
        assertThat(results).hasSize(4);
        CorrectionOutcome reconciled = results.get(1).outcome();
        assertThat(reconciled).isIn(CorrectionOutcome.APPLIED, CorrectionOutcome.UNSUPPORTED);
        assertThat(List.of(results.get(0), results.get(2), results.get(3)))
                .extracting(Corrected::outcome)
                .containsOnly(CorrectionOutcome.APPLIED);
        assertThat(Stream.of("a", "b", "c", "d")
                        .map(key -> only(now(limiter.peek(key))).used()))
                .containsExactly(0L, 3L, 3L, reconciled == CorrectionOutcome.APPLIED ? 6L : 0L);
    }

    @Test
    void noCorrectionsHaveNoResults() {
        assertThat(store().correct(List.of()).block()).isEmpty();
    }

    @Test
    void theSubscribersContextSurvivesCancellationsOfOthers() {
        RateLimiter limiter = limiter(Limit.of(100, NEVER));
        for (int i = 0; i < 20; i++) {
            limiter.tryAcquire("a").subscribe().dispose();
        }
        String seen = limiter.tryAcquire("a")
                .flatMap(decision -> Mono.deferContextual(context -> Mono.just(context.<String>get("caller"))))
                .contextWrite(context -> context.put("caller", "me"))
                .block();
        assertThat(seen).isEqualTo("me");
        assertThat(only(now(limiter.peek("a"))).used()).isBetween(1L, 21L);
    }

    // Concurrency limits

    @Test
    void noMorePermitsAreHeldThanTheLimitHas() {
        RateLimiter limiter = limiter(Limit.concurrent(3));
        List<Decision> held = new ArrayList<>();
        for (int i = 1; i <= 3; i++) {
            Decision decision = now(limiter.tryAcquire("a"));
            assertThat(decision.isAllowed()).isTrue();
            assertThat(only(decision).used()).isEqualTo(i);
            held.add(decision);
        }
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.violated()).containsExactly(Limit.concurrent(3));
        assertThat(denied.retryAfter()).contains(Duration.ofSeconds(1));
        assertThat(now(limiter.tryAcquire("b")).isAllowed()).isTrue();

        limiter.release(held.get(1)).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(2);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @Test
    void aFullLimitHasTheRetryTimeOfItsSettings() {
        Duration retry = Duration.ofSeconds(7);
        RateLimiter limiter = limiter(Limit.concurrent(1).retryAfter(retry), Limit.of(5, NEVER));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire("a")).retryAfter()).contains(retry);
        assertThat(now(limiter.peek("a")).retryAfter()).contains(retry);
    }

    @Test
    void aRequestMayHoldSeveralPermits() {
        RateLimiter limiter = limiter(Limit.concurrent(10));
        Decision seven = now(limiter.tryAcquire(Charge.of("a", 7)));
        assertThat(seven.isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 4))).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 3))).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 11))).retryAfter()).isEmpty();
        limiter.release(seven).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(3);
    }

    @Test
    void aReleaseIsIdempotent() {
        RateLimiter limiter = limiter(Limit.concurrent(2));
        Decision first = now(limiter.tryAcquire("a"));
        Decision second = now(limiter.tryAcquire("a"));
        limiter.release(first).block();
        limiter.release(first).block();
        limiter.refund(first).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(1);
        assertThat(second.isAllowed()).isTrue();
    }

    @Test
    void aRefundOfADecisionReleasesItsPermits() {
        RateLimiter limiter = limiter(Limit.concurrent(1), Limit.of(5, NEVER));
        Decision decision = now(limiter.tryAcquire("a"));
        limiter.refund(decision).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(0L, 0L);
    }

    @Test
    void aReleaseLeavesOtherLimitsCharged() {
        RateLimiter limiter = limiter(Limit.concurrent(1), Limit.of(5, NEVER));
        Decision decision = now(limiter.tryAcquire("a"));
        limiter.release(decision).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(0L, 1L);
        limiter.refund(decision).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(0L, 0L);
    }

    @Test
    void ratesAndPermitsAreTakenTogetherOrNotAtAll() {
        RateLimiter limiter = limiter(Limit.concurrent(1), Limit.of(2, NEVER));
        Decision first = now(limiter.tryAcquire("a"));
        assertThat(now(limiter.tryAcquire("a")).violated()).containsExactly(Limit.concurrent(1));
        limiter.release(first).block();
        Decision second = now(limiter.tryAcquire("a"));
        limiter.release(second).block();
        assertThat(now(limiter.tryAcquire("a")).violated()).containsExactly(Limit.of(2, NEVER));
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(0L, 2L);
    }

    @Test
    void aRefundWithoutADecisionReleasesNothing() {
        RateLimiter limiter = limiter(Limit.concurrent(2), Limit.of(5, NEVER));
        now(limiter.tryAcquire("a"));
        limiter.refund(Charge.of("a", 1)).block();
        assertThat(now(limiter.peek("a")).limits()).extracting(Usage::used).containsExactly(1L, 0L);
    }

    @Test
    void aResetReleasesAllPermits() {
        RateLimiter limiter = limiter(Limit.concurrent(2));
        Decision before = now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.reset("a").block();
        Decision after = now(limiter.tryAcquire(Charge.of("a", 2)));
        assertThat(after.isAllowed()).isTrue();
        limiter.release(before).block();
        assertThat(only(now(limiter.peek("a"))).used()).isEqualTo(2);
    }

    @Test
    void aReleaseThatOvertakesItsRequestWins() {
        Claim claim = hold("a", 1);
        unprotected().hold(List.of(claim), HoldAction.RELEASE).block();
        unprotected().hold(List.of(claim), HoldAction.RELEASE).block();
        assertThat(now(unprotected().take(StoreRequest.take(List.of(claim)))).isAllowed())
                .isFalse();
        assertThat(renewed(List.of(claim)))
                .containsExactly(new HoldRenewal(claim, HoldRenewal.RenewalOutcome.RELEASED));
        assertThat(only(now(unprotected().take(StoreRequest.peek(List.of(claim)))))
                        .used())
                .isZero();
    }

    /** The oldest is forgotten, so that a client cannot fill the memory of the store. */
    @Test
    void aBoundedNumberOfReleasesWaitsForItsRequests() {
        List<Claim> early = Stream.generate(() -> hold("a", 1)).limit(65).toList();
        early.forEach(
                claim -> unprotected().hold(List.of(claim), HoldAction.RELEASE).block());
        assertThat(now(unprotected().take(StoreRequest.take(List.of(early.get(64)))))
                        .isAllowed())
                .isFalse();
        assertThat(now(unprotected().take(StoreRequest.take(List.of(early.get(1)))))
                        .isAllowed())
                .isFalse();
        assertThat(now(unprotected().take(StoreRequest.take(List.of(early.get(0)))))
                        .isAllowed())
                .isTrue();
    }

    @Test
    void aRequestThatIsSentTwiceHoldsItsPermitsOnce() {
        Claim claim = hold("a", 2);
        assertThat(only(now(unprotected().take(StoreRequest.take(List.of(claim)))))
                        .used())
                .isEqualTo(2);
        Decision again = now(unprotected().take(StoreRequest.take(List.of(claim))));
        assertThat(again.isAllowed()).isTrue();
        assertThat(only(again).used()).isEqualTo(2);
    }

    @Test
    void aRenewalHoldsUnknownPermitsEvenAboveTheLimit() {
        List<Claim> holds = List.of(hold("a", 2), hold("a", 1), hold("a", 1), hold("b", 1));
        assertThat(renewed(holds)).extracting(HoldRenewal::outcome).containsOnly(HoldRenewal.RenewalOutcome.RESTORED);
        assertThat(renewed(holds))
                .containsExactlyInAnyOrderElementsOf(holds.stream()
                        .map(claim -> new HoldRenewal(claim, HoldRenewal.RenewalOutcome.RENEWED))
                        .toList());
        assertThat(only(now(unprotected().take(StoreRequest.peek(List.of(hold("a", 1))))))
                        .used())
                .isEqualTo(4);
        unprotected().hold(holds, HoldAction.RELEASE).block();
        assertThat(only(now(unprotected().take(StoreRequest.peek(List.of(hold("a", 1))))))
                        .used())
                .isZero();
    }

    /** A holder must know that the store does not count it. */
    @Test
    void aRenewalSaysThatTooManyPermitsAreHeld() {
        Claim first = hold("a", 1);
        int most = 10_000;
        List<Claim> holds = Stream.generate(() -> first.withHoldId(UUID.randomUUID()))
                .limit(most + 2)
                .toList();
        for (int from = 0; from < most; from += 500) {
            assertThat(renewed(holds.subList(from, from + 500)))
                    .extracting(HoldRenewal::outcome)
                    .containsOnly(HoldRenewal.RenewalOutcome.RESTORED);
        }
        assertThat(renewed(holds.subList(most - 1, most + 2)))
                .containsExactlyInAnyOrder(
                        new HoldRenewal(holds.get(most - 1), HoldRenewal.RenewalOutcome.RENEWED),
                        new HoldRenewal(holds.get(most), HoldRenewal.RenewalOutcome.FULL),
                        new HoldRenewal(holds.get(most + 1), HoldRenewal.RenewalOutcome.FULL));
        unprotected().hold(holds.subList(0, 1), HoldAction.RELEASE).block();
        assertThat(renewed(holds.subList(most, most + 1)))
                .containsExactly(new HoldRenewal(holds.get(most), HoldRenewal.RenewalOutcome.RESTORED));
        assertThat(only(now(unprotected().take(StoreRequest.peek(List.of(first)))))
                        .used())
                .isEqualTo(most);
    }

    @Test
    void aRenewalNeverShortensAHold() {
        Claim shorter = hold("a", 1);
        RateLimiter patient = limiter(Limit.concurrent(3).hold(Duration.ofMinutes(5)));
        Claim longer = DecidedClaims.of(now(patient.peek("a"))).get(0).withHoldId(requireNonNull(shorter.holdId()));
        Claim last = longer.withHoldId(UUID.randomUUID());
        Decision taken = now(unprotected().take(StoreRequest.take(List.of(longer))));
        now(unprotected().take(StoreRequest.take(List.of(last))));
        assertThat(renewed(List.of(shorter)))
                .containsExactly(new HoldRenewal(shorter, HoldRenewal.RenewalOutcome.RENEWED));
        unprotected().hold(List.of(last), HoldAction.RELEASE).block();
        assertThat(only(now(unprotected().take(StoreRequest.peek(List.of(shorter)))))
                        .wholeAt())
                .isEqualTo(only(taken).wholeAt());
    }

    @Test
    void loweringTheLimitKeepsTheHolders() {
        RateLimiter high = limiter(Limit.concurrent(5));
        RateLimiter low = limiter(Limit.concurrent(2).hold(Duration.ofMinutes(5)));
        Decision three = now(high.tryAcquire(Charge.of("a", 3)));
        assertThat(only(now(low.peek("a"))).used()).isEqualTo(3);
        assertThat(now(low.tryAcquire("a")).isAllowed()).isFalse();
        low.release(three).block();
        assertThat(now(low.tryAcquire(Charge.of("a", 2))).isAllowed()).isTrue();
    }

    // Helpers

    private Claim hold(String key, long permits) {
        RateLimiter limiter = limiter(Limit.concurrent(3));
        Claim claim =
                DecidedClaims.of(now(limiter.peek(Charge.of(key, permits)))).get(0);
        return claim.withHoldId(UUID.randomUUID());
    }

    static Stream<Limit> shortKinds() {
        return Stream.of(
                Limit.of(5, SOON),
                Limit.counter(5, SOON),
                Limit.counter(5, SOON).alignedToClock(),
                Limit.bucket(5, SOON, 5));
    }

    static Stream<Limit> kinds() {
        // No boundary is near.
        LocalTime now = LocalTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.MINUTES);
        return Stream.concat(windows(), Stream.of(Limit.daily(5).at(now)));
    }

    static Stream<Limit> windows() {
        return Stream.of(
                Limit.of(5, NEVER),
                Limit.counter(5, NEVER),
                Limit.counter(5, NEVER).alignedToClock(),
                Limit.bucket(5, NEVER, 5));
    }

    static Stream<Arguments> costs() {
        return Stream.of(
                        "1/40ms",
                        "4/60ms",
                        "4/60ms resolution=7ms",
                        "4/60ms counter",
                        "7/60ms counter aligned",
                        "4/60ms burst=5",
                        "7/60ms burst=3")
                .flatMap(text -> Stream.of(1, 3)
                        .filter(cost -> cost <= Limit.parse(text).capacity())
                        .map(cost -> Arguments.of(text, cost)));
    }

    /** The store as it is: what the contract says is about the store, and not about what stands in for it. */
    private LimitStore unprotected() {
        LimitStore store = unprotected;
        if (store == null) {
            store = new Unprotected(store());
            unprotected = store;
        }
        return store;
    }

    private void assumeSettlements() {
        assumeTrue(hasSettlements(), "the store has no settlements");
    }

    private RateLimiter limiter(Limit... limits) {
        assumeTrue(
                hasConcurrencyLimits() || Arrays.stream(limits).noneMatch(limit -> limit.holdsPermits()),
                "the store has no concurrency limits");
        RateLimiterBuilder builder = RateLimiter.builder(name).store(unprotected());
        Arrays.stream(limits).forEach(builder::limit);
        return builder.build();
    }

    private void pass(Duration duration, RateLimiter limiter) {
        Charge clock = Charge.of("clock", Limit.of(1, NEVER).named("clock"));
        Instant end = now(limiter.peek(clock)).at().plus(duration);
        while (now(limiter.peek(clock)).at().isBefore(end)) {
            tick();
        }
    }

    /** The first denial of a key that asks and asks. */
    private static Decision takeUntilDenied(RateLimiter limiter, String key, int cost) {
        while (true) {
            Decision decision = now(limiter.tryAcquire(Charge.of(key, cost)));
            if (!decision.isAllowed()) {
                return decision;
            }
        }
    }

    private static void assertNoWindowHoldsMore(Limit limit, List<Instant> admitted) {
        for (int i = 0; i + limit.permits() < admitted.size(); i++) {
            Instant first = admitted.get(i);
            Instant oneTooMany = admitted.get(i + (int) limit.permits());
            assertThat(Duration.between(first, oneTooMany)).isGreaterThan(limit.window());
        }
        assertThat(admitted).hasSizeGreaterThan((int) limit.permits());
    }

    private static Decision now(Mono<? extends Decision> decision) {
        return requireNonNull(decision.block());
    }

    private List<HoldRenewal> renewed(List<Claim> holds) {
        return requireNonNull(unprotected().hold(holds, HoldAction.RENEW).block());
    }

    private static Usage only(Decision decision) {
        assertThat(decision.limits()).hasSize(1);
        return decision.limits().get(0);
    }

    private static List<Long> used(Decision decision) {
        return decision.limits().stream().map(Usage::used).toList();
    }

    private static Duration retryAfter(Decision denied) {
        Optional<Duration> retryAfter = denied.retryAfter();
        assertThat(retryAfter).as("retry-after of %s", denied).isPresent();
        return retryAfter.orElseThrow();
    }

    // Exchanges of processes

    @Test
    void processesOfALimiterAreCountedUntilTheyEnd() {
        assumeTrue(hasExchanges());
        List<Integer> alone = exchange(new UUID(1, 1), 30, List.of(name + "-a", name + "-b"), null)
                .instances();
        assertThat(alone).hasSize(2).allMatch(number -> number == 1);
        assertThat(exchange(new UUID(1, 1), 30, List.of(name + "-a"), null).instances())
                .isEqualTo(List.of(1));
        exchange(new UUID(1, 2), 30, List.of(name + "-b", name + "-a"), null);
        List<Integer> both = exchange(new UUID(1, 1), 30, List.of(name + "-a", name + "-c"), null)
                .instances();
        assertThat(both.get(0)).as("2, or 1 in memory").isBetween(1, 2);
        assertThat(both.get(1)).isEqualTo(1);
        exchange(new UUID(1, 2), 0, List.of(), null);
        assertThat(exchange(new UUID(1, 1), 30, List.of(name + "-a"), null).instances())
                .isEqualTo(List.of(1));
        exchange(new UUID(1, 1), 0, List.of(), null);
    }

    @Test
    void aValueIsPublishedOnlyInPlaceOfTheVersionThatTheCallerHasSeen() {
        assumeTrue(hasExchanges());
        FleetExchange.FleetReply first = publish(0, "one");
        assertThat(first.outcome()).isEqualTo(PublishOutcome.PUBLISHED);
        assertThat(published(first)).isEqualTo(first.version() + " one");
        assertThat(publish(0, "two").outcome()).isEqualTo(PublishOutcome.CONFLICT);
        FleetExchange.FleetReply second = publish(first.version(), "two");
        assertThat(second.outcome()).isEqualTo(PublishOutcome.PUBLISHED);
        assertThat(second.version()).isGreaterThan(first.version());
        FleetExchange.FleetReply late = publish(first.version(), "three");
        assertThat(late.outcome()).isEqualTo(PublishOutcome.CONFLICT);
        assertThat(published(late)).isEqualTo(second.version() + " two");
    }

    @Test
    void aLostValueIsRestoredUnlessThereIsANewerOne() {
        assumeTrue(hasExchanges());
        long until = now() + 60_000;
        assertThat(published(restore(new Value(name, 7, until, "seven")))).isEqualTo("7 seven");
        assertThat(published(restore(new Value(name, 5, until, "five")))).isEqualTo("7 seven");
        assertThat(published(restore(new Value(name, 9, until, "nine")))).isEqualTo("9 nine");
        FleetExchange.FleetReply next = publish(9, "next");
        assertThat(next.version()).isGreaterThan(9);
        assertThat(published(next)).isEqualTo(next.version() + " next");
        long ended = now() - 60_000;
        assertThat(published(restore(new Value(name + "-2", 9, ended, "ended")), name + "-2"))
                .isEmpty();
    }

    private long now() {
        return exchange(new UUID(1, 3), 0, List.of(), null).micros() / 1_000;
    }

    private FleetExchange.FleetReply publish(long seen, String content) {
        return exchange(new UUID(1, 3), 0, List.of(), new Value(name, seen, now() + 60_000, content));
    }

    private FleetExchange.FleetReply restore(Value value) {
        return requireNonNull(
                store().exchange(new FleetExchange(new UUID(1, 3), Duration.ZERO, List.of(), 0, List.of(value), null))
                        .block());
    }

    private FleetExchange.FleetReply exchange(
            UUID process, int seconds, List<String> limiters, @Nullable Value published) {
        return requireNonNull(store().exchange(
                        new FleetExchange(process, Duration.ofSeconds(seconds), limiters, 0, List.of(), published))
                .block());
    }

    private String published(FleetExchange.FleetReply reply) {
        return published(reply, name);
    }

    private static String published(FleetExchange.FleetReply reply, String name) {
        return requireNonNull(reply.values()).stream()
                .filter(value -> value.name().equals(name))
                .map(value -> value.version() + " " + value.content())
                .findFirst()
                .orElse("");
    }
}
