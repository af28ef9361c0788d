package io.github.spillgate.failover.ledger;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an instance restores of a reply. */
class SnapshotTest {

    private static final long START = 1_789_999_200_000L;
    private static final long WINDOW = 3_600_000;

    /** A refund without a decision has removed the oldest, after the refund of a decision was subtracted here. */
    @Test
    void ifMorePermitsAreKnownThanAreInUseTheYoungestAre() {
        Limit limit = Limit.parse("100/16s");
        OwnPermits own = new OwnPermits();
        own.adjustTo(limit);
        own.add(START, 3);
        own.add(START + 8_000, 4);
        Snapshot seen = new Snapshot(8, 4, START + 24_000, 0, null, START + 8_000, 0, START + 8_000, 0, 0, own);
        assertThat(seen.usedAt(limit, START + 20_000)).isEqualTo(4);
        assertThat(seen.estimatedAt(limit, START + 20_000)).isEqualTo(4);
        assertThat(seen.grants(limit, START + 8_000)).containsExactly(new Grants(START + 8_000, START + 8_000, 4));
    }

    /** The clocks of two servers, and the local one, differ by some milliseconds. */
    @ParameterizedTest
    @ValueSource(longs = {2_000, WINDOW / 2, WINDOW - 2_000})
    void aClockThatDiffersALittleMovesNoPermitsToAnotherWindow(long passed) {
        Limit limit = Limit.parse("100/1h counter aligned");
        long at = START + passed;
        long here = at - 86_400_000;
        OwnPermits own = new OwnPermits();
        Snapshot seen =
                new Snapshot(8, 100, START + 2 * WINDOW, 0, new CounterState(START, 7, 93), at, 0, here, 0, 0, own);
        List<Grants> grants = seen.grants(limit, here);
        assertThat(grants).extracting(Grants::permits).containsExactly(7L, 93L);
        for (long differs : new long[] {-1_000, 1_000}) {
            assertThat(grants)
                    .extracting(one -> Math.floorDiv(one.toMillis() - here + at + differs, WINDOW) * WINDOW - START)
                    .containsExactly(-WINDOW, 0L);
        }
    }
}
