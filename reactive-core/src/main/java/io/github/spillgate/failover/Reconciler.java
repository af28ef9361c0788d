package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.internal.Background;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/**
 * Charges the grants of the fallback in the primary store, or in one node of it: in small batches, one at a time. After
 * each batch it pauses as long as the batch took, at most 5 ms, so that decisions are hardly delayed. A batch is sent
 * with the same ids until its result is known, so nothing is charged twice. Grants that cannot be charged, because
 * another program has written the key of their count, are sent again as long as they count.
 *
 * <p>It runs once a second while there is something to reconcile. It passes the same gate as decisions, so it also
 * detects that the store is back if there are no decisions.
 */
final class Reconciler {

    static final int BATCH = 64;

    private static final long INTERVAL = TimeUnit.SECONDS.toNanos(1);
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long SHORTEST_PAUSE_IF_EXPEDITED = TimeUnit.MILLISECONDS.toNanos(20);
    private static final Duration TIMEOUT = Duration.ofSeconds(1);
    private static final Duration LAST_ATTEMPT = Duration.ofSeconds(1);
    private static final long LAST_ATTEMPT_PAUSE = TimeUnit.MILLISECONDS.toNanos(10);

    private final LimitStore primary;
    private final LocalFallback fallback;
    private final String node;
    private final CircuitGates gates;
    private final Predicate<Claim> isOurs;
    private final UnansweredCalls unanswered;
    private final Consumer<ChargedPermits> refunds;
    private final AtomicBoolean scheduled = new AtomicBoolean();
    private final AtomicLong timers = new AtomicLong();
    private final AtomicBoolean expedited = new AtomicBoolean();
    private final AtomicBoolean running = new AtomicBoolean();
    private final Sinks.Empty<Void> close = Sinks.empty();
    private volatile boolean closing;
    private volatile boolean closed;

    /** The identities of grants that were handed over and are not in flight. */
    private final Set<String> held = ConcurrentHashMap.newKeySet();

    /** The batch with an unknown result. Used by one run at a time. */
    private volatile List<Reconciliation> batch = List.of();

    /** The reconciliations that the store could not charge, to be sent again. Used by one run at a time. */
    private final Queue<Reconciliation> refused = new ArrayDeque<>();

    /** The identities of their counts. */
    private final Set<String> foreign = ConcurrentHashMap.newKeySet();

    /** When the store last could not charge one. Used by one run at a time. */
    private volatile long refusedAt = Deadlines.now() - INTERVAL;

    /** Whether the store can charge a batch without loading a script first. Used by one run at a time. */
    private volatile boolean ready;

    /** Whether a count was left out because a call on it is unanswered. Used by one run at a time. */
    private volatile boolean waitsForAnswer;

    private volatile long pausedSince = Deadlines.now() - SHORTEST_PAUSE_IF_EXPEDITED;

    /**
     * Creates a reconciler.
     *
     * @param primary the store that is charged
     * @param fallback the fallback that hands over its grants
     * @param node the node of the store that is charged
     * @param gates the gates to the store
     * @param isOurs selects the counts of that node
     * @param unanswered the counts on which a call is unanswered
     * @param refunds refunds permits in the primary store that were refunded before they were charged
     */
    Reconciler(
            LimitStore primary,
            LocalFallback fallback,
            String node,
            CircuitGates gates,
            Predicate<Claim> isOurs,
            UnansweredCalls unanswered,
            Consumer<ChargedPermits> refunds) {
        this.primary = primary;
        this.fallback = fallback;
        this.node = node;
        this.gates = gates;
        this.isOurs = isOurs;
        this.unanswered = unanswered;
        this.refunds = refunds;
    }

    /** Starts if nothing is scheduled: there is something to reconcile. */
    void start() {
        if (!scheduled.get() && !closing && scheduled.compareAndSet(false, true)) {
            schedule(INTERVAL);
        }
    }

    /** Sets the timer, and cancels the one that was set before. */
    private void schedule(long nanos) {
        long mine = timers.incrementAndGet();
        // Read after the increment: this may cancel the timer of the last attempt.
        long delay = closing ? Math.min(nanos, LAST_ATTEMPT_PAUSE) : nanos;
        Background.scheduler()
                .schedule(
                        () -> {
                            if (timers.get() == mine) {
                                run();
                            }
                        },
                        delay,
                        TimeUnit.NANOSECONDS);
    }

    /** Runs soon, because a request waits: its counts must be reconciled before the store can decide on them. */
    void expedite() {
        if (!running.get()
                && Deadlines.now() - pausedSince > SHORTEST_PAUSE_IF_EXPEDITED
                && expedited.compareAndSet(false, true)) {
            schedule(0);
        }
    }

    /** Returns whether grants on one of these counts were handed over and are not in flight, or cannot be charged. */
    boolean holds(List<Claim> claims) {
        return claims.stream().anyMatch(claim -> held.contains(claim.identity())) || cannotCharge(claims);
    }

    /** Returns whether grants on one of these counts cannot be charged, because another program has written its key. */
    boolean cannotCharge(List<Claim> claims) {
        return !foreign.isEmpty() && claims.stream().anyMatch(claim -> foreign.contains(claim.identity()));
    }

    private void run() {
        if (closed || !running.compareAndSet(false, true)) {
            return;
        }
        expedited.set(false);
        if (fallback.isReconciled()) {
            pause();
            return;
        }
        CircuitGate gate = gates.to(node);
        CircuitGate.Passage passage = gate.pass();
        if (!passage.isSent()) {
            pause();
        } else if (ready) {
            send(gate, passage);
        } else {
            // As soon as a batch is sent, the store decides on its counts again, so it must not wait for a script
            // there. Success says nothing about the store: one that cannot write can be prepared too.
            ask(() -> primary.prepare(node), new Reply<Void>(gate, passage) {
                @Override
                void answered(@Nullable Void nothing) {
                    ready = true;
                    send(gate, passage);
                }

                @Override
                void failed(Throwable error) {}
            });
        }
    }

    private void send(CircuitGate gate, CircuitGate.Passage passage) {
        List<Reconciliation> unfinished = new ArrayList<>(batch);
        unfinished.removeIf(this::dropIfExpired);
        waitsForAnswer = false;
        List<Reconciliation> handedOver = unfinished.isEmpty() ? fallback.handOver(BATCH, this::isSkipped) : unfinished;
        List<Reconciliation> sending = handedOver.isEmpty() ? refusedBefore() : handedOver;
        batch = sending;
        held.retainAll(identities(sending));
        if (sending.isEmpty()) {
            gate.releaseWithoutResult(passage);
            if (closing && waitsForAnswer) {
                running.set(false);
                schedule(LAST_ATTEMPT_PAUSE);
            } else {
                pause();
            }
            return;
        }
        Reply<StoreDecision> reply = new Reply<>(gate, passage) {
            @Override
            void answered(@Nullable StoreDecision known) {
                gate.recordReply(took());
                gate.release(passage);
                finish(known, gate);
                // Also if all that is left cannot be charged: the store has replied.
                if (fallback.isReconciled() || (handedOver.isEmpty() && !waitsForAnswer)) {
                    gate.recordReconciliation(took());
                }
                running.set(false);
                schedule(Math.max(SHORTEST_PAUSE, Math.min(LONGEST_PAUSE, took())));
            }

            @Override
            void failed(Throwable error) {
                if (error instanceof LimitStoreException && !(error instanceof LimitStoreUnavailableException)) {
                    // Another attempt would fail too, and delay everything behind this batch.
                    finish(null, gate);
                } else {
                    held.addAll(identities(sending));
                }
            }
        };
        ask(() -> primary.reconcile(sending), reply);
        reply.sent(sending);
    }

    /** Returns grants to send again that could not be charged: once a second, unless all of the last batch could. */
    private List<Reconciliation> refusedBefore() {
        List<Reconciliation> again = new ArrayList<>();
        boolean isDue = Deadlines.now() - refusedAt >= INTERVAL;
        for (int left = isDue ? refused.size() : 0; left > 0 && again.size() < BATCH; left--) {
            Reconciliation next = refused.remove();
            if (unanswered.on(next.claim().identity())) {
                refused.add(next);
            } else if (!fallback.isInFlight(next)) {
                // Its count was reset or evicted.
                finish(next, null);
            } else if (!dropIfExpired(next)) {
                again.add(next);
            }
        }
        return again;
    }

    private <T> void ask(Supplier<Mono<T>> what, Reply<T> reply) {
        Mono.defer(what)
                .timeout(TIMEOUT, Mono.error(this::unanswered), Background.scheduler())
                .subscribe(reply);
    }

    /** Returns whether a count must not be handed over now. Otherwise it is held from now on, until it is sent. */
    private boolean isSkipped(Claim claim) {
        if (!isOurs.test(claim)) {
            return true;
        }
        if (unanswered.on(claim.identity())) {
            waitsForAnswer = true;
            return true;
        }
        held.add(claim.identity());
        return false;
    }

    private LimitStoreUnansweredException unanswered() {
        return new LimitStoreUnansweredException(
                primary + " did not reply to a reconciliation within " + TIMEOUT.toMillis() + " ms", null);
    }

    /** Drops permits that no longer count. */
    private boolean dropIfExpired(Reconciliation reconciliation) {
        if (reconciliation.counts()) {
            return false;
        }
        finish(reconciliation, null);
        return true;
    }

    private void pause() {
        pausedSince = Deadlines.now();
        running.set(false);
        if (closing) {
            close();
        } else if (!fallback.isReconciled()) {
            schedule(INTERVAL);
        } else {
            ready = false;
            scheduled.set(false);
            if (!fallback.isReconciled()) {
                start();
            }
        }
    }

    /**
     * Makes a last attempt, and ends. If calls are unanswered, the attempt waits up to a second: their counts can only
     * be reconciled afterwards. Call this once.
     */
    Mono<Void> end() {
        closing = true;
        Schedulers.parallel().schedule(this::close, LAST_ATTEMPT.toNanos(), TimeUnit.NANOSECONDS);
        schedule(0);
        return close.asMono();
    }

    private void close() {
        closed = true;
        close.tryEmitEmpty();
    }

    /** Ends a batch: those in the reply are charged, the others cannot be; without a reply, the store never can. */
    private void finish(@Nullable StoreDecision known, CircuitGate gate) {
        List<Reconciliation> finished = batch;
        Map<String, StoreDecision> charged = new HashMap<>();
        if (known != null) {
            for (StoreDecision part : known.parts()) {
                part.claims().forEach(claim -> charged.put(claim.identity(), part));
            }
        }
        for (Reconciliation one : finished) {
            StoreDecision reply = charged.get(one.claim().identity());
            if (reply == null && known != null) {
                refuse(one, gate);
            } else {
                finish(one, reply);
            }
        }
        held.removeAll(identities(finished));
        batch = List.of();
    }

    private void refuse(Reconciliation one, CircuitGate gate) {
        refusedAt = Deadlines.now();
        foreign.add(one.claim().identity());
        refused.add(one);
        gate.recordForeignValue("local grants on " + one.claim().identity()
                + " cannot be charged: expected a count or no value under its key; delete the value");
    }

    private void finish(Reconciliation one, @Nullable StoreDecision reply) {
        foreign.remove(one.claim().identity());
        if (reply == null) {
            fallback.notCharged(one);
            return;
        }
        ChargedPermits refunded = fallback.charged(one, reply);
        if (refunded != null && !closed) {
            refunds.accept(refunded);
        }
    }

    private static List<String> identities(List<Reconciliation> reconciliations) {
        return reconciliations.stream().map(one -> one.claim().identity()).toList();
    }

    /** The reply to a request of this reconciler. Reports failures to the gate. */
    private abstract class Reply<T> extends BaseSubscriber<T> {

        private final CircuitGate gate;
        private final CircuitGate.Passage passage;
        private final long start = Deadlines.now();
        private boolean hasEnded;
        private @Nullable T answer;

        Reply(CircuitGate gate, CircuitGate.Passage passage) {
            this.gate = gate;
            this.passage = passage;
        }

        abstract void answered(@Nullable T answer);

        abstract void failed(Throwable error);

        final long took() {
            return Deadlines.now() - start;
        }

        /** Notes that a batch was sent, unless its reply has already arrived. */
        final void sent(List<Reconciliation> sending) {
            List<String> identities = identities(sending);
            synchronized (this) {
                if (!hasEnded) {
                    held.removeAll(identities);
                }
            }
        }

        @Override
        protected void hookOnNext(T value) {
            answer = value;
        }

        @Override
        protected void hookOnComplete() {
            end();
            answered(answer);
        }

        @Override
        protected void hookOnError(Throwable error) {
            end();
            ready = false;
            failed(error);
            gate.recordFailure(took(), error);
            gate.release(passage);
            pause();
        }

        private synchronized void end() {
            hasEnded = true;
        }
    }
}
