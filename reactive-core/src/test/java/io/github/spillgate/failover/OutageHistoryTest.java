package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.failover.OutageHistory.Instance;
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
    @CsvSource({
        "1, 84798",
        "1, 87728",
        "1, 1085998",
        "1, 1094151",
        "1, 2056891",
        "1, 2066021",
        "1, 2074178",
        "2, 80472",
        "2, 80566",
        "2, 81998",
        "2, 82118",
        "2, 82424",
        "2, 99740",
        "2, 92499",
        "2, 1020429",
        "2, 1057634",
        "2, 2089665",
        "2, 3012972",
        "4, 91107",
        "4, 91990",
        "4, 1062148",
        "4, 1065528",
        "4, 3011281",
        "1, 3040207",
        "2, 3077121",
        "2, 9008582",
        "4, 9001319",
        "1, 5878120340405004398",
        "2, 6031420252203111051",
        "4, 9106284435928084113",
        "4, -6210114667130767354",
        "1, 5913602666388066003",
        "1, 3458438750270765779",
        "4, -1988121919985651200",
        "1, -3846495563177978257",
        "4, 4877358473904465349",
        "4, -7769765164012473829",
        "4, 1719202061085833829",
        "1, 6956824461025742865",
        "2, -8082664150532464622",
        "4, -2900016631563066428",
        "2, -6066206106597604241",
        "4, -3088029687662340793",
        "2, 9007745",
        "4, -5851160433577396582",
        "4, 90059665",
        "1, -7333484817947033722",
        "1, -7968553297735660766",
        "2, 3823938679300236229",
        "2, -3188342592257793621",
        "4, -2292891458187722796",
        "4, 1913369174841110257",
        "4, -6922631267596903334",
        "2, -707782872463331184",
        "1, -7823582637465781409"
    })
    void anEarlierFailureDoesNotReturn(int instances, long seed) {
        runOne(instances, new Random(seed));
    }

    /** One instance, which grants no permit beyond the limit. */
    @Nested
    @ParameterizedClass
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    class ALossFreesNoPermits {

        private final VirtualTime time = new VirtualTime();
        private final OutageHistory history;
        private final Instance instance;

        ALossFreesNoPermits(String limit) {
            history = new OutageHistory(time, new Plan(Limit.parse(limit), 1, false, false, false), new Random(0));
            instance = history.instance(0);
        }

        @AfterEach
        void noPermitIsFree() {
            time.close();
            assertThat(history.granted()).isLessThanOrEqualTo(10);
        }

        /** The grants that the store has charged by reconciliation must be evidence of the loss. */
        @Test
        void afterAReconciliation() {
            instance.connection(Mode.DOWN);
            history.acquire(instance, 10);
            instance.connection(Mode.UP);
            history.pass(3_000);
            assertThat(history.granted()).isEqualTo(10);
            history.loseAll();
            history.acquire(instance, 20);
        }

        /** After the restoration, the earlier permits must be evidence of the next loss. */
        @Test
        void afterAnotherLoss() {
            history.acquire(instance, 10);
            history.loseAll();
            history.acquire(instance, 1);
            history.loseAll();
            history.acquire(instance, 20);
        }

        /** The store must not take reconciled grants that are older than its last reply for permits it has kept. */
        @ParameterizedTest
        @EnumSource(
                value = Mode.class,
                names = {"UP", "LOSES_REPLIES"})
        void beforeOlderGrantsAreReconciled(Mode thenMode) {
            instance.connection(Mode.STALLED);
            history.acquireAtOnce(instance, 6);
            instance.connection(Mode.DOWN);
            history.acquire(instance, 4);
            instance.reconnect();
            assertThat(history.granted()).isEqualTo(10);
            history.loseAll();
            instance.connection(thenMode);
            history.pass(1_500);
            instance.connection(Mode.UP);
            history.pass(3_000);
            history.acquire(instance, 20);
        }

        /** The repeated reconciliation must not stand for the permits that were lost before it was charged. */
        @Test
        void beforeAReconciliationWithALostReply() {
            history.acquire(instance, 4);
            instance.connection(Mode.DOWN);
            instance.acquire("key", 6);
            history.loseAll();
            instance.connection(Mode.LOSES_REPLIES);
            history.pass(1_500);
            instance.connection(Mode.UP);
            history.pass(3_000);
            assertThat(history.granted()).isEqualTo(10);
            history.acquire(instance, 20);
        }

        /** Until the restoration, the reconciled grants must count beside the permits that are lost. */
        @Test
        void beforeAReconciliationUntilItIsRestored() {
            history.acquire(instance, 6);
            instance.connection(Mode.DOWN);
            instance.acquire("key", 4);
            history.loseAll();
            instance.pauseBeforeChanges(500);
            instance.connection(Mode.UP);
            history.acquire(instance, 40);
        }

        /** A charge that is refunded because it did not fit was never evidence, and its refund must not remove any. */
        @Test
        void afterGrantsThatDidNotFit() {
            history.acquire(instance, 4);
            instance.connection(Mode.LATE);
            instance.delay(50);
            history.acquireAtOnce(instance, 6);
            instance.connection(Mode.DOWN);
            history.acquireAtOnce(instance, 6);
            instance.connection(Mode.UP);
            history.pass(60);
            assertThat(history.granted()).isEqualTo(10);
            history.refundLast(instance, 6);
            history.loseAll();
            history.acquire(instance, 20);
        }

        /** Of replies in any order, the refund of one that did not become evidence must not remove that of another. */
        @Test
        void afterARefundOfAnEarlierGrant() {
            instance.connection(Mode.LATE);
            instance.delay(50);
            history.acquireAtOnce(instance, 5);
            history.pass(1);
            instance.connection(Mode.UP);
            history.acquire(instance, 5);
            history.pass(50);
            assertThat(history.granted()).isEqualTo(10);
            history.refundFirst(instance, 5);
            history.loseAll();
            history.acquire(instance, 20);
        }

        /** A refund of a late charge that did not fit beside its local grant must not remove evidence of others. */
        @Test
        void afterARefundOfACancelledGrant() {
            history.acquire(instance, 4);
            instance.connection(Mode.LATE);
            instance.delay(150);
            history.acquireAtOnce(instance, 6);
            history.pass(200);
            assertThat(history.granted()).isEqualTo(10);
            instance.connection(Mode.UP);
            history.refundLast(instance, 6);
            history.loseAll();
            history.acquire(instance, 20);
        }

        /** The charges of late replies replace the local grants, and must be evidence of the loss like these. */
        @Test
        void afterLateReplies() {
            instance.connection(Mode.LATE);
            instance.delay(150);
            history.acquireAtOnce(instance, 10);
            history.pass(200);
            assertThat(history.granted()).isEqualTo(10);
            instance.connection(Mode.UP);
            history.loseAll();
            history.acquire(instance, 20);
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
