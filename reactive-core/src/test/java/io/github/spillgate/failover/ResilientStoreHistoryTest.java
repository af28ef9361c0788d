package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FailoverHistory.Instance;
import io.github.spillgate.failover.FailoverHistory.Rate;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.VirtualTime;
import java.util.Random;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Random histories of several instances on one store, in virtual time: connections stall, lose replies, are late or
 * fail, callers cancel, and decisions are refunded. Everything that callers were granted is added up.
 *
 * <p>The limit's window is longer than a history, so that nothing expires and the sums are exact.
 */
class ResilientStoreHistoryTest {

    private static final int HISTORIES = 150;
    private static final int MANY_HISTORIES = 5_000;
    private static final int MILLIS = 1_000;
    private static final int MOST_PERMITS = 60;

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    @ParameterizedTest
    @EnumSource
    void everyGrantIsChargedAndNoneTwice(Rate rate) {
        SimulatedInstance.runHistories(HISTORIES, new Random(0), random -> runOne(rate, random));
    }

    @Proof
    @ParameterizedTest
    @EnumSource
    void everyGrantIsChargedAndNoneTwiceInManyHistories(Rate rate) {
        SimulatedInstance.runHistories(MANY_HISTORIES, new Random(), random -> runOne(rate, random));
    }

    @ParameterizedTest
    @EnumSource
    void everySettledCostIsChargedOnce(Rate rate) {
        SimulatedInstance.runHistories(HISTORIES, new Random(0), random -> runWithSettlements(rate, random));
    }

    @Proof
    @ParameterizedTest
    @EnumSource
    void everySettledCostIsChargedOnceInManyHistories(Rate rate) {
        SimulatedInstance.runHistories(MANY_HISTORIES, new Random(), random -> runWithSettlements(rate, random));
    }

    /** A refund of the late charges would let the other instance in: 150 of 100. */
    @Test
    void aLateChargeIsNotRefundedWhileItsLocalGrantIsInUse() {
        FailoverHistory history = new FailoverHistory(time, Limit.perHour(100), 2);
        Instance first = history.instance(0);
        Instance second = history.instance(1);
        first.acquireSingly(50);
        first.connection(Mode.LATE);
        first.delay(200);
        first.acquireSingly(50);
        time.passMillis(150);
        assertThat(history.granted(Source.LOCAL)).isEqualTo(50);
        time.passMillis(100);
        first.connection(Mode.UP);
        second.acquireSingly(50);
        history.end();
        assertThat(history.granted()).isEqualTo(100);
        assertThat(history.used()).isEqualTo(100);
    }

    /** A refund of the late charges would let the other instance in: 75 and 50 of 100. */
    @Test
    void whatASettlementLeavesOfALateChargeIsNotRefunded() {
        FailoverHistory history = new FailoverHistory(time, Limit.perHour(100), 2);
        Instance first = history.instance(0);
        Instance second = history.instance(1);
        first.acquireSingly(50);
        first.connection(Mode.LATE);
        first.delay(200);
        IntStream.range(0, 25).forEach(i -> first.acquire(2));
        time.passMillis(150);
        first.settleLocal(1);
        assertThat(history.granted(Source.LOCAL)).isEqualTo(25);
        time.passMillis(100);
        second.acquireSingly(50);
        history.end();
        assertThat(history.granted()).isEqualTo(100);
        assertThat(history.used()).isEqualTo(100);
    }

    /** Before its charge, the refund would remove the permits of the other instance, and let it take two more. */
    @ParameterizedTest
    @EnumSource
    void aGrantInFlightIsRefundedOnceItIsCharged(Rate rate) {
        Limit log = Limit.perHour(2);
        FailoverHistory history = new FailoverHistory(time, rate.like(log), 2);
        Instance first = history.instance(0);
        Instance second = history.instance(1);
        first.connection(Mode.DOWN);
        first.acquire(2);
        // The grant is handed over, and cannot be charged.
        time.passMillis(1_100);
        second.acquire(2);
        first.refundFirst();
        time.passMillis(1_000);
        first.connection(Mode.UP);
        time.passMillis(10);
        second.acquire(2);
        history.end();
        second.acquire(1);
        assertThat(history.granted()).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " counter", " counter aligned", " burst=N", " leased", " burst=N leased"})
    void oneInstanceNeverExceedsTheLimitAfterAReset(String kind) {
        SimulatedInstance.runHistories(HISTORIES, new Random(0), random -> runWithResets(kind, random));
    }

    @Proof
    @ParameterizedTest
    @ValueSource(strings = {"", " counter", " counter aligned", " burst=N", " leased", " burst=N leased"})
    void oneInstanceNeverExceedsTheLimitAfterAResetInManyHistories(String kind) {
        SimulatedInstance.runHistories(MANY_HISTORIES, new Random(), random -> runWithResets(kind, random));
    }

    private static void runWithResets(String kind, Random random) {
        try (VirtualTime own = new VirtualTime()) {
            Limit limit = limit(1 + random.nextInt(4), kind);
            FailoverHistory history = new FailoverHistory(own, limit, 1, random);
            history.instance(0).pauseBeforeChanges(30);
            int since = 0;
            // After as many, the store cannot tell an old decision from one that was made since.
            int resets = StoreUsage.RESETS - 1;
            for (int passed = 0; passed < 2 * MILLIS; ) {
                switch (random.nextInt(8)) {
                    case 0 -> {
                        if (resets-- > 0) {
                            since = history.requests();
                            history.instance(0).reset();
                        }
                    }
                    case 1, 2 -> history.instance(0).refundOne();
                    default -> history.step();
                }
                int pause = random.nextInt(60);
                own.passMillis(pause);
                passed += pause;
                assertThat(history.grantedSince(since)).isLessThanOrEqualTo(limit.permits());
            }
            history.end();
            history.instance(0).acquireAll();
            assertThat(history.grantedSince(since)).isLessThanOrEqualTo(limit.permits());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " counter", " counter aligned", " burst=N", " leased", " burst=N leased"})
    void oneInstanceNeverExceedsALimitThatChanges(String kind) {
        SimulatedInstance.runHistories(HISTORIES, new Random(0), random -> runWithChanges(kind, random));
    }

    @Proof
    @ParameterizedTest
    @ValueSource(strings = {"", " counter", " counter aligned", " burst=N", " leased", " burst=N leased"})
    void oneInstanceNeverExceedsALimitThatChangesInManyHistories(String kind) {
        SimulatedInstance.runHistories(MANY_HISTORIES, new Random(), random -> runWithChanges(kind, random));
    }

    private static void runWithChanges(String kind, Random random) {
        try (VirtualTime own = new VirtualTime()) {
            FailoverHistory history = new FailoverHistory(own, anyLimit(kind, random), 1, random);
            history.instance(0).pauseBeforeChanges(30);
            history.run(2 * MILLIS, 60, () -> {
                if (random.nextInt(8) == 0) {
                    history.replaceLimit(anyLimit(kind, random));
                } else {
                    history.step();
                }
            });
            history.end();
            history.instance(0).acquireAll();
            history.checkEachGrant();
        }
    }

    private static Limit anyLimit(String kind, Random random) {
        return limit(1 + random.nextInt(MOST_PERMITS), kind);
    }

    private static Limit limit(int permits, String kind) {
        return Limit.parse(permits + "/1d" + kind.replace("N", "" + permits));
    }

    /** The limit is so high that no debt reaches its bound. */
    private static void runWithSettlements(Rate rate, Random random) {
        runOne(rate, 20 + random.nextInt(MOST_PERMITS), random, history -> {
            if (random.nextInt(4) == 0) {
                history.instances().forEach(Instance::settleOne);
            } else {
                history.step();
            }
        });
    }

    private static void runOne(Rate rate, Random random) {
        runOne(rate, 1 + random.nextInt(MOST_PERMITS), random, FailoverHistory::step);
    }

    private static void runOne(Rate rate, int permits, Random random, Consumer<FailoverHistory> step) {
        try (VirtualTime own = new VirtualTime()) {
            Limit log = Limit.perHour(permits);
            Limit any = rate.like(log);
            Limit limit = !any.leaseTime().isZero() && random.nextBoolean() ? any.leased() : any;
            FailoverHistory history = new FailoverHistory(own, limit, 1 + random.nextInt(3), random);
            history.run(MILLIS, 40, () -> step.accept(history));
            history.end();
            history.check();
        }
    }
}
