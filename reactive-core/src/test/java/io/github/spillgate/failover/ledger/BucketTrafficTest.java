package io.github.spillgate.failover.ledger;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What an instance knows of the use of a token bucket by all. */
class BucketTrafficTest {

    private static final Limit LIMIT = Limit.perSecond(10).burst(50);
    private static final long START = 1_790_000_000_000L;

    /** If instances knew of less, their shares would add up to more than one. */
    @ParameterizedTest
    @CsvSource({"1, 50", "1, 150", "1, 2000", "2, 50", "4, 150", "4, 20", "16, 30", "16, 1000", "16, 100000"})
    void nearlyAllThatWasTakenIsKnown(int instances, int longestPause) {
        Random random = new Random((long) instances * longestPause);
        List<BucketTraffic> known =
                IntStream.range(0, instances).mapToObj(i -> new BucketTraffic()).toList();
        BucketState bucket = new BucketState(0, START);
        // Since the first reply to each instance.
        double[] taken = new double[instances];
        boolean[] hasReply = new boolean[instances];
        long time = START;
        for (int i = 0; i < 2_000; i++) {
            long passed = random.nextInt(longestPause);
            time += passed;
            for (int other = 0; other < instances; other++) {
                taken[other] *= Math.exp(-passed / 5_000.0);
            }
            bucket = bucket.at(LIMIT, time);
            boolean isAllowed = bucket.fits(LIMIT, 1);
            if (isAllowed) {
                bucket = new BucketState(bucket.level() + BucketState.units(LIMIT, 1), time);
                for (int other = 0; other < instances; other++) {
                    taken[other] += hasReply[other] ? 1 : 0;
                }
            }
            int instance = random.nextInt(instances);
            hasReply[instance] = true;
            BucketTraffic asking = known.get(instance);
            asking.replied(LIMIT, bucket.used(LIMIT), time);
            if (isAllowed) {
                asking.took(LIMIT, 1, time);
            }
            // Replies round the level up.
            OutageShare.Use use = asking.use();
            assertThat(use.all()).as("after %d requests", i).isGreaterThanOrEqualTo(taken[instance] - 2);
            assertThat(use.own()).isLessThanOrEqualTo(use.all());
        }
    }

    /** Whether requests are refunded in part, and whether the bucket is full or seldom used. */
    @ParameterizedTest
    @CsvSource({
        "2, 1, 0, 50", "4, 1, 0, 50", "16, 1, 0, 50", "4, 1, 0, 200", "16, 1, 0, 200", "4, 1, 0, 60000",
        "2, 10, 9, 110", "4, 10, 9, 110", "16, 10, 9, 110", "2, 1, 1, 20", "4, 1, 1, 20", "16, 1, 1, 20"
    })
    void sharesAddUpToAboutOne(int instances, int cost, int refunded, int between) {
        Random random = new Random(instances);
        List<BucketTraffic> known =
                IntStream.range(0, instances).mapToObj(i -> new BucketTraffic()).toList();
        OutageShare share = new OutageShare();
        BucketState bucket = new BucketState(0, START);
        double sum = 0;
        for (int i = 1; i <= 3_000; i++) {
            long time = START + i * (long) between;
            bucket = bucket.at(LIMIT, time);
            BucketTraffic asking = known.get(random.nextInt(instances));
            if (bucket.fits(LIMIT, cost)) {
                bucket = new BucketState(bucket.level() + BucketState.units(LIMIT, cost), time);
                asking.replied(LIMIT, bucket.used(LIMIT), time);
                asking.took(LIMIT, cost, time);
                bucket = new BucketState(bucket.level() - BucketState.units(LIMIT, refunded), time);
                asking.refunded(LIMIT, refunded, time);
            } else {
                asking.replied(LIMIT, bucket.used(LIMIT), time);
            }
            if (i > 2_000) {
                sum += known.stream()
                        .mapToDouble(one -> share.of(LIMIT, instances, one.use()))
                        .sum();
            }
        }
        assertThat(sum / 1_000).isBetween(0.5, instances > 4 ? 1.6 : 1.35);
    }

    @Test
    void twoInstancesThatKeepABucketFullKnowTheirParts() {
        BucketTraffic often = new BucketTraffic();
        BucketTraffic seldom = new BucketTraffic();
        for (int i = 0; i < 1_000; i++) {
            long time = START + i * 100L;
            BucketTraffic asking = i % 10 == 0 ? seldom : often;
            asking.replied(LIMIT, 50, time);
            asking.took(LIMIT, 1, time);
        }
        assertThat(often.use().own() / often.use().all()).isCloseTo(0.9, within(0.03));
        assertThat(seldom.use().own() / seldom.use().all()).isCloseTo(0.1, within(0.03));
    }
}
