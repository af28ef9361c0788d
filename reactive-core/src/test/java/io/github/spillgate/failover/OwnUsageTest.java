package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.CounterState;
import java.util.Random;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** What an instance knows of its own permits in a token bucket, and in a counter. */
class OwnUsageTest {

    private static final long START = 1_790_000_000_000L;
    private static final Limit LIMIT = Limit.parse("10/1s burst=20");

    private final OwnUsage own = usage();

    @Test
    void aBucketThatIsAlwaysFullStaysInUse() {
        own.add(LIMIT, START, 20);
        long time = START;
        for (int i = 0; i < 600; i++) {
            time += 100;
            own.add(LIMIT, time, 1);
        }
        assertThat(own.inUse(LIMIT, time)).isBetween(18.0, 20.0);
    }

    @Test
    void theLevelIsNeverAboveThatOfTheBucket() {
        Random random = new Random(0);
        for (int round = 0; round < 300; round++) {
            OwnUsage some = usage();
            OwnUsage late = usage();
            BucketState bucket = new BucketState(0, START);
            long time = START;
            int pause = 1 + random.nextInt(400);
            for (int i = 0; i < 200; i++) {
                time += random.nextInt(random.nextInt(20) == 0 ? 3_000 : pause);
                bucket = bucket.at(LIMIT, time);
                long cost = 1L + random.nextInt(3);
                if (bucket.fits(LIMIT, cost)) {
                    bucket = new BucketState(bucket.level() + BucketState.units(LIMIT, cost), time);
                    if (random.nextInt(4) > 0) {
                        (random.nextInt(4) > 0 ? some : late).add(LIMIT, time, cost);
                    }
                }
                if (random.nextInt(30) == 0) {
                    some.addAll(LIMIT, late);
                    late.clear();
                }
                assertThat(some.inUse(LIMIT, time))
                        .as("round %d, step %d", round, i)
                        .isLessThanOrEqualTo(bucket.level() / 1_000.0);
            }
        }
    }

    @Test
    void refundsLowerTheLevelOfAFullBucket() {
        aBucketThatIsAlwaysFullStaysInUse();
        long time = START + 60_000;
        assertThat(own.refund(LIMIT, time, 1)).isZero();
        assertThat(own.refund(LIMIT, START, 2)).isZero();
        assertThat(own.inUse(LIMIT, time)).isBetween(15.0, 17.0);
        assertThat(own.refundOldest(LIMIT, time, 100)).isPositive();
        assertThat(own.inUse(LIMIT, time)).isZero();
    }

    /** Calculated with a lower rate, the level would be too high. */
    @Test
    void nothingIsKnownOnceTheRateHasChanged() {
        own.add(LIMIT, START, 10);
        Limit slower = Limit.parse("5/1s burst=10");
        assertThat(slower.reach()).isEqualTo(LIMIT.reach());
        own.adjustTo(slower);
        assertThat(own.inUse(slower, START)).isZero();
    }

    /** The lower bound would be about half of it, and all shares together half of the limit. */
    @Test
    void twoInstancesTogetherKnowWhatACounterCounts() {
        Limit limit = Limit.parse("100/10s counter");
        OwnUsage other = new OwnUsage();
        own.adjustTo(limit);
        other.adjustTo(limit);
        CounterState counter = new CounterState(START, 0, 0);
        for (int i = 0; i < 600; i++) {
            long time = START + i * 100L;
            counter = counter.at(limit, time);
            counter = new CounterState(counter.start(), counter.previous(), counter.current() + 1);
            (i % 2 == 0 ? own : other).add(limit, time, 1);
            double known = own.inUse(limit, counter, time);
            assertThat(known + other.inUse(limit, counter, time))
                    .as("after %d permits", i)
                    .isBetween(counter.used(limit, time) - 6.0, counter.used(limit, time) + 6.0);
            assertThat(known).isLessThan(55);
        }
    }

    /** They may have been spent a lease time after they were charged. */
    @Test
    void leasedPermitsExpireLaterAlsoOnceLeasesHaveEnded() {
        Limit limit = Limit.parse("100/10s");
        OwnUsage other = new OwnUsage();
        other.adjustTo(limit);
        other.add(limit, START, 1);
        own.adjustTo(limit.leased());
        own.add(limit.leased(), START, 1);
        own.adjustTo(limit);
        assertThat(expiryOf(own, limit))
                .isEqualTo(expiryOf(other, limit) + limit.leaseTime().toMillis());
    }

    private static long expiryOf(OwnUsage usage, Limit limit) {
        return LongStream.range(START, START + 60_000)
                .filter(time -> usage.released(limit, START, time) > 0)
                .findFirst()
                .orElseThrow();
    }

    private static OwnUsage usage() {
        OwnUsage usage = new OwnUsage();
        usage.adjustTo(LIMIT);
        return usage;
    }
}
