package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.failover.OutageHistory.Instance;
import io.github.spillgate.failover.OutageHistory.Plan;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.VirtualTime;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What several instances grant together while connections fail, instances die and the store loses its data: random
 * histories within the bounds of {@link AdmissionOracle}, and the shortest ones that were not.
 *
 * <p>A failure names its seed. To replay it, run the test with {@code -Dspillgate.seed=<seed>}.
 */
class OutageHistoryTest {

    private static final int HISTORIES = 200;
    private static final int MANY_HISTORIES = 20_000;
    private static final int MILLIS = 3_000;
    private static final Long SEED = Long.getLong("spillgate.seed");

    /** The same histories each time. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void noGrantExceedsItsBound(int instances) {
        run(HISTORIES, instances, new Random(0));
    }

    @Proof
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void noGrantExceedsItsBoundInManyHistories(int instances) {
        run(MANY_HISTORIES, instances, new Random());
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
        "4, 9001319"
    })
    void anEarlierFailureDoesNotReturn(int instances, long seed) {
        runOne(instances, new Random(seed));
    }

    /** The grants that the store has charged by reconciliation must be evidence of the loss. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossAfterAReconciliationFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
            instance.connection(Mode.DOWN);
            history.acquire(instance, 10);
            instance.connection(Mode.UP);
            history.pass(3_000);
            assertThat(history.granted()).isEqualTo(10);
            history.loseAll();
            history.acquire(instance, 20);
        });
    }

    /** After the restoration, the earlier permits must be evidence of the next loss. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aSecondLossFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
            history.acquire(instance, 10);
            history.loseAll();
            history.acquire(instance, 1);
            history.loseAll();
            history.acquire(instance, 20);
        });
    }

    /** The store must not take reconciled grants that are older than its last reply for permits that it has kept. */
    @ParameterizedTest
    @CsvSource({"10/1h, UP", "10/1h, LOSES_REPLIES", "10/1h counter, UP", "10/1h counter, LOSES_REPLIES"})
    void aLossBeforeOlderGrantsAreReconciledFreesNoPermits(String limit, Mode thenMode) {
        history(limit, (history, instance) -> {
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
        });
    }

    /** The repeated reconciliation must not stand for the permits that were lost before it was charged. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossBeforeAReconciliationWithALostReplyFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
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
        });
    }

    /** Until the restoration, the reconciled grants must count beside the permits that are lost. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossBeforeAReconciliationFreesNoPermitsUntilItIsRestored(String limit) {
        history(limit, (history, instance) -> {
            history.acquire(instance, 6);
            instance.connection(Mode.DOWN);
            instance.acquire("key", 4);
            history.loseAll();
            instance.pauseBeforeChanges(500);
            instance.connection(Mode.UP);
            history.acquire(instance, 40);
        });
    }

    /** A charge that is refunded because it did not fit was never evidence, and its refund must not remove any. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossAfterGrantsThatDidNotFitFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
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
        });
    }

    /** Of replies in any order, the refund of one that did not become evidence must not remove that of another. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossAfterARefundOfAnEarlierGrantFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
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
        });
    }

    /** A refund of a late charge that did not fit beside its local grant must not remove evidence of other permits. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossAfterARefundOfACancelledGrantFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
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
        });
    }

    /** The charges of late replies replace the local grants, and must be evidence of the loss like these. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1h", "10/1h counter"})
    void aLossAfterLateRepliesFreesNoPermits(String limit) {
        history(limit, (history, instance) -> {
            instance.connection(Mode.LATE);
            instance.delay(150);
            history.acquireAtOnce(instance, 10);
            history.pass(200);
            assertThat(history.granted()).isEqualTo(10);
            instance.connection(Mode.UP);
            history.loseAll();
            history.acquire(instance, 20);
        });
    }

    private static void history(String limit, Steps steps) {
        try (VirtualTime time = new VirtualTime()) {
            Plan plan = new Plan(Limit.parse(limit), 1, false, false, false);
            OutageHistory history = new OutageHistory(time, plan, new Random(0));
            steps.run(history, history.instance(0));
            assertThat(history.granted()).isLessThanOrEqualTo(10);
        }
    }

    private static void run(int histories, int instances, Random seeds) {
        for (int i = 0; i < histories; i++) {
            long seed = SEED == null ? seeds.nextLong() : SEED;
            try {
                runOne(instances, new Random(seed));
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError("seed " + seed + " with " + instances + " instances: " + e.getMessage(), e);
            }
        }
    }

    static void runOne(int instances, Random random) {
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

    /** What happens in a history of one instance. */
    private interface Steps {

        void run(OutageHistory history, Instance instance);
    }
}
