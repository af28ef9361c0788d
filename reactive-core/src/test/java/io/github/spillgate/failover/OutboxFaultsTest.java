package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.failover.ledger.Delivery;
import io.github.spillgate.failover.ledger.DeliverySource;
import io.github.spillgate.failover.ledger.HandOvers;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What an outbox does between its steps, and with what it cannot deliver. */
class OutboxFaultsTest {

    private static final Duration LONG = Duration.ofSeconds(10);

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final LimitStore store = new Unprotected(LocalStore.bounded(1_000, time));
    private final Claim claim = DecidedClaims.of(requireNonNull(
                    Unprotected.limiter(store, Limit.perHour(10)).peek("a").block()))
            .get(0);

    private CircuitGates gates(UnaryOperator<CircuitBreakerConfig.Builder> settings) {
        return new CircuitGates(store, Fallback.deny(), 10, 100_000_000, settings);
    }

    private <M> Outbox<M> outbox(CircuitGates gates, Function<List<M>, Mono<List<Corrected>>> send) {
        return new Outbox<>(store, gates, new Outbox.Channel<>("test", true, Duration.ZERO, send));
    }

    private static <M> Mono<List<Corrected>> applied(List<M> batch) {
        return Mono.just(batch.stream()
                .map(one -> Corrected.of(CorrectionOutcome.APPLIED))
                .toList());
    }

    private static <T> Mono<T> unavailable() {
        return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
    }

    /** The thread of all deadlines would never return. */
    @Test
    void twoRefundsOfOneCountAreSentOneAfterTheOther() {
        boolean[] fails = {true};
        Outbox<Message> outbox =
                outbox(gates(UnaryOperator.identity()), batch -> fails[0] ? unavailable() : applied(batch));
        List<Message> refunds = List.of(new Message(false), new Message(false));
        refunds.forEach(outbox::add);
        time.passMillis(1);
        fails[0] = false;
        time.pass(Duration.ofSeconds(5));
        assertThat(refunds)
                .extracting(one -> one.asked)
                .allSatisfy(asked -> assertThat(asked).isLessThan(Message.MOST_ASKED));
        assertThat(refunds).allSatisfy(one -> assertThat(one.isDelivered).isTrue());
    }

    /** Evicted counts and expired deliveries, while every attempt passes the gate and fails. */
    @Test
    void whatHasBecomeEmptyIsDroppedWhileAttemptsFail() {
        Outbox<Message> outbox = outbox(
                gates(settings -> settings.slidingWindow(
                        10_000,
                        10_000,
                        CircuitBreakerConfig.SlidingWindowType.COUNT_BASED,
                        CircuitBreakerConfig.SlidingWindowSynchronizationStrategy.LOCK_FREE)),
                batch -> unavailable());
        for (int i = 0; i < Outbox.BATCH; i++) {
            outbox.add(new Message(true));
        }
        time.pass(Duration.ofSeconds(5));
        List<Message> expired = new ArrayList<>();
        for (int i = 0; i < 1_000; i++) {
            Message one = new Message(true);
            expired.add(one);
            outbox.add(one);
            one.isExpired = true;
        }
        time.pass(Duration.ofMinutes(10));
        assertThat(expired.stream().filter(one -> !one.isLost)).hasSize(0);
    }

    /** A limiter that is used after its end adds each new count. */
    @Test
    void nothingIsKeptThatIsAddedAfterTheEnd() {
        Outbox<Message> outbox = outbox(gates(UnaryOperator.identity()), OutboxFaultsTest::applied);
        outbox.end().subscribe();
        time.pass(Duration.ofSeconds(2));
        WeakReference<Message> added = addTo(outbox);
        await().atMost(LONG).untilAsserted(() -> {
            System.gc();
            assertThat(added.get()).isNull();
        });
        assertThat(outbox).isNotNull();
    }

    private WeakReference<Message> addTo(Outbox<Message> outbox) {
        Message one = new Message(true);
        outbox.add(one);
        return new WeakReference<>(one);
    }

    /** Otherwise its batch would count as failed, too, and free its place a second time. */
    @Test
    void aDeliveryThatThrowsEndsItsBatchOnce() {
        CircuitGates gates = gates(UnaryOperator.identity());
        Outbox<Message> outbox = outbox(gates, OutboxFaultsTest::applied);
        Message broken = new Message(true);
        broken.throwsWhenDelivered = true;
        Message other = new Message(true);
        outbox.add(broken);
        outbox.add(other);
        time.pass(Duration.ofSeconds(5));
        assertThat(gates.whole().freeCapacity()).isEqualTo(10);
        assertThat(other.isDelivered).isTrue();
    }

    /** Otherwise its count would be decided here for ever, and its grants would never be charged. */
    @Test
    void aDeliveryThatThrowsIsSentAgainIfItMayRepeat() {
        Outbox<Message> outbox = outbox(gates(UnaryOperator.identity()), OutboxFaultsTest::applied);
        Message broken = new Message(true);
        broken.throwsWhenDelivered = true;
        outbox.add(broken);
        time.passMillis(10);
        assertThat(broken.isDelivered).isFalse();
        broken.throwsWhenDelivered = false;
        time.pass(Duration.ofSeconds(5));
        assertThat(broken.isDelivered).isTrue();
    }

    @Test
    void aReplyWithoutAResultIsNoReply() {
        boolean[] isBroken = {true};
        Outbox<Message> outbox = outbox(
                gates(UnaryOperator.identity()),
                batch -> isBroken[0] ? Mono.just(Arrays.asList(new Corrected[batch.size()])) : applied(batch));
        Message one = new Message(true);
        outbox.add(one);
        time.passMillis(10);
        isBroken[0] = false;
        time.pass(Duration.ofSeconds(5));
        assertThat(one.isDelivered).isTrue();
    }

    /** A clock of the user may throw. */
    @Test
    void aSourceThatThrowsIsAskedAgainAndTheOthersAreDelivered() {
        CircuitGates gates = gates(UnaryOperator.identity());
        Outbox<Message> outbox = outbox(gates, OutboxFaultsTest::applied);
        Message broken = new Message(true);
        broken.throwsWhenAsked = true;
        Message other = new Message(true);
        outbox.add(broken);
        outbox.add(other);
        time.pass(Duration.ofSeconds(5));
        assertThat(other.isDelivered).isTrue();
        assertThat(gates.whole().freeCapacity()).isEqualTo(10);
        broken.throwsWhenAsked = false;
        time.pass(Duration.ofSeconds(5));
        assertThat(broken.isDelivered).isTrue();
    }

    /** As many as there are keys in a wrong namespace, of short windows. */
    @Test
    void whatIsRefusedIsSentAgainAndDroppedAlthoughMoreIsRefused() {
        Outbox<Message> outbox = outbox(
                gates(UnaryOperator.identity()),
                batch -> Mono.just(Collections.nCopies(batch.size(), Corrected.of(CorrectionOutcome.NOT_POSSIBLE))));
        List<Message> refused = new ArrayList<>();
        for (int i = 0; i < 400; i++) {
            Message one = new Message(true);
            refused.add(one);
            outbox.add(one);
            time.passMillis(25);
            outbox.wakeNode(claim);
            if (i >= 100) {
                refused.get(i - 100).isExpired = true;
            }
        }
        assertThat(refused.stream().filter(one -> !one.isLost)).hasSizeLessThan(200);
        assertThat(refused.subList(0, 250))
                .allSatisfy(one -> assertThat(one.isLost).isTrue());
    }

    /** One of which the foreign value was deleted, while something else is added once a second or more often. */
    @Test
    void whatWasRefusedIsSentAgainAlthoughOthersAreAdded() {
        boolean[] isForeign = {true};
        Message refused = new Message(true);
        Outbox<Message> outbox = outbox(
                gates(UnaryOperator.identity()),
                batch -> Mono.just(batch.stream()
                        .map(one -> Corrected.of(
                                one == refused && isForeign[0]
                                        ? CorrectionOutcome.NOT_POSSIBLE
                                        : CorrectionOutcome.APPLIED))
                        .toList()));
        outbox.add(refused);
        time.passMillis(10);
        isForeign[0] = false;
        for (int i = 0; i < 100; i++) {
            outbox.add(new Message(true));
            time.passMillis(500);
        }
        assertThat(refused.isDelivered).isTrue();
    }

    /** It runs on the thread of all deadlines. */
    @Test
    void aRunDoesNotVisitAllThatWaits() {
        CircuitGates gates = gates(
                settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(Duration.ofSeconds(50))));
        gates.whole().recordFailure(0, new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
        Outbox<Message> outbox = outbox(gates, OutboxFaultsTest::applied);
        List<Message> waiting = new ArrayList<>();
        for (int i = 0; i < 10_000; i++) {
            Message one = new Message(true);
            waiting.add(one);
            outbox.add(one);
        }
        long most = 0;
        for (int i = 0; i < 3_000; i++) {
            long before = waiting.stream().mapToLong(one -> one.asked).sum();
            time.passMillis(1);
            most = Math.max(most, waiting.stream().mapToLong(one -> one.asked).sum() - before);
        }
        assertThat(most).as("visited at once").isLessThan(10_000);
    }

    /** The earlier attempts were certainly not executed. If they counted, a loss of data would not be noticed. */
    @Test
    void aRefundIsNotedOnceHoweverOftenItIsSent() {
        boolean[] fails = {true};
        LimitStore failing = new Unprotected(store) {
            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                return fails[0] ? unavailable() : super.correct(corrections);
            }
        };
        List<Claim> noted = new ArrayList<>();
        SettlementOutbox outbox = new SettlementOutbox(
                failing, gates(UnaryOperator.identity()), new DenialCache(Duration.ZERO), result -> {}, noted::addAll);
        outbox.add(new RefundCharged(claim.withPermits(3), 1, Long.MAX_VALUE), Time.nanos() + 50_000_000_000L)
                .subscribe();
        time.pass(Duration.ofSeconds(10));
        fails[0] = false;
        time.pass(Duration.ofSeconds(10));
        assertThat(outbox.lost()).isZero();
        assertThat(noted).hasSize(1);
    }

    /** Another thread grants, or begins a call, between two steps of the queue. */
    @Nested
    class BetweenTwoSteps implements HandOvers.Store {

        private final CircuitGates gates =
                gates(settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(Duration.ofSeconds(5))));
        private final LocalFallback local = Fallback.local(1_000, time);
        private final List<List<Reconciliation>> batches = new ArrayList<>();
        private final Outbox<Reconciliation> outbox = outbox(gates, this::send);
        private final RateLimiter limiter;
        private boolean fails;
        private @Nullable Runnable afterIsHeld;
        private @Nullable Runnable afterIsEmpty;

        BetweenTwoSteps() {
            local.bindTo(store, this);
            limiter = Unprotected.limiter(local, Limit.perHour(10));
        }

        private Mono<List<Corrected>> send(List<Reconciliation> batch) {
            batches.add(batch);
            if (fails) {
                return unavailable();
            }
            return Mono.just(batch.stream()
                    .map(one -> Corrected.of(CorrectionOutcome.APPLIED))
                    .toList());
        }

        private Decision grant() {
            return grant("a");
        }

        private Decision grant(String key) {
            return requireNonNull(limiter.tryAcquire(key).block());
        }

        private void refund(Decision decision) {
            local.correct(Refund.of((StoreDecision) decision)).block();
        }

        /** Its late reply could no longer cancel the grant, which would be charged twice. */
        @Test
        void aGrantOfAnUnansweredCallIsNotHandedOver() {
            fails = true;
            grant("b");
            fails = false;
            grant("a");
            afterIsHeld = () -> {
                local.beginCall(List.of(claimOfA()));
                grant("a");
            };
            time.passMillis(25);
            assertThat(afterIsHeld).isNull();
            assertThat(batches.stream().flatMap(List::stream))
                    .extracting(one -> one.claim().key())
                    .containsOnly("b");
        }

        @Test
        void aGrantIsNotLostBecauseTheCountHadNoneBefore() {
            gates.whole().recordFailure(0, new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
            refund(grant());
            assertThat(local.state().toReconcile()).isZero();
            afterIsEmpty = this::grant;
            time.pass(Duration.ofSeconds(2));
            assertThat(afterIsEmpty).isNull();
            assertThat(local.state().lost()).isZero();
            time.pass(Duration.ofSeconds(10));
            assertThat(local.state().reconciled()).isEqualTo(1);
        }

        @Test
        void aGrantIsDeliveredAlthoughTheQueueDropsTheCountAtThatMoment() {
            fails = true;
            grant();
            time.passMillis(1);
            refund(grant());
            fails = false;
            afterIsHeld = this::grant;
            time.pass(Duration.ofMinutes(10));
            assertThat(afterIsHeld).isNull();
            assertThat(local.state().toReconcile()).isZero();
            assertThat(local.state().reconciled()).isEqualTo(2);
        }

        /** As above; a request that needs the count does not start a queue that is idle. */
        @Test
        void aRequestStartsAnIdleQueue() {
            fails = true;
            grant();
            time.passMillis(1);
            refund(grant());
            fails = false;
            afterIsHeld = this::grant;
            time.pass(Duration.ofMinutes(10));
            for (int i = 0; i < 10; i++) {
                local.mustHandOver(List.of(claimOfA()));
                time.pass(Duration.ofSeconds(1));
            }
            assertThat(local.state().reconciled()).isEqualTo(2);
        }

        private Claim claimOfA() {
            return DecidedClaims.of(requireNonNull(limiter.peek("a").block())).get(0);
        }

        @Override
        public void add(Ledger ledger) {
            outbox.add(new Steps(ledger));
        }

        @Override
        public void moveToFront(Ledger ledger) {
            outbox.moveToFront(new Steps(ledger));
        }

        @Override
        public void wakeNode(Ledger ledger) {
            outbox.wakeNode(ledger.claim());
        }

        @Override
        public boolean isAfterOutage(Claim claim) {
            return false;
        }

        @Override
        public void refund(RefundCharged permits) {}

        @Override
        public void reportRestored() {}

        @Override
        public void reportLost(long permits, String why) {}

        @Override
        public void reportForeign(Claim one) {}

        /** A ledger that lets something happen after a step. */
        private final class Steps implements DeliverySource<Reconciliation> {

            private final Ledger ledger;

            Steps(Ledger ledger) {
                this.ledger = ledger;
            }

            @Override
            public Claim claim() {
                return ledger.claim();
            }

            @Override
            public boolean isEmpty() {
                boolean isEmpty = ledger.isEmpty();
                Runnable next = afterIsEmpty;
                if (next != null) {
                    afterIsEmpty = null;
                    next.run();
                }
                return isEmpty;
            }

            @Override
            public boolean isHeld() {
                boolean isHeld = ledger.isHeld();
                Runnable next = afterIsHeld;
                if (next != null) {
                    afterIsHeld = null;
                    next.run();
                }
                return isHeld;
            }

            @Override
            public boolean isAlone() {
                return true;
            }

            @Override
            public @Nullable Delivery<Reconciliation> take() {
                return ledger.take();
            }
        }
    }

    private final class Message implements Delivery<Message> {

        static final int MOST_ASKED = 1_000;

        private final boolean mayRepeat;
        private int asked;
        private boolean isExpired;
        private boolean isDelivered;
        private boolean isLost;
        private boolean throwsWhenDelivered;
        private boolean throwsWhenAsked;

        Message(boolean mayRepeat) {
            this.mayRepeat = mayRepeat;
        }

        @Override
        public Claim claim() {
            return claim;
        }

        @Override
        public Message message() {
            return this;
        }

        @Override
        public boolean mayRepeat() {
            return mayRepeat;
        }

        @Override
        public boolean isAlone() {
            return !mayRepeat;
        }

        /** So that a queue that never ends asking does end. */
        @Override
        public boolean isExpired() {
            if (throwsWhenAsked) {
                throw new IllegalStateException("told to fail");
            }
            return isExpired || ++asked >= MOST_ASKED;
        }

        @Override
        public void delivered(Corrected result) {
            if (throwsWhenDelivered) {
                throw new IllegalStateException("told to fail");
            }
            isDelivered = true;
        }

        @Override
        public boolean refused() {
            return true;
        }

        @Override
        public void lost(String why) {
            isLost = true;
        }
    }
}
