package io.github.spillgate.internal;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StoreClockTest {

    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final long MILLI = TimeUnit.MILLISECONDS.toNanos(1);

    private final AtomicLong now = new AtomicLong(-5 * SECOND);
    private final StoreClock clock = new StoreClock(now::get);

    @Test
    void nothingIsKnownBeforeTheFirstReply() {
        assertThat(clock.microsAt(now.get())).isZero();
    }

    @Test
    void theFastestRecentReplyCounts() {
        long server = 1_000_000_000;
        clock.record(server);
        now.addAndGet(10 * MILLI);
        // This reply took 4 ms longer than the first.
        clock.record(server + 6_000);
        assertThat(clock.microsAt(now.get())).isBetween(server + 9_000, server + 10_000);
        now.addAndGet(10 * MILLI);
        // This reply took 3 ms less than the first.
        clock.record(server + 23_000);
        assertThat(clock.microsAt(now.get())).isBetween(server + 22_000, server + 23_000);
    }

    @Test
    void aClockStepBackIsDetectedWithinThreeSeconds() {
        long server = 1_000_000_000;
        clock.record(server);
        for (int tick = 1; tick <= 4; tick++) {
            now.addAndGet(SECOND);
            clock.record(server - 60_000_000 + tick * 1_000_000L);
        }
        assertThat(clock.microsAt(now.get())).isLessThanOrEqualTo(server - 60_000_000 + 4_000_000);
    }

    @Test
    void anOldBoundIsLoweredByTheDriftOfClocks() {
        clock.record(1_000_000_000);
        now.addAndGet(4 * SECOND);
        assertThat(clock.microsAt(now.get())).isEqualTo(1_004_000_000 - 2_000);
    }

    /** Or a request after an hour without traffic would be refused by a distant server, and so would its retry. */
    @Test
    void aVeryOldBoundIsLoweredByFiveMilliseconds() {
        clock.record(1_000_000_000);
        now.addAndGet(3_600 * SECOND);
        assertThat(clock.microsAt(now.get())).isEqualTo(4_600_000_000L - 5_000);
    }

    @Test
    void aReplyAsFastAsTheBestRenewsIt() {
        long server = 1_000_000_000;
        for (int milli = 0; milli < 900; milli++) {
            clock.record(server + milli * 1_000L);
            now.addAndGet(MILLI);
        }
        assertThat(clock.microsAt(now.get())).isGreaterThanOrEqualTo(server + 900_000 - 1);
    }

    @ParameterizedTest
    @ValueSource(longs = {Long.MAX_VALUE, Long.MAX_VALUE - 1, Long.MAX_VALUE / 2})
    void aDeadlineThatIsFarAwayIsNone(long deadline) {
        clock.record(1_000_000_000);
        assertThat(clock.microsAt(deadline)).isZero();
        assertThat(clock.isAfter(deadline)).isFalse();
    }

    @Test
    void aServerThatIsSlowForTwoSecondsIsNeverBehindTheBound() {
        long start = now.get();
        clock.record(1_000_000_000);
        now.addAndGet(1_990 * MILLI);
        clock.record(slow(1_970 * MILLI));
        now.addAndGet(990 * MILLI);
        assertThat(clock.microsAt(now.get())).isLessThanOrEqualTo(slow(now.get() - start));
    }

    private static long slow(long nanos) {
        return 1_000_000_000 + (nanos - nanos / 2_000) / 1_000;
    }

    /**
     * The server's clock runs up to 500 ppm faster or slower, and changes its speed all the time. No offset is older
     * than 10 s, in which that makes 5 ms: over a longer time, clocks are kept together.
     */
    @RepeatedTest(20)
    void theTimeIsNeverAfterTheServersClock() {
        Random random = new Random();
        double server = 1e15;
        long unrecorded = 0;
        for (int step = 0; step < 2_000; step++) {
            double speed = 1 + (random.nextDouble() - 0.5) / 1_000;
            long pause = random.nextInt(100) == 0 && unrecorded < SECOND
                    ? random.nextLong(7 * SECOND)
                    : random.nextLong(20 * MILLI);
            unrecorded += pause;
            now.addAndGet(pause);
            server += pause * speed / 1_000;
            if (random.nextBoolean()) {
                long trip = random.nextLong(30 * MILLI);
                long read = (long) server;
                now.addAndGet(trip);
                server += trip * speed / 1_000;
                clock.record(read);
                unrecorded = 0;
            }
            long bound = clock.microsAt(now.get());
            assertThat(bound).isLessThanOrEqualTo((long) Math.ceil(server));
        }
    }
}
