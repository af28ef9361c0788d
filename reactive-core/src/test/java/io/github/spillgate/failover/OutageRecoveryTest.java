package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Ledger.Fit;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a local fallback grants of a limit while the permits that were in use at the last reply expire. */
class OutageRecoveryTest extends LocalFallbackFixture {

    private static final int HISTORIES = 15;

    /** The store's clock differs from that of this process. */
    private static final Duration BEHIND = Duration.ofDays(3);

    @Test
    void anInstanceThatUsedTheWholeLimitGetsItBackAsItsPermitsExpire() {
        RateLimiter limiter = limiter(Limit.of(160, Duration.ofSeconds(16)));
        Claim claim = claim(limiter, "a").asking(10);
        StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        for (int i = 0; i < 16; i++) {
            assertThat(store.confirm(now(primary.take(List.of(claim)).cast(StoreDecision.class))))
                    .isEqualTo(Fit.YES);
            clock.advanceMillis(1_000);
        }
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        List<Long> remaining = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            clock.advanceMillis(1_000);
            remaining.add(now(limiter.peek("a")).remaining());
        }
        // A second late, the length of a slot, and the oldest slot was only partly in use for certain.
        assertThat(remaining.get(14)).isGreaterThanOrEqualTo(140);
        for (int i = 0; i < 16; i++) {
            assertThat(remaining.get(i)).isBetween(Math.max(0, 10L * i - 20), 10L * (i + 1));
        }
    }

    /** By the clock before the step, they would have been in use for longer. */
    @Test
    void permitsCountForAWindowIfTheClockOfTheStoreWasSetBackBeforeTheOutage() {
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - BEHIND.toMillis();
        store.confirm(reply(claim.asking(1), 1, there, WINDOW));
        clock.advanceMillis(1_000);
        long then = there + 1_000 - 40_000;
        for (int used = 2; used <= 10; used++) {
            store.confirm(reply(claim.asking(1), used, then, WINDOW));
        }
        for (int passed = 0; passed < 59_000; passed += 1_000) {
            assertThat(now(limiter.peek("a")).remaining())
                    .as("after %d ms", passed)
                    .isZero();
            clock.advanceMillis(1_000);
        }
        clock.advanceMillis(2_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.9, 1, 3})
    void aLogIsNeverExceededAndSteadyTrafficGetsMostOfIt(double demand) {
        long granted = 0;
        long asWithoutOutage = 0;
        for (int seed = 0; seed < HISTORIES; seed++) {
            History history = new History(new Random(seed), demand, 0);
            history.run();
            granted += history.grantedInOutage;
            asWithoutOutage += history.grantedWithoutOutage;
        }
        assertThat((double) granted / asWithoutOutage).isBetween(0.8, 1.0);
    }

    @Test
    void aLogThatOtherInstancesUseTooIsNeverExceeded() {
        for (int seed = 0; seed < HISTORIES; seed++) {
            new History(new Random(seed), 2, 0.5).run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000/10s counter", "1000/10s counter aligned"})
    void aCounterFadesDuringAnOutageByItsFormula(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(limit);
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - BEHIND.toMillis();
        CounterState state = CounterState.empty(claim.limit(), there).plus(700);
        CounterState later = state.at(claim.limit(), there + 12_000).plus(300);
        long at = there + 12_000;
        clock.advanceMillis(12_000);
        store.confirm(
                StoreDecision.ofTake(Source.OTHER, at, List.of(StoreUsage.ofCounter(claim, later, false, false, at))));
        for (int passed = 0; passed <= 20_000; passed += 125) {
            long exact = later.at(claim.limit(), at + passed).used(claim.limit(), at + passed);
            long before = later.at(claim.limit(), at + Math.max(0, passed - 625))
                    .used(claim.limit(), at + Math.max(0, passed - 625));
            assertThat(1_000 - now(limiter.peek("a")).remaining())
                    .describedAs("after %d ms", passed)
                    .isBetween(exact, before);
            clock.advanceMillis(125);
        }
    }

    @Test
    void aSaturatedBucketGrantsItsRateDuringAnOutageAndNoMore() {
        RateLimiter limiter = limiter(Limit.perSecond(10).burst(50));
        Claim claim = claim(limiter, "a").asking(50);
        StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        store.confirm(now(primary.take(List.of(claim)).cast(StoreDecision.class)));
        int granted = 0;
        for (int passed = 50; passed <= 20_000; passed += 50) {
            clock.advanceMillis(50);
            granted += now(limiter.tryAcquire("a")).isAllowed() ? 1 : 0;
            assertThat(granted).describedAs("after %d ms", passed).isLessThanOrEqualTo(passed / 100);
        }
        assertThat(granted).isGreaterThanOrEqualTo(160);
    }

    @Test
    void aDenialDuringAnOutageNamesTheTimeAtWhichItFits() {
        RateLimiter limiter = limiter(Limit.of(100, Duration.ofSeconds(16)));
        Claim claim = claim(limiter, "a").asking(50);
        StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        for (int i = 0; i < 2; i++) {
            store.confirm(now(primary.take(List.of(claim)).cast(StoreDecision.class)));
            clock.advanceMillis(5_000);
        }
        long fits = fitsAfter(limiter, "a", 50);
        assertThat(fits).isBetween(6_000L, 8_000L);
        clock.advanceMillis(fits - 1);
        assertThat(now(limiter.peek(Charge.of("a").permits(50))).isAllowed()).isFalse();
        clock.advanceMillis(1);
        assertThat(now(limiter.peek(Charge.of("a").permits(50))).isAllowed()).isTrue();
    }

    /** Random requests on one key, before and during an outage that begins at a random time. */
    private final class History {

        private final Random random;
        private final double demand;
        private final double others;
        private final Limit limit;
        private final Claim claim;
        private final LocalFallback fallback = Fallback.local(16, clock);
        private final StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        private final StoreModel undisturbed = new StoreModel(clock);
        private final List<Admission> admissions = new ArrayList<>();
        private long grantedInOutage;
        private long grantedWithoutOutage;

        /** The grants to other instances since the last reply to this one. */
        private int unknown;

        History(Random random, double demand, double others) {
            this.random = random;
            this.demand = demand;
            this.others = others;
            Limit plain = Limit.of(10 + random.nextInt(90), Duration.ofMillis(200L << random.nextInt(4)));
            this.limit = random.nextBoolean()
                    ? plain
                    : plain.resolution(plain.window().dividedBy(50));
            this.claim = claim(limiter(limit), "key-" + random.nextLong());
        }

        void run() {
            long window = limit.window().toMillis();
            double between = window / (demand * limit.permits());
            long outage = clock.millis() + (long) (window * (0.3 + 3 * random.nextDouble()));
            long end = outage + 2 * window;
            double next = clock.millis();
            while (next < end) {
                next += between * (0.5 + random.nextDouble());
                clock.advanceMillis(Math.max(0, (long) next - clock.millis()));
                if (clock.millis() < outage) {
                    request();
                } else {
                    requestInOutage();
                }
            }
        }

        private void request() {
            boolean isOther = random.nextDouble() < others;
            StoreDecision decision = now(primary.take(List.of(claim)));
            now(undisturbed.take(List.of(claim)));
            if (!isOther) {
                assertThat(fallback.confirm(decision)).isEqualTo(Fit.YES);
                unknown = 0;
            } else if (decision.isAllowed()) {
                unknown++;
            }
            if (decision.isAllowed()) {
                Admission admission = admit();
                if (random.nextInt(20) == 0 && !isOther) {
                    fallback.refundConfirmed(decision);
                    primary.refund(decision).block();
                    admissions.remove(admission);
                }
            }
        }

        private void requestInOutage() {
            if (now(undisturbed.take(List.of(claim))).isAllowed()) {
                grantedWithoutOutage++;
            }
            if (now(fallback.take(List.of(claim))).isAllowed()) {
                grantedInOutage++;
                admit();
            }
        }

        private Admission admit() {
            long now = clock.millis();
            Admission admission = new Admission(now);
            admissions.add(admission);
            admissions.removeIf(earlier -> earlier.at <= now - limit.window().toMillis());
            assertThat(admissions)
                    .describedAs("admitted in one window under %s", limit)
                    .hasSizeLessThanOrEqualTo((int) limit.permits() + unknown);
            return admission;
        }
    }

    /** An admitted request. Not a record: each is only equal to itself. */
    private static final class Admission {

        private final long at;

        Admission(long at) {
            this.at = at;
        }
    }
}
