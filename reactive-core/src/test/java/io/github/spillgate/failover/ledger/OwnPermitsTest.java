package io.github.spillgate.failover.ledger;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** What an instance knows of its own permits. */
class OwnPermitsTest {

    private static final long START = 1_790_000_000_000L;

    private final OwnPermits own = new OwnPermits();

    /** The lower bound would be about half of it, and all shares together half of the limit. */
    @Test
    void twoInstancesTogetherKnowWhatACounterCounts() {
        Limit limit = Limit.parse("100/10s counter");
        OwnPermits other = new OwnPermits();
        own.adjustTo(limit);
        other.adjustTo(limit);
        CounterState counter = new CounterState(START, 0, 0);
        for (int i = 0; i < 600; i++) {
            long time = START + i * 100L;
            counter = counter.at(limit, time);
            counter = new CounterState(counter.start(), counter.previous(), counter.current() + 1);
            (i % 2 == 0 ? own : other).add(time, 1);
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
        OwnPermits other = new OwnPermits();
        other.adjustTo(limit);
        other.add(START, 1);
        own.adjustTo(limit.leased());
        own.add(START, 1);
        own.adjustTo(limit);
        assertThat(expiryOf(own, limit))
                .isEqualTo(expiryOf(other, limit) + limit.leaseTime().toMillis());
    }

    private static long expiryOf(OwnPermits usage, Limit limit) {
        return LongStream.range(START, START + 60_000)
                .filter(time -> usage.released(limit, START, 1, time) > 0)
                .findFirst()
                .orElseThrow();
    }
}
