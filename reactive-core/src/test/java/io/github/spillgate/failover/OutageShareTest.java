package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.failover.ledger.OutageShare;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.Exchanges;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** What several instances grant together during an outage without a setting, by their share of each limit. */
class OutageShareTest {

    private static final Limit HUNDRED = Limit.of(100, Duration.ofSeconds(10));

    /** In ten seconds of steady use, it allows 100 permits more than its burst. */
    private static final Limit BUCKET = Limit.perSecond(10).burst(50);

    private final OutageShare share = new OutageShare();

    @Test
    void aSingleInstanceMayGrantTheWholeLimit() {
        assertThat(share.of(HUNDRED, 1, new OutageShare.Use(0, 0, 0))).isEqualTo(1);
        assertThat(share.of(HUNDRED, 1, new OutageShare.Use(10, 90, 0))).isEqualTo(1);
    }

    @Test
    void aCountThatWasNotInUseIsSharedEvenly() {
        assertThat(share.of(HUNDRED, 4, new OutageShare.Use(0, 0, 0))).isEqualTo(0.25);
    }

    @Test
    void aCountInUseIsSharedByUse() {
        assertThat(share.of(HUNDRED, 4, new OutageShare.Use(90, 100, 0))).isGreaterThan(0.7);
        assertThat(share.of(HUNDRED, 4, new OutageShare.Use(0, 100, 0))).isLessThan(0.06);
    }

    /** What is in use of a bucket is its level, so the burst is the whole, and not the rate. */
    @Test
    void aBucketIsSharedByItsLevel() {
        assertThat(share.of(BUCKET, 1, new OutageShare.Use(0, 50, 0))).isEqualTo(1);
        assertThat(share.of(BUCKET, 4, new OutageShare.Use(0, 0, 0))).isEqualTo(0.25);
        assertThat(share.of(BUCKET, 4, new OutageShare.Use(45, 50, 0))).isEqualTo((45 + 5 / 4.0) / 55, within(1e-9));
        assertThat(share.of(BUCKET, 4, new OutageShare.Use(0, 50, 0))).isEqualTo(5 / 4.0 / 55, within(1e-9));
    }

    /** In the store, the count may go on with the same life. */
    @Test
    void whatInstancesUsedOfAQuotaBeforeItsBoundaryIsNoPartOfTheirShare() {
        ManualClock clock = new ManualClock();
        LocalStore redis = LocalStore.bounded(100, clock);
        Claim claim = ClaimForTests.of("key", Limit.daily(100));
        List<LocalFallback> fallbacks = List.of(Fleet.fallback(2, clock), Fleet.fallback(2, clock));
        for (long permits : new long[] {45, 5, 1}) {
            for (LocalFallback fallback : fallbacks) {
                fallback.confirm(
                        Objects.requireNonNull(redis.take(StoreRequest.take(List.of(claim.withPermits(permits))))
                                .block()));
            }
            clock.advance(Duration.ofHours(permits == 45 ? 12 : 0));
        }
        long granted = fallbacks.stream()
                .mapToLong(fallback -> Stream.generate(() ->
                                fallback.take(StoreRequest.take(List.of(claim))).block())
                        .takeWhile(StoreDecision::isAllowed)
                        .count())
                .sum();
        assertThat(granted).isBetween(80L, 90L);
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3, 16, 1_000})
    void sharesOfEqualKnowledgeAddUpToOne(int instances) {
        Random random = new Random(instances);
        long[] used = new long[instances];
        long all = 0;
        for (int i = 0; i < instances; i++) {
            used[i] = random.nextInt(50);
            all += used[i];
        }
        double sum = 0;
        for (long own : used) {
            sum += share.of(HUNDRED, instances, new OutageShare.Use((double) own, (double) all, 0));
        }
        assertThat(sum).isEqualTo(1, within(1e-9));
    }

    @Test
    void aFixedShareReplacesIt() {
        share.set(0.5);
        assertThat(share.of(HUNDRED, 4, new OutageShare.Use(90, 100, 0))).isEqualTo(0.5);
    }

    /**
     * All instances lose Redis at the same time, after two windows of traffic, and decide alone for three. The bounds
     * are in parts of the limit.
     */
    @ParameterizedTest
    @CsvSource({
        "1, EVEN, 0.9, 1.0, 0.9", "1, EVEN, 1, 1.0, 0.9", "2, EVEN, 0.9, 1.0, 0.9",
        "4, EVEN, 0.9, 1.0, 0.9", "16, EVEN, 0.9, 1.0, 0.9", "1, EVEN, 3, 1.0, 0.28",
        "2, EVEN, 3, 1.0, 0", "4, EVEN, 3, 1.0, 0", "16, EVEN, 3, 1.0, 0",
        "2, SKEWED, 0.9, 1.25, 0.9", "4, SKEWED, 0.9, 1.25, 0.9", "16, SKEWED, 0.9, 1.25, 0.9",
        "2, SKEWED, 3, 1.25, 0", "4, SKEWED, 3, 1.25, 0", "16, SKEWED, 3, 1.25, 0",
        "2, STICKY, 0.9, 1.25, 0.9", "4, STICKY, 0.9, 1.25, 0.9", "16, STICKY, 0.9, 1.25, 0.9",
        "2, STICKY, 3, 1.25, 0", "4, STICKY, 3, 1.25, 0", "16, STICKY, 3, 1.25, 0"
    })
    void instancesTogetherStayNearTheLimit(
            int instances, OutageTraffic.Spread spread, double demand, double most, double leastOfGoodTraffic) {
        assertNearTheLimit(HUNDRED, instances, spread, demand, demand, most, leastOfGoodTraffic);
    }

    @ParameterizedTest
    @CsvSource({"0.9, 0.8", "3, 0.26"})
    void anInstanceStaysWithinALogWithLongSlots(double demand, double leastGranted) {
        Limit coarse = HUNDRED.resolution(HUNDRED.window().dividedBy(50));
        assertNearTheLimit(coarse, 1, OutageTraffic.Spread.EVEN, demand, demand, 1, leastGranted);
    }

    /** A second outage follows soon after the first one, of which all grants are reconciled. */
    @ParameterizedTest
    @ValueSource(strings = {"100/10s", "100/10s counter", "100/10s burst=100"})
    void whatWasGrantedInAnEarlierOutageIsPartOfTheUse(String text) {
        ManualClock clock = new ManualClock();
        LossyStore redis = new LossyStore(clock);
        Claim claim = ClaimForTests.of("key", Limit.parse(text));
        ManualWay way = new ManualWay();
        LocalFallback fallback = Fleet.fallback(2, clock, way);
        // The other instance has reconciled as much.
        redis.take(StoreRequest.take(List.of(claim.withPermits(40)))).block();
        for (int i = 0; i < 40; i++) {
            assertThat(take(fallback, claim).isAllowed()).isTrue();
        }
        Reconciliation sent = way.handOver(1, any -> false).get(0);
        way.charged(
                sent,
                Objects.requireNonNull(redis.correct(List.of(sent)).block()).get(0));
        assertThat(shareOf(claim, fallback)).isEqualTo(0.5, within(0.01));
    }

    /** Also what is charged above the limit. */
    @ParameterizedTest
    @ValueSource(strings = {"100/10s", "100/10s burst=100"})
    void whatWasSettledIsPartOfTheUse(String text) {
        ManualClock clock = new ManualClock();
        Claim claim = ClaimForTests.of("key", Limit.parse(text));
        LocalFallback fallback = Fleet.fallback(2, clock);
        long at = clock.millis();
        fallback.confirm(replied(claim, 2, at));
        fallback.settled(CorrectedForTests.of(
                replied(claim.withPermits(74), 150, at + 1).usages().get(0)));
        assertThat(shareOf(claim, fallback)).isEqualTo(0.5, within(0.01));
    }

    private static double shareOf(Claim claim, LocalFallback fallback) {
        Double share = fallback.ledgers().apply(claim, false, Ledger::share);
        return Objects.requireNonNull(share);
    }

    private static StoreDecision replied(Claim claim, long used, long at) {
        Reply reply = new Reply(Source.OTHER, at);
        return StoreDecision.ofTake(reply, List.of(StoreUsage.of(reply, claim, used, false, at, at + 10_000)));
    }

    /** Also if the traffic rises when Redis fails. Of three times the rate, a third can be granted. */
    @ParameterizedTest
    @CsvSource({
        "2, EVEN, 0.9, 0.9, 0.9", "4, EVEN, 0.9, 0.9, 0.9", "16, EVEN, 0.9, 0.9, 0.9",
        "2, SKEWED, 0.9, 0.9, 0.9", "4, SKEWED, 0.9, 0.9, 0.9", "16, SKEWED, 0.9, 0.9, 0.9",
        "4, STICKY, 0.9, 0.9, 0.9", "16, STICKY, 0.9, 0.9, 0.9", "1, EVEN, 3, 3, 0.3",
        "2, EVEN, 3, 3, 0.3", "4, EVEN, 3, 3, 0.3", "16, EVEN, 3, 3, 0.3",
        "2, SKEWED, 3, 3, 0.3", "4, SKEWED, 3, 3, 0.3", "16, SKEWED, 3, 3, 0.3",
        "4, STICKY, 3, 3, 0.28", "16, STICKY, 3, 3, 0.28", "4, EVEN, 0.3, 3, 0",
        "2, EVEN, 0.9, 3, 0", "16, EVEN, 0.9, 3, 0", "4, SKEWED, 0.9, 3, 0",
        "4, STICKY, 0.9, 3, 0"
    })
    void instancesTogetherStayNearTheRateOfABucket(
            int instances, OutageTraffic.Spread spread, double before, double during, double least) {
        assertNearTheLimit(
                BUCKET,
                instances,
                spread,
                before,
                during,
                during > before ? (instances > 4 ? 1.5 : 1.25) : 1.05,
                least);
    }

    /** A key of which nothing was known would be shared evenly. */
    @ParameterizedTest
    @CsvSource({"2, EVEN", "4, EVEN", "16, EVEN", "2, STICKY", "4, STICKY"})
    void aBucketThatIsSeldomUsedAllowsManyRequestsAtATimeDuringAnOutage(int instances, OutageTraffic.Spread spread) {
        long asked = 0;
        long granted = 0;
        for (int seed = 0; seed < 10; seed++) {
            Fleet fleet = new Fleet(BUCKET, instances, new Random(seed));
            fleet.runAtATime(spread, 15, Duration.ofMinutes(1));
            asked += fleet.askedInOutage;
            granted += fleet.grantedInOutage;
        }
        assertThat((double) granted / asked).isGreaterThanOrEqualTo(0.9);
    }

    private static StoreDecision take(LimitStore store, Claim claim) {
        return Objects.requireNonNull(
                store.take(StoreRequest.take(List.of(claim))).block());
    }

    private static void assertNearTheLimit(
            Limit limit,
            int instances,
            OutageTraffic.Spread spread,
            double before,
            double during,
            double most,
            double leastGranted) {
        double highest = 0;
        long asked = 0;
        long granted = 0;
        for (int seed = 0; seed < 10; seed++) {
            Fleet fleet = new Fleet(limit, instances, new Random(seed));
            fleet.run(spread, before, during);
            highest = Math.max(highest, fleet.highest / limit.capacity());
            asked += fleet.askedInOutage;
            granted += fleet.grantedInOutage;
        }
        assertThat(highest).isLessThanOrEqualTo(most);
        assertThat((double) granted / asked).isGreaterThanOrEqualTo(leastGranted);
    }

    /** Several instances of one limiter, with 10 keys. */
    private static final class Fleet {

        private static final int KEYS = 10;

        private final Random random;
        private final ManualClock clock = new ManualClock();

        /** Its clock differs from that of the instances. */
        private final LocalStore redis =
                LocalStore.bounded(1_000, () -> clock.instant().minus(Duration.ofDays(3)));

        private final List<LocalFallback> fallbacks = new ArrayList<>();
        private final List<Claim> claims = new ArrayList<>();
        private final Map<Integer, Deque<Long>> admitted = new HashMap<>();
        private final Limit limit;
        private final Map<Integer, Long> takenAt = new HashMap<>();
        private final Map<Integer, double[]> levels = new HashMap<>();
        private double highest;
        private long askedInOutage;
        private long grantedInOutage;

        Fleet(Limit limit, int instances, Random random) {
            this.limit = limit;
            this.random = random;
            for (int i = 0; i < instances; i++) {
                fallbacks.add(fallback(instances, clock));
            }
            IntStream.range(0, KEYS).forEach(key -> claims.add(ClaimForTests.of("key-" + key, limit)));
        }

        /** Returns the fallback of an instance that knows of all. */
        static LocalFallback fallback(int instances, ManualClock clock) {
            return fallback(instances, clock, new ManualWay());
        }

        static LocalFallback fallback(int instances, ManualClock clock, ManualWay way) {
            LocalFallback fallback = Fallback.local(1_000, clock);
            LimitStore store = new CountedStore(instances);
            fallback.bindTo(store, way);
            Exchanges.count(store, "api");
            return fallback;
        }

        void run(OutageTraffic.Spread spread, double before, double during) {
            long window = HUNDRED.window().toMillis();
            long outage = clock.millis() + 2 * window;
            double next = clock.millis();
            for (int i = random.nextInt(1_000); next < outage + 3 * window; i++) {
                double between = window / ((next < outage ? before : during) * HUNDRED.permits() * KEYS);
                next += between * (0.5 + random.nextDouble());
                clock.set((long) next);
                int key = i % KEYS;
                int instance = spread.instance(key, i / KEYS, fallbacks.size());
                request(key, instance, clock.millis() >= outage);
            }
        }

        /** Requests come many at a time for a key, on an instance for each or on the one of the key. */
        void runAtATime(OutageTraffic.Spread spread, int number, Duration between) {
            for (int time = 0; time < 10; time++) {
                clock.advanceMillis(between.toMillis() * (50 + random.nextInt(100)) / 100);
                for (int i = 0; i < number; i++) {
                    clock.advanceMillis(random.nextInt(20));
                    request(0, spread.instance(0, random.nextInt(1_000), fallbacks.size()), time >= 6);
                }
            }
        }

        private void request(int key, int instance, boolean isOutage) {
            List<Claim> claim = List.of(claims.get(key));
            LocalFallback fallback = fallbacks.get(instance);
            LimitStore decides = isOutage ? fallback : redis;
            StoreDecision decision = take(decides, claim.get(0));
            if (!isOutage) {
                fallback.confirm(decision);
            }
            if (isOutage) {
                askedInOutage++;
                grantedInOutage += decision.isAllowed() ? 1 : 0;
            }
            if (decision.isAllowed()) {
                highest = Math.max(highest, limit instanceof Limit.Bucket ? excess(key) : inWindow(key));
            }
        }

        private int inWindow(int key) {
            long now = clock.millis();
            Deque<Long> times = admitted.computeIfAbsent(key, any -> new ArrayDeque<>());
            times.add(now);
            times.removeIf(time -> time <= now - limit.window().toMillis());
            return times.size();
        }

        /** Returns the lowest multiple of the burst, in steps of 1 %, with which all grants fit into the limit. */
        private double excess(int key) {
            long now = clock.millis();
            long passed = now - takenAt.getOrDefault(key, now);
            takenAt.put(key, now);
            double returned = passed * limit.permits() / (double) limit.window().toMillis();
            double[] taken = levels.computeIfAbsent(key, any -> new double[300]);
            int needed = 0;
            for (int percent = 1; percent < taken.length; percent++) {
                double part = percent / 100.0;
                taken[percent] = Math.max(0, taken[percent] - part * returned) + 1;
                if (taken[percent] > part * limit.capacity()) {
                    needed = percent + 1;
                }
            }
            return needed / 100.0 * limit.capacity();
        }
    }

    /** A store in which so many instances are registered. */
    private static final class CountedStore extends Unprotected {

        private final int instances;

        CountedStore(int instances) {
            super(LocalStore.bounded(16));
            this.instances = instances;
        }

        @Override
        public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
            return Mono.fromCallable(() -> Exchanges.counted(request, instances));
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }

        @Override
        public StoreState state() {
            return StoreState.of(Source.OTHER);
        }
    }
}
