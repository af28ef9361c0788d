package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.ledger.Delivery;
import io.github.spillgate.failover.ledger.DeliverySource;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * Delivers what must reach the primary store although no decision waits for it. Each node of the store has a queue of
 * its own, so that a node that fails does not delay the others.
 *
 * @param <M> what is sent to the store
 */
final class Outbox<M> {
    // Design notes.
    //
    // The life of a delivery:
    //
    //   waiting      It is in the queue of its node; in the urgent one if a request needs its count.
    //   in flight    It is in the batch that was sent. A node has at most one.
    //   unanswered   The batch has failed, and may have been executed. It is sent again, unchanged, until its result is
    //                known: its messages have ids, and take effect once. A refund has none, and is lost.
    //   refused      The store has replied that it cannot do this now. It is sent again a second later.
    //   ended        It was delivered or is lost: if it can have no effect any more, if another attempt cannot help, or
    //                if the outbox is closed.
    //
    // A queue that was empty sends at once. What is added while a batch is in flight is the next batch, so batches are
    // as large as the load requires. After a failure a queue pauses, twice as long each time. It passes the gate of
    // decisions: so it finds out that its node is back if no request does, and runs at once if a request has.
    //
    // A batch may have failed because of one of its deliveries: for example, another program has locked the row of its
    // count. So the next batch is a single delivery, those after it are twice as large each time, and unanswered ones
    // are the last.

    static final int BATCH = 64;

    /** The highest number of nodes with a queue of their own; one queue serves all others. */
    private static final int MOST_NODES = 1_000;

    /** How many of those that wait are visited in a row, while nothing can be sent. */
    private static final int SORTED_AT_ONCE = 1_000;

    /** The name of the queue of all other nodes. */
    private static final String OTHER_NODES = "";

    private static final Duration TIMEOUT = Duration.ofSeconds(1);
    private static final Duration LAST_ATTEMPT = Duration.ofSeconds(1);
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(25);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final int MOST_DOUBLED = 6;
    private static final long PAUSE_AT_THE_END = TimeUnit.MILLISECONDS.toNanos(10);

    /** The shortest time between two attempts because of requests. */
    private static final long BETWEEN_REQUESTS = TimeUnit.MILLISECONDS.toNanos(20);

    private final LimitStore primary;
    private final CircuitGates gates;
    private final Channel<M> channel;
    private final ConcurrentMap<String, NodeQueue> byNode = new ConcurrentHashMap<>();

    /** How many queues have something to deliver. */
    private final AtomicInteger busy = new AtomicInteger();

    private final AtomicBoolean isClosing = new AtomicBoolean();
    private final Sinks.Empty<Void> end = Sinks.empty();
    private volatile boolean isClosed;

    Outbox(LimitStore primary, CircuitGates gates, Channel<M> channel) {
        this.primary = primary;
        this.gates = gates;
        this.channel = channel;
    }

    /** Adds something to deliver, unless this is closed. The caller bounds the number. */
    void add(DeliverySource<M> source) {
        NodeQueue queue = queueOf(source.claim());
        if (queue.add(queue.waiting, source)) {
            queue.runSoon();
        }
    }

    /** Adds something for which a caller waits: if it is the only one, it is sent on this thread. */
    void send(DeliverySource<M> source) {
        NodeQueue queue = queueOf(source.claim());
        if (queue.add(queue.waiting, source)) {
            queue.run();
        }
    }

    /** Delivers something that was added before others, because a request needs its count. */
    void moveToFront(DeliverySource<M> source) {
        NodeQueue queue = queueOf(source.claim());
        if (queue.add(queue.urgent, source)) {
            queue.runSoon();
        }
    }

    /** Delivers what waits for a node soon, because a request needs one of its counts. */
    void wakeNode(Claim claim) {
        queueOf(claim).wake(BETWEEN_REQUESTS);
    }

    /** Sends at once what waits for a node that is available again. */
    void nodeIsBack(String node) {
        NodeQueue known = byNode.get(node);
        if (known != null) {
            known.wake(0);
        }
    }

    /** Returns the queue of a node; that of all others if the store cannot name the node now. */
    private NodeQueue queueOf(Claim claim) {
        String node = OTHER_NODES;
        try {
            node = primary.node(List.of(claim));
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
        }
        NodeQueue known = byNode.get(node);
        if (known != null) {
            return known;
        }
        if (byNode.size() >= MOST_NODES) {
            byNode.values().removeIf(NodeQueue::isIdle);
        }
        return byNode.computeIfAbsent(byNode.size() < MOST_NODES ? node : OTHER_NODES, NodeQueue::new);
    }

    /** Makes a last attempt to deliver what waits, for at most a second, and ends; never an error. */
    Mono<Void> end() {
        if (isClosing.compareAndSet(false, true)) {
            Background.scheduler().schedule(this::close, LAST_ATTEMPT.toMillis(), TimeUnit.MILLISECONDS);
            byNode.values().forEach(queue -> queue.wake(0));
            closeIfDone();
        }
        return end.asMono();
    }

    private void closeIfDone() {
        if (isClosing.get() && busy.get() == 0) {
            close();
        }
    }

    private void close() {
        isClosed = true;
        end.tryEmitEmpty();
    }

    /**
     * How messages are sent.
     *
     * @param name the name of a message, for errors
     * @param affectsDecisions whether the store cannot decide if it refuses such a message
     * @param longestPause the longest pause after a batch, so that decisions are hardly delayed; as long as it took
     * @param send sends a batch, and returns the results in its order
     */
    record Channel<M>(
            String name,
            boolean affectsDecisions,
            Duration longestPause,
            Function<List<M>, Mono<List<Corrected>>> send) {}

    /** What the store could not do at a time, in nanoseconds. */
    private record RefusedDelivery<M>(Delivery<M> delivery, long at) {}

    /** What is to be delivered to one node. */
    private final class NodeQueue {

        /** What a queue does. */
        private enum QueueState {
            IDLE,
            RUNNING,
            PAUSED
        }

        private final String node;
        private final Queue<DeliverySource<M>> urgent = new ConcurrentLinkedQueue<>();
        private final Queue<DeliverySource<M>> waiting = new ConcurrentLinkedQueue<>();

        // Used by one run at a time.

        private final Queue<RefusedDelivery<M>> refused = new ConcurrentLinkedQueue<>();
        private volatile List<Delivery<M>> unanswered = List.of();
        private volatile boolean isAnyHeld;
        private volatile int failures;

        /** The highest number of deliveries in the next batch. */
        private volatile int room = BATCH;

        // Guarded by this.

        private QueueState state = QueueState.IDLE;
        private long pausedAt;
        private long pauses;

        NodeQueue(String node) {
            this.node = node;
        }

        // When it runs.

        /** Adds a source; returns whether this queue was idle, and must be run. */
        boolean add(Queue<DeliverySource<M>> to, DeliverySource<M> source) {
            if (isClosed) {
                return false;
            }
            to.add(source);
            synchronized (this) {
                if (state != QueueState.IDLE) {
                    return false;
                }
                state = QueueState.RUNNING;
            }
            busy.incrementAndGet();
            return true;
        }

        synchronized boolean isIdle() {
            return state == QueueState.IDLE;
        }

        /** Ends a pause that has been so long at least. */
        void wake(long nanos) {
            synchronized (this) {
                if (state != QueueState.PAUSED || Time.nanos() - pausedAt < nanos) {
                    return;
                }
                state = QueueState.RUNNING;
            }
            runSoon();
        }

        private void pause(long nanos) {
            long mine;
            synchronized (this) {
                state = QueueState.PAUSED;
                pausedAt = Time.nanos();
                mine = ++pauses;
            }
            Background.scheduler().schedule(() -> endPause(mine), nanos, TimeUnit.NANOSECONDS);
        }

        private void endPause(long mine) {
            synchronized (this) {
                if (state != QueueState.PAUSED || pauses != mine) {
                    return;
                }
                state = QueueState.RUNNING;
            }
            run();
        }

        void runSoon() {
            Background.scheduler().schedule(this::run);
        }

        private boolean isEmpty() {
            return urgent.isEmpty() && waiting.isEmpty() && refused.isEmpty() && unanswered.isEmpty();
        }

        /** Pauses before what cannot be sent yet; without anything left, becomes idle. */
        private void rest() {
            if (isClosing.get() ? isAnyHeld : !isEmpty()) {
                pause(isClosing.get() ? PAUSE_AT_THE_END : LONGEST_PAUSE);
                return;
            }
            synchronized (this) {
                // Read under the monitor, because what is added now must find this idle.
                if (!isClosing.get() && !isEmpty()) {
                    runSoon();
                    return;
                }
                state = QueueState.IDLE;
            }
            busy.decrementAndGet();
            closeIfDone();
        }

        // A run.

        void run() {
            try {
                tryRun();
            } catch (Throwable e) {
                // What a user has set for the breaker.
                Exceptions.throwIfFatal(e);
                Dropped.report(e);
                pause(LONGEST_PAUSE);
            }
        }

        private void tryRun() {
            if (isClosed) {
                return;
            }
            CircuitGate gate = gates.to(node);
            CircuitGate.Passage passage = gate.pass();
            if (!passage.isSent()) {
                isAnyHeld = false;
                sort();
                rest();
                return;
            }
            List<Delivery<M>> batch = next();
            if (batch.isEmpty()) {
                gate.releaseWithoutResult(passage);
                rest();
            } else {
                send(batch, gate, passage);
            }
        }

        /**
         * Drops what has expired. If hash slots have moved to another node, their deliveries do, too. Visits some at a
         * time, because others wait for this thread.
         */
        private void sort() {
            sort(urgent);
            sort(waiting);
            sortRefused();
            Queue<DeliverySource<M>> again = new ArrayDeque<>(unanswered);
            sort(again);
            unanswered = again.stream().map(one -> (Delivery<M>) one).toList();
        }

        private void sort(Queue<DeliverySource<M>> sources) {
            for (int left = Math.min(sources.size(), SORTED_AT_ONCE); left > 0; left--) {
                DeliverySource<M> source = sources.poll();
                if (source == null) {
                    return;
                }
                try {
                    sort(source, sources);
                } catch (RuntimeException e) {
                    Dropped.report(e);
                    sources.add(source);
                }
            }
        }

        private void sort(DeliverySource<M> source, Queue<DeliverySource<M>> sources) {
            if (source.isEmpty()) {
                Delivery<M> last = source.take();
                if (last != null && last.isExpired()) {
                    lose(last);
                } else if (last != null) {
                    // Added to in the same moment.
                    sources.add(last);
                }
            } else if (queueOf(source.claim()) == this) {
                sources.add(source);
            } else {
                Outbox.this.add(source);
            }
        }

        private void sortRefused() {
            for (int left = Math.min(refused.size(), SORTED_AT_ONCE); left > 0; left--) {
                RefusedDelivery<M> one = refused.remove();
                if (one.delivery.isExpired()) {
                    lose(one.delivery);
                } else if (queueOf(one.delivery.claim()) == this) {
                    refused.add(one);
                } else {
                    Outbox.this.add(one.delivery);
                }
            }
        }

        private List<Delivery<M>> next() {
            isAnyHeld = false;
            List<Delivery<M>> batch = new ArrayList<>();
            // Last, because one of them may be why the others failed.
            waiting.addAll(unanswered);
            unanswered = List.of();
            take(urgent, batch);
            takeRefused(batch);
            take(waiting, batch);
            return batch;
        }

        /** Those that were refused first, as far as a second has passed; they take half of the room at most. */
        private void takeRefused(List<Delivery<M>> batch) {
            int most = batch.size() + (room - batch.size()) / 2;
            RefusedDelivery<M> first = refused.peek();
            while (first != null && batch.size() < most && Time.nanos() - first.at >= LONGEST_PAUSE) {
                refused.remove();
                if (addTo(batch, first.delivery) != null) {
                    refused.add(new RefusedDelivery<>(first.delivery, Time.nanos()));
                }
                first = refused.peek();
            }
        }

        private void take(Queue<DeliverySource<M>> from, List<Delivery<M>> batch) {
            List<DeliverySource<M>> held = new ArrayList<>();
            while (batch.size() < room) {
                DeliverySource<M> source = from.poll();
                if (source == null) {
                    break;
                }
                DeliverySource<M> left = addTo(batch, source);
                if (left != null) {
                    held.add(left);
                }
            }
            isAnyHeld |= !held.isEmpty();
            from.addAll(held);
        }

        /** Adds the delivery of a source, unless it has none. Returns what has to wait. */
        private @Nullable DeliverySource<M> addTo(List<Delivery<M>> batch, DeliverySource<M> source) {
            DeliverySource<M> left = source;
            try {
                if (source.isHeld() || isSecond(source, batch)) {
                    return source;
                }
                Delivery<M> one = source.take();
                left = one;
                if (one != null && one.isExpired()) {
                    lose(one);
                } else if (one != null) {
                    batch.add(one);
                }
                return null;
            } catch (RuntimeException e) {
                // Thrown by a clock of the user. The others are sent.
                Dropped.report(e);
                return left;
            }
        }

        /** Returns whether the batch has one of this count, and a store gets one at a time. */
        private boolean isSecond(DeliverySource<M> source, List<Delivery<M>> batch) {
            Object count = source.claim().handle();
            return source.isAlone()
                    && batch.stream()
                            .anyMatch(other -> other.isAlone()
                                    && count.equals(other.claim().handle()));
        }

        private void lose(Delivery<M> expired) {
            expired.lost("the store did not confirm it before it expired");
        }

        private void send(List<Delivery<M>> batch, CircuitGate gate, CircuitGate.Passage passage) {
            long start = Time.nanos();
            Mono.defer(() -> sendNow(batch))
                    .timeout(TIMEOUT, Mono.error(this::timedOut), Background.scheduler())
                    .defaultIfEmpty(Collections.nCopies(batch.size(), Corrected.of(CorrectionOutcome.UNSUPPORTED)))
                    .doOnNext(results -> checkResults(results, batch.size()))
                    .subscribe(
                            results -> {
                                long took = Time.nanos() - start;
                                gate.recordReply(took);
                                gate.release(passage);
                                answered(batch, results, gate, took);
                            },
                            error -> {
                                record(error, Time.nanos() - start, gate);
                                gate.release(passage);
                                failed(batch, error);
                            });
        }

        /** Reactor treats a linkage error as fatal, and would not report it. */
        private Mono<List<Corrected>> sendNow(List<Delivery<M>> batch) {
            try {
                return channel.send.apply(batch.stream().map(Delivery::message).toList());
            } catch (LinkageError e) {
                return Mono.error(new LimitStoreException(
                        Kind.UNREACHABLE, primary + " cannot run with the libraries on the class path: " + e, e));
            }
        }

        private LimitStoreException timedOut() {
            return new LimitStoreException(
                    Kind.UNANSWERED,
                    primary + " did not reply to a " + channel.name + " within " + TIMEOUT.toMillis() + " ms");
        }

        private void checkResults(List<Corrected> results, int expected) {
            long known = results.stream().filter(Objects::nonNull).count();
            if (known != expected) {
                throw new IllegalStateException(primary + " has returned " + known
                        + " results of corrections: expected one for each, for example " + expected);
            }
        }

        private void record(Throwable error, long took, CircuitGate gate) {
            if (channel.affectsDecisions || Kind.of(error).isOutage()) {
                gate.recordFailure(took, error);
            } else {
                gate.recordRefusal(error);
            }
        }

        private void answered(List<Delivery<M>> batch, List<Corrected> results, CircuitGate gate, long took) {
            failures = 0;
            room = Math.min(BATCH, 2 * room);
            List<Delivery<M>> again = new ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                try {
                    finish(batch.get(i), results.get(i));
                } catch (RuntimeException e) {
                    // It has been executed, and it is not known what has been noted of that.
                    Dropped.report(e);
                    if (batch.get(i).mayRepeat()) {
                        again.add(batch.get(i));
                    }
                }
            }
            unanswered = again;
            if (channel.affectsDecisions && urgent.isEmpty() && waiting.isEmpty()) {
                gate.recordReconciliation(took);
            }
            long rest = Math.min(took, channel.longestPause.toNanos());
            if (urgent.isEmpty() && waiting.isEmpty()) {
                rest();
            } else if (rest > 0) {
                pause(rest);
            } else {
                runSoon();
            }
        }

        private void finish(Delivery<M> one, Corrected result) {
            switch (result.outcome()) {
                case APPLIED, WITHOUT_EFFECT -> one.delivered(result);
                case NOT_POSSIBLE -> {
                    if (one.refused()) {
                        refused.add(new RefusedDelivery<>(one, Time.nanos()));
                    } else {
                        one.lost("the store cannot apply it");
                    }
                }
                case UNSUPPORTED -> one.lost("the store supports nothing of the kind");
            }
        }

        private void failed(List<Delivery<M>> batch, Throwable error) {
            if (Kind.of(error).isFinal()) {
                batch.forEach(one -> one.lost(String.valueOf(error.getMessage())));
                runSoon();
                return;
            }
            List<Delivery<M>> again = new ArrayList<>();
            for (Delivery<M> one : batch) {
                if (one.mayRepeat() || !Kind.of(error).mayBeExecuted()) {
                    again.add(one);
                } else {
                    one.lost(String.valueOf(error.getMessage()));
                }
            }
            unanswered = again;
            room = 1;
            sort();
            if (isClosing.get()) {
                isAnyHeld = false;
                rest();
            } else {
                int before = failures;
                failures = before + 1;
                pause(Math.min(LONGEST_PAUSE, SHORTEST_PAUSE << Math.min(before, MOST_DOUBLED)));
            }
        }
    }
}
