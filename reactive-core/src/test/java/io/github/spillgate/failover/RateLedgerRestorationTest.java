package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.Ledger.Fit;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.StoreForTests;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Replies around a restoration that arrive in another order than the store executed the requests. The store takes some
 * permits that it has granted since the loss for restored ones: all of the current window of an aligned counter, and
 * those of the same slot of a log. They are no second loss, and a second loss still shows.
 */
class RateLedgerRestorationTest extends LocalFallbackFixture {

    private static final long LOST = 10;
    private static final long GRANTED = 3;
    private static final int SEEDS = 500;
    private static final int STEPS = 60;

    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aGrantFromBeforeTheRestorationWithALateReplyIsNoSecondLoss(String limit) {
        Instance instance = afterALoss(limit);
        StoreDecision late = instance.take(GRANTED);
        clock.advanceMillis(1);
        instance.confirmRestored(instance.restore());
        instance.confirm(late);
        instance.staysWithin(LOST + 2 * GRANTED);
    }

    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aGrantFromTheMillisecondOfTheRestorationIsNoSecondLoss(String limit) {
        Instance instance = afterALoss(limit);
        StoreDecision late = instance.take(GRANTED);
        instance.confirmRestored(instance.restore());
        instance.confirm(late);
        instance.staysWithin(LOST + 2 * GRANTED);
    }

    /** The newest reply has the permits of a grant of which the instance does not know yet. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aGrantBeforeTheNewestReplyIsNoSecondLossIfTheRestorationIsConfirmedLater(String limit) {
        Instance instance = afterALoss(limit);
        StoreDecision restored = instance.restore();
        clock.advanceMillis(1);
        StoreDecision late = instance.take(GRANTED);
        clock.advanceMillis(1);
        instance.acquire(1);
        instance.confirmRestored(restored);
        instance.confirm(late);
        instance.staysWithin(LOST + 2 * GRANTED + 1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aChargeFromBeforeTheRestorationWithALateReplyIsNoSecondLoss(String limit) {
        Instance instance = afterALoss(limit);
        instance.ledger.advanceTo(clock.millis());
        instance.ledger.take(GRANTED);
        Reconciliation sent = Objects.requireNonNull(instance.ledger.take()).message();
        sent.agesToSend();
        StoreDecision late = corrected(instance.store, sent);
        clock.advanceMillis(1);
        instance.confirmRestored(instance.restore());
        instance.ledger.charged(sent, late);
        instance.staysWithin(LOST + GRANTED);
    }

    /** During an outage, an instance with a share takes all permits of a log to expire like its own. */
    @Test
    void aGrantWithALateReplyDoesNotSeemToExpireWithTheRestoredPermits() {
        Instance instance = new Instance("10/16s resolution=1600ms");
        clock.advanceMillis(1_600 - clock.millis() % 1_600);
        instance.acquire(5);
        instance.loseAll();
        instance.acquire(1);
        clock.advanceMillis(8_000);
        StoreDecision late = instance.take(4);
        clock.advanceMillis(1);
        instance.confirmRestored(instance.restore());
        instance.confirm(late);
        // The late ones are in use for 4 s more, and the others have expired.
        clock.advanceMillis(12_000);
        assertThat(instance.reserved(0.8)).isGreaterThanOrEqualTo(4);
    }

    /** Then the larger number of permits must be restored. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aSecondLossBeforeTheRestorationIsNoticed(String limit) {
        Instance instance = new Instance(limit);
        instance.acquire(GRANTED);
        instance.loseAll();
        instance.acquire(LOST);
        instance.loseAll();
        instance.confirmRestored(instance.restore());
        clock.advanceMillis(1);
        instance.acquire(1);
        assertThat(instance.noticed).as("losses").isEqualTo(2);
        instance.confirmRestored(instance.restore());
        for (int i = 0; i < 100; i++) {
            clock.advanceMillis(1);
            instance.acquire(1);
        }
        assertThat(instance.granted).isLessThanOrEqualTo(100 + GRANTED);
    }

    /** From before the second loss, it has more permits than the newest reply. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void theReplyToAnEarlierRestorationIsNoThirdLoss(String limit) {
        Instance instance = afterALoss(limit);
        ConfirmedUsage first = instance.missing;
        StoreDecision late = instance.restore();
        instance.loseAll();
        instance.acquire(GRANTED - 1);
        assertThat(instance.noticed).as("losses").isEqualTo(2);
        StoreDecision restored = instance.restore();
        instance.ledger.restored(first, late);
        instance.confirmRestored(restored);
        clock.advanceMillis(1);
        instance.acquire(1);
        assertThat(instance.noticed).as("losses").isEqualTo(2);
    }

    /** By their times, the restored permits would be in use for as much longer as the clock was set back. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aClockThatIsSetBackBeforeTheRestorationShowsNoSecondLoss(String limit) {
        Instance instance = new Instance(limit);
        instance.acquire(LOST);
        instance.loseAll();
        instance.acquire(GRANTED);
        assertThat(instance.noticed).as("losses").isOne();
        clock.advanceMillis(-600_000);
        instance.confirmRestored(corrected(instance.store, instance.lost));
        for (int i = 0; i < 150; i++) {
            clock.advanceMillis(60_000);
            instance.acquire(1);
            assertThat(instance.noticed).as("losses").isOne();
        }
    }

    /** More are granted to another instance then than to this one since the first loss. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter aligned", "100/1h resolution=1m", "100/1h counter", "100/1h"})
    void aLossOfRestoredPermitsIsNoticed(String limit) {
        Instance instance = afterALoss(limit);
        for (int losses = 2; losses <= 3; losses++) {
            instance.confirmRestored(instance.restore());
            instance.loseAll();
            instance.take(2 * GRANTED);
            clock.advanceMillis(1);
            instance.acquire(1);
            assertThat(instance.noticed).as("losses").isEqualTo(losses);
        }
    }

    /** The restoration may overtake the refund. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h counter", "100/1h"})
    void aRefundOfLostPermitsIsNoSecondLoss(String limit) {
        Instance instance = new Instance(limit);
        StoreDecision grant = instance.take(LOST);
        instance.confirm(grant);
        instance.acquire(1);
        clock.advanceMillis(1);
        instance.store.loseAll();
        clock.advanceMillis(1);
        instance.acquire(GRANTED);
        instance.noteRefund(grant);
        clock.advanceMillis(1);
        StoreDecision restored = instance.restore();
        StoreForTests.refund(instance.store, grant).block();
        instance.confirmRestored(restored);
        instance.staysWithin(LOST + GRANTED + 1);
    }

    /** Requests, replies and restorations in any order. Only replies from before a loss do not arrive after it. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "200/1h counter aligned",
                "200/400ms counter aligned",
                "200/1h resolution=1m",
                "200/400ms resolution=40ms",
                "200/400ms resolution=5ms",
                "200/1h counter",
                "200/400ms counter",
                "200/1h",
                "200/400ms"
            })
    void noLossIsNoticedTwice(String limit) {
        for (int seed = 0; seed < SEEDS; seed++) {
            new Instance(limit).run(new Random(seed), seed);
        }
    }

    /** Returns an instance that has noticed a loss, and has been granted permits since. */
    private Instance afterALoss(String limit) {
        Instance instance = new Instance(limit);
        instance.acquire(LOST);
        clock.advanceMillis(1);
        instance.store.loseAll();
        clock.advanceMillis(1);
        instance.acquire(GRANTED);
        assertThat(instance.noticed).as("losses").isOne();
        clock.advanceMillis(1);
        return instance;
    }

    private static StoreDecision corrected(LossyStore store, Correction correction) {
        return Ledger.reply(
                Objects.requireNonNull(store.correct(List.of(correction)).block())
                        .get(0));
    }

    /** A ledger and its store. Requests and replies are steps of their own. */
    private final class Instance {

        private final LossyStore store = new LossyStore(clock);
        private final OutageShare share = new OutageShare();
        private final RateLedger ledger;
        private LostPermits lost;
        private ConfirmedUsage missing;
        private long noticedAt;
        private int noticed;
        private int losses;
        private long granted;

        Instance(String limit) {
            HandOvers handOvers = new HandOvers(clock, new AtomicLong()::incrementAndGet);
            handOvers.bindTo(new ManualWay());
            ledger = new RateLedger(
                    claim(limiter(Limit.parse(limit)), "a"), handOvers, share, null, (permits, usage) -> {
                        lost = permits;
                        missing = usage;
                        noticedAt = clock.millis();
                        noticed++;
                    });
        }

        /** Executes a request. */
        StoreDecision take(long permits) {
            return Objects.requireNonNull(
                    store.take(StoreRequest.take(List.of(ledger.claim().withPermits(permits))))
                            .block());
        }

        /** Gets the reply to it. */
        void confirm(StoreDecision reply) {
            ledger.advanceTo(clock.millis());
            StoreUsage usage = reply.usages().get(0);
            Fit fit = ledger.confirm(usage, reply);
            if (!reply.isCharged()) {
                return;
            }
            if (fit == Fit.YES) {
                granted += usage.claim().permits();
                ledger.grantedInPrimary(usage, reply);
            } else {
                StoreForTests.refund(store, reply).block();
            }
        }

        /** Notes a refund, which the store executes later. */
        void noteRefund(StoreDecision grant) {
            ledger.advanceTo(clock.millis());
            ledger.refundConfirmed(
                    grant.usages().get(0).claim().permits(), grant.at().toEpochMilli(), grant.isEvidence());
        }

        void acquire(long permits) {
            confirm(take(permits));
        }

        /** Returns how many permits of this share of the limit the ledger does not grant during an outage. */
        long reserved(double part) {
            share.set(part);
            ledger.advanceTo(clock.millis());
            ledger.share();
            return ledger.used();
        }

        /** The store loses all data, in a millisecond of its own. */
        void loseAll() {
            clock.advanceMillis(1);
            store.loseAll();
            clock.advanceMillis(1);
        }

        StoreDecision restore() {
            return corrected(store, lost.after(clock.millis() - noticedAt));
        }

        void confirmRestored(StoreDecision reply) {
            ledger.advanceTo(clock.millis());
            ledger.restored(missing, reply);
        }

        /** Asserts that no loss is noticed, and that the next one is, with the store's use of permits. */
        void staysWithin(long used) {
            for (int i = 0; i < 3; i++) {
                clock.advanceMillis(1);
                acquire(1);
            }
            assertThat(noticed).as("losses").isOne();
            assertThat(granted).isEqualTo(used + 3);
            store.loseAll();
            clock.advanceMillis(1);
            acquire(1);
            assertThat(noticed).as("losses").isEqualTo(2);
        }

        void run(Random random, int seed) {
            List<Runnable> inFlight = new ArrayList<>();
            List<Runnable> grants = new ArrayList<>();
            List<String> history = new ArrayList<>();
            for (int i = 0; i < STEPS; i++) {
                switch (random.nextInt(12)) {
                    case 0 -> {
                        if (random.nextInt(3) == 0) {
                            // Of a loss in the millisecond of a reply, that reply may be older.
                            clock.advanceMillis(1);
                            store.loseAll();
                            losses++;
                            history.add(clock.millis() % 10_000 + " loses all");
                            // With a late reply from before the loss, the instance learns of lost permits later.
                            inFlight.removeAll(grants);
                            grants.clear();
                            clock.advanceMillis(1);
                        }
                    }
                    case 1, 2 -> {
                        if (lost != null) {
                            ConfirmedUsage what = missing;
                            StoreDecision reply = restore();
                            lost = null;
                            history.add(text("restores", reply));
                            inFlight.add(() -> {
                                history.add(text("restored", reply));
                                ledger.advanceTo(clock.millis());
                                ledger.restored(what, reply);
                            });
                        }
                    }
                    case 3, 4, 5, 6 -> {
                        StoreDecision reply = take(1 + random.nextInt(6));
                        history.add(text("takes", reply));
                        Runnable confirm = () -> {
                            history.add(text("replies", reply));
                            confirm(reply);
                        };
                        grants.add(confirm);
                        inFlight.add(confirm);
                    }
                    case 7, 8 -> {
                        if (!inFlight.isEmpty()) {
                            inFlight.remove(random.nextInt(inFlight.size())).run();
                        }
                    }
                    case 9 -> {
                        while (!inFlight.isEmpty()) {
                            inFlight.remove(0).run();
                        }
                    }
                    default -> clock.advanceMillis(random.nextInt(random.nextInt(10) == 0 ? 60 : 3));
                }
                assertThat(noticed)
                        .as("seed %d, losses noticed:%n%s", seed, String.join("\n", history))
                        .isLessThanOrEqualTo(losses);
            }
        }

        private String text(String what, StoreDecision reply) {
            StoreUsage usage = reply.usages().get(0);
            return clock.millis() % 10_000 + " " + what + " " + usage.claim().permits() + " at "
                    + reply.at().toEpochMilli() % 10_000 + ", used " + usage.used() + " charged " + reply.isCharged()
                    + " noticed " + noticed;
        }
    }
}
