package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.Settlement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/**
 * Charges in the store what the fallback has admitted in its place: in small batches, one at a time, with a pause after
 * each as long as it took, or 5 ms, so that decisions hardly notice. What has been handed over is sent until its fate
 * is known, always under the same ids; so nothing is charged twice, and nothing else is handed over meanwhile.
 *
 * <p>It runs once a second while something is to be settled, and not at all else. As it passes the same gate as all
 * questions, it also finds out by itself that the store is back when nobody asks for decisions.
 *
 * <p>Each part of a store has one of its own, so that what cannot be charged in one holds up no other.
 */
final class Reconciler {

    static final int BATCH = 64;

    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long SHORTEST_REST = TimeUnit.MILLISECONDS.toNanos(20);
    private static final Duration LONGEST_TRIP = Duration.ofSeconds(1);
    private static final Duration LAST_CHANCE = Duration.ofSeconds(1);

    private final LimitStore primary;
    private final LocalFallback fallback;
    private final String part;
    private final Supplier<CircuitGate> gates;
    private final Predicate<Claim> isOurs;
    private final UnansweredCalls doubts;
    private final AtomicBoolean awake = new AtomicBoolean();
    private final AtomicLong alarms = new AtomicLong();
    private final AtomicBoolean hurried = new AtomicBoolean();
    private final AtomicBoolean working = new AtomicBoolean();
    private final Sinks.Empty<Void> ended = Sinks.empty();
    private final AtomicBoolean over = new AtomicBoolean();

    /** The identities of what has been handed over, as long as it is not on its way to the store. */
    private final Set<String> held = ConcurrentHashMap.newKeySet();

    private final AtomicBoolean ending = new AtomicBoolean();

    /** What has been handed over, and has not been settled for all that is known; whoever works has it. */
    private volatile List<Settlement> sent = List.of();

    /** Whether the store has done what is needed before it can settle at once; whoever works has it. */
    private volatile boolean ready;

    private volatile long restsSince = Deadlines.now() - SHORTEST_REST;

    /**
     * A settler.
     *
     * @param part which part of the store is charged
     * @param gates has the gate to it
     * @param isOurs whether a count is one of its own
     */
    Reconciler(
            LimitStore primary,
            LocalFallback fallback,
            String part,
            Supplier<CircuitGate> gates,
            Predicate<Claim> isOurs,
            UnansweredCalls doubts) {
        this.primary = primary;
        this.fallback = fallback;
        this.part = part;
        this.gates = gates;
        this.isOurs = isOurs;
        this.doubts = doubts;
    }

    /** There is something to settle. */
    void wake() {
        if (!awake.get() && !ending.get() && awake.compareAndSet(false, true)) {
            later(PAUSE);
        }
    }

    /** Sets the alarm; the one that was set before does not ring any more. */
    private void later(long nanos) {
        long mine = alarms.incrementAndGet();
        Schedulers.parallel()
                .schedule(
                        () -> {
                            if (alarms.get() == mine) {
                                settle();
                            }
                        },
                        nanos,
                        TimeUnit.NANOSECONDS);
    }

    /** Somebody asks for what the store must not decide before it is settled. */
    void hurry() {
        if (!working.get() && Deadlines.now() - restsSince > SHORTEST_REST && hurried.compareAndSet(false, true)) {
            later(0);
        }
    }

    /** Whether something of this has been handed over and is not on its way. */
    boolean holds(List<Claim> claims) {
        if (held.isEmpty()) {
            return false;
        }
        for (Claim claim : claims) {
            if (held.contains(claim.identity())) {
                return true;
            }
        }
        return false;
    }

    private void settle() {
        if (over.get() || !working.compareAndSet(false, true)) {
            return;
        }
        hurried.set(false);
        CircuitGate gate = gates.get();
        CircuitGate.Passage passage = fallback.state().toReconcile() == 0 ? CircuitGate.Passage.NO : gate.pass();
        if (passage == CircuitGate.Passage.NO) {
            rest();
        } else if (ready) {
            send(gate, passage);
        } else {
            // What is handed over is for the store to decide as soon as it is sent. So it must not be held up there for
            // want of a script. That this goes well says nothing: also a store that cannot write gets ready.
            ask(() -> primary.prepare(part), new Reply<Void>(gate, passage) {
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
        List<Settlement> batch = new ArrayList<>(sent);
        batch.removeIf(this::isOver);
        if (batch.isEmpty()) {
            batch = fallback.handOver(BATCH, this::isToBeLeft);
        }
        List<Settlement> sending = batch;
        sent = sending;
        held.retainAll(identities(sending));
        if (sending.isEmpty()) {
            gate.turnBack(passage);
            rest();
            return;
        }
        Reply<Decision> reply = new Reply<>(gate, passage) {
            @Override
            void answered(@Nullable Decision known) {
                try {
                    gate.answered(took());
                } catch (Throwable e) {
                    // Handed on, it would come back as a failure of what is settled, which would leave a second time.
                    Exceptions.throwIfFatal(e);
                    Operators.onErrorDropped(e, currentContext());
                } finally {
                    gate.leave(passage);
                    settled(known);
                    if (fallback.state().toReconcile() == 0) {
                        gate.settled(took());
                    }
                    working.set(false);
                    later(Math.max(SHORTEST_PAUSE, Math.min(LONGEST_PAUSE, took())));
                }
            }

            @Override
            void failed(Throwable error) {
                if (error instanceof LimitStoreException && !(error instanceof LimitStoreUnavailableException)) {
                    // To send the same once more does not help, and would hold up all that is to be settled behind it.
                    settled(null);
                } else {
                    held.addAll(identities(sending));
                }
            }
        };
        ask(() -> primary.settle(sending), reply);
        reply.isOnItsWay(sending);
    }

    private <T> void ask(Supplier<Mono<T>> what, Reply<T> reply) {
        Mono.defer(what)
                .timeout(LONGEST_TRIP, Mono.error(this::unanswered), Schedulers.parallel())
                .subscribe(reply);
    }

    /** From here on the count is held, until its settlement is on its way. */
    private boolean isToBeLeft(Claim claim) {
        if (!isOurs.test(claim) || doubts.on(claim.identity())) {
            return true;
        }
        held.add(claim.identity());
        return false;
    }

    private LimitStoreUnansweredException unanswered() {
        return new LimitStoreUnansweredException(
                primary + " did not reply to a reconciliation within " + LONGEST_TRIP.toMillis() + " ms", null);
    }

    /** What does not count any more has not to be charged. */
    private boolean isOver(Settlement settlement) {
        if (settlement.counts()) {
            return false;
        }
        fallback.reconciled(settlement, false);
        return true;
    }

    private void rest() {
        restsSince = Deadlines.now();
        working.set(false);
        if (ending.get()) {
            finish();
        } else if (fallback.state().toReconcile() > 0) {
            later(PAUSE);
        } else {
            ready = false;
            awake.set(false);
            if (fallback.state().toReconcile() > 0) {
                wake();
            }
        }
    }

    /** Tries once more what is left, and ends. */
    Mono<Void> end() {
        if (ending.compareAndSet(false, true)) {
            Schedulers.parallel().schedule(this::finish, LAST_CHANCE.toNanos(), TimeUnit.NANOSECONDS);
            later(0);
        }
        return ended.asMono();
    }

    private void finish() {
        if (over.compareAndSet(false, true)) {
            ended.tryEmitEmpty();
        }
    }

    private void settled(@Nullable Decision known) {
        List<Settlement> batch = sent;
        Set<String> charged = new HashSet<>();
        if (known != null) {
            fallback.confirm(known);
            charged.addAll(known.limits().stream()
                    .map(usage -> usage.claim().identity())
                    .toList());
        }
        for (Settlement one : batch) {
            fallback.reconciled(one, charged.contains(one.claim().identity()));
        }
        held.removeAll(identities(batch));
        sent = List.of();
    }

    private static List<String> identities(List<Settlement> settlements) {
        return settlements.stream().map(one -> one.claim().identity()).toList();
    }

    /** Hears what has become of what the store was asked, and tells the gate if that was not well. */
    private abstract class Reply<T> extends BaseSubscriber<T> {

        private final CircuitGate gate;
        private final CircuitGate.Passage passage;
        private final long start = Deadlines.now();
        private final AtomicBoolean ends = new AtomicBoolean();
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

        /** What was asked is on its way, unless it has come to its end already. */
        final void isOnItsWay(List<Settlement> batch) {
            List<String> identities = identities(batch);
            synchronized (ends) {
                if (!ends.get()) {
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
            try {
                gate.failed(took(), error);
            } finally {
                gate.leave(passage);
                rest();
            }
        }

        private void end() {
            synchronized (ends) {
                ends.set(true);
            }
        }
    }
}
