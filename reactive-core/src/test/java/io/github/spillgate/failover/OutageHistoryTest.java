package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.FailoverHistory.Instance;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.failover.OutageHistory.Plan;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.VirtualTime;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What several instances grant together while connections fail, instances die and the store loses its data: random
 * histories within the bounds of {@link AdmissionOracle}, and the shortest ones that were not.
 */
class OutageHistoryTest {

    private static final int HISTORIES = 200;
    private static final int MANY_HISTORIES = 20_000;
    private static final int MILLIS = 3_000;

    /** The same histories each time. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void noGrantExceedsItsBound(int instances) {
        SimulatedInstance.runHistories(HISTORIES, new Random(0), random -> runOne(instances, random));
    }

    @Proof
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void noGrantExceedsItsBoundInManyHistories(int instances) {
        SimulatedInstance.runHistories(MANY_HISTORIES, new Random(), random -> runOne(instances, random));
    }

    /** Histories that once exceeded their bound, or that of an oracle without one of its allowances. */
    @ParameterizedTest
    @CsvSource(textBlock = """
            1, 84798 87728 1085998 1094151 2056891 2066021 2074178 3040207 5878120340405004398
            1, 5913602666388066003 3458438750270765779 -3846495563177978257 6956824461025742865
            1, 7305943258998511329
            1, -7333484817947033722 -7968553297735660766 -7823582637465781409
            2, 80472 80566 81998 82118 82424 99740 92499 1020429 1057634 2089665 3012972 3077121
            2, 9008582 6031420252203111051 -8082664150532464622 -6066206106597604241 9007745
            2, 3823938679300236229 -3188342592257793621 -707782872463331184 -4804217188247009354
            4, 91107 91990 1062148 1065528 3011281 9001319 9106284435928084113 -6210114667130767354
            4, -1988121919985651200 4877358473904465349 -7769765164012473829 1719202061085833829
            4, -2900016631563066428 -3088029687662340793 -5851160433577396582 90059665
            4, -2292891458187722796 1913369174841110257 -6922631267596903334
            """)
    void anEarlierFailureDoesNotReturn(int instances, String seeds) {
        for (String seed : seeds.split(" ", -1)) {
            SimulatedInstance.runHistory(Long.parseLong(seed), random -> runOne(instances, random));
        }
    }

    /** One instance, which grants no permit beyond the limit. */
    @Nested
    @ParameterizedClass
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    class ALossFreesNoPermits {

        private final VirtualTime time = new VirtualTime();
        private final FailoverHistory history;
        private final Instance instance;

        ALossFreesNoPermits(String limit) {
            history = new FailoverHistory(time, Limit.parse(limit), 1);
            instance = history.instance(0);
        }

        @AfterEach
        void noPermitIsFree() {
            time.close();
            assertThat(history.granted()).isLessThanOrEqualTo(10);
        }

        /** After the restoration, the earlier permits must be evidence of the next loss. */
        @Test
        void afterAnotherLoss() {
            acquire(10);
            loseAll();
            acquire(1);
            loseAll();
            acquire(20);
        }

        /** The store must not take reconciled grants that are older than its last reply for permits it has kept. */
        @ParameterizedTest
        @EnumSource(
                value = Mode.class,
                names = {"UP", "LOSES_REPLIES"})
        void beforeOlderGrantsAreReconciled(Mode thenMode) {
            instance.connection(Mode.STALLED);
            instance.acquireSingly(6);
            instance.connection(Mode.DOWN);
            acquire(4);
            instance.reconnect();
            assertThat(history.granted()).isEqualTo(10);
            loseAll();
            instance.connection(thenMode);
            time.passMillis(1_500);
            instance.connection(Mode.UP);
            time.passMillis(3_000);
            acquire(20);
        }

        /** A charge that is refunded because it did not fit was never evidence, and its refund must not remove any. */
        @Test
        void afterGrantsThatDidNotFit() {
            acquire(4);
            instance.connection(Mode.LATE);
            instance.delay(50);
            instance.acquireSingly(6);
            instance.connection(Mode.DOWN);
            instance.acquireSingly(6);
            instance.connection(Mode.UP);
            time.passMillis(60);
            assertThat(history.granted()).isEqualTo(10);
            refund(4, 10);
            loseAll();
            acquire(20);
        }

        /** Of replies in any order, the refund of one that did not become evidence must not remove that of another. */
        @Test
        void afterARefundOfAnEarlierGrant() {
            instance.connection(Mode.LATE);
            instance.delay(50);
            instance.acquireSingly(5);
            time.passMillis(1);
            instance.connection(Mode.UP);
            acquire(5);
            time.passMillis(50);
            assertThat(history.granted()).isEqualTo(10);
            refund(0, 5);
            loseAll();
            acquire(20);
        }

        /** A refund of a late charge that did not fit beside its local grant must not remove evidence of others. */
        @Test
        void afterARefundOfACancelledGrant() {
            acquire(4);
            instance.connection(Mode.LATE);
            instance.delay(150);
            instance.acquireSingly(6);
            time.passMillis(200);
            assertThat(history.granted()).isEqualTo(10);
            instance.connection(Mode.UP);
            refund(4, 10);
            loseAll();
            acquire(20);
        }

        /** The charges of late replies replace the local grants, and must be evidence of the loss like these. */
        @Test
        void afterLateReplies() {
            instance.connection(Mode.LATE);
            instance.delay(150);
            instance.acquireSingly(10);
            time.passMillis(200);
            assertThat(history.granted()).isEqualTo(10);
            instance.connection(Mode.UP);
            loseAll();
            acquire(20);
        }

        /** Takes permits one at a time, each in a millisecond of its own. */
        private void acquire(int permits) {
            for (int i = 0; i < permits; i++) {
                instance.acquire(1);
                time.passMillis(2);
            }
        }

        /** Refunds some of the grants, by their numbers. */
        private void refund(int from, int to) {
            instance.grants().subList(from, to).forEach(instance::refund);
            time.passMillis(2);
        }

        /** The store loses all data, in a millisecond of its own. */
        private void loseAll() {
            time.passMillis(2);
            history.loseAll();
            time.passMillis(2);
        }
    }

    private static void runOne(int instances, Random random) {
        Plan plan = new Plan(
                limit(random), instances, random.nextInt(4) > 0, random.nextInt(3) == 0, random.nextInt(4) > 0);
        // Each has its own time: the scheduler of a time keeps a periodic task even if that was disposed of.
        try (VirtualTime time = new VirtualTime()) {
            new OutageHistory(time, plan, random).run(MILLIS);
        }
    }

    /** A log or an aligned counter from which permits expire during a history, or any from which none do. */
    private static Limit limit(Random random) {
        int permits = 1 + random.nextInt(random.nextInt(3) == 0 ? 4 : 60);
        int millis = 500 + random.nextInt(2_500);
        return Limit.parse(permits
                + switch (random.nextInt(6)) {
                    case 0 -> "/1h";
                    case 1 -> "/1h counter";
                    case 2 -> "/" + millis + "ms counter aligned";
                    case 3 -> "/" + millis + "ms resolution=" + millis / 10 + "ms";
                    default -> "/" + millis + "ms";
                });
    }
}
