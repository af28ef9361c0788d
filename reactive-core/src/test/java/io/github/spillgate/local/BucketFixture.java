package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.BucketLevels;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.ManualClock;
import java.util.List;

/** A token bucket in a local store, and what it has granted, net of refunds. */
abstract class BucketFixture {

    final ManualClock clock = new ManualClock();
    final LocalStore store = LocalStore.bounded(100, clock);

    RateLimiter limiter(Limit limit) {
        return RateLimiter.builder("test").store(store).limit(limit).build();
    }

    /** A bucket that was never asked for permits does not exist, and is empty. */
    long level(Claim claim) {
        Long level = store.counts().apply(claim, false, BucketLevels::of);
        return level == null ? 0 : level;
    }

    /** Asserts that no interval has more than the burst and what returns in it. All intervals are tried. */
    static void assertWithin(Limit limit, List<? extends Grant<?>> grants) {
        long window = limit.window().toMillis();
        for (int from = 0; from < grants.size(); from++) {
            long sum = 0;
            for (int to = from; to < grants.size(); to++) {
                sum += grants.get(to).units;
                long passed = grants.get(to).at - grants.get(from).at;
                assertThat(sum).isLessThanOrEqualTo(limit.capacity() * window + passed * limit.permits());
            }
        }
    }

    /**
     * Permits that were granted.
     *
     * @param <D> the type of the decision
     */
    static final class Grant<D> {
        final D decision;
        final long at;
        long units;

        /**
         * Creates a grant.
         *
         * @param units the permits, in units of the level
         */
        Grant(D decision, long at, long units) {
            this.decision = decision;
            this.at = at;
            this.units = units;
        }

        /** Removes what a refund has returned, which must not be more than what is left. */
        void refunded(long returned) {
            assertThat(returned).isBetween(0L, units);
            units -= returned;
        }
    }
}
