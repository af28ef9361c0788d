package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Delivers settlements to the primary store: in batches, one at a time for each node, until the result is known. */
final class SettlementQueue {
    // Design notes.
    //
    // A settlement that joins an idle queue is sent at once. Those that join while a batch is in flight are the next
    // batch. So batches are as large as the load requires, and no timer delays them.
    //
    // If the result of a batch is not known, its settlements are sent again, with the same ids: the store keeps these
    // for longer than until the deadline of a settlement, and executes none after it. So each takes effect once.
    //
    // A settlement is lost if it is not delivered by its deadline, if the store refuses it, or if the queue is full.

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    static final int BATCH = 64;
    static final int MOST_WAITING = 10_000;

    private static final int MOST_NODES = 1_000;
    private static final String REST = "";
    private static final Duration LAST_ATTEMPT = Duration.ofSeconds(1);
    private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(25);

    private final LimitStore primary;
    private final CircuitGates gates;
    private final DenialCache denials;
    private final Consumer<StoreDecision> replies;
    private final ConcurrentMap<String, NodeQueue> byNode = new ConcurrentHashMap<>();
    private final AtomicInteger pending = new AtomicInteger();
    private final AtomicLong lost = new AtomicLong();
    private final SummaryLog lostToLog = new SummaryLog(this::log);
    private final Sinks.Empty<Void> close = Sinks.empty();
    private final AtomicBoolean closed = new AtomicBoolean();
    private volatile String reason = "";
    private volatile boolean closing;

    /**
     * Creates an empty queue.
     *
     * @param denials the cached denials, of which a refund drops some
     * @param replies learns of the usage of the counts that are settled
     */
    SettlementQueue(LimitStore primary, CircuitGates gates, DenialCache denials, Consumer<StoreDecision> replies) {
        this.primary = primary;
        this.gates = gates;
        this.denials = denials;
        this.replies = replies;
    }

    /** Adds a settlement. The result completes when it is delivered or lost, with or without a subscriber. */
    Mono<Void> add(Settlement settlement) {
        if (closed.get()) {
            lose("the store is closed");
            return Mono.empty();
        }
        if (pending.incrementAndGet() > MOST_WAITING) {
            pending.decrementAndGet();
            lose("too many are waiting");
            return Mono.empty();
        }
        PendingSettlement one = new PendingSettlement(settlement, Sinks.empty());
        String node = primary.node(List.of(settlement.claim()));
        NodeQueue known = byNode.get(node);
        if (known == null) {
            known = byNode.computeIfAbsent(byNode.size() < MOST_NODES ? node : REST, NodeQueue::new);
        }
        known.add(one);
        return one.end.asMono();
    }

    /** Returns how many settlements were lost. */
    long lost() {
        return lost.get();
    }

    /** Makes a last attempt to deliver what waits, for at most a second, and ends. */
    Mono<Void> end() {
        closing = true;
        Schedulers.parallel().schedule(this::close, LAST_ATTEMPT.toNanos(), TimeUnit.NANOSECONDS);
        closeIfEmpty();
        return close.asMono();
    }

    private void closeIfEmpty() {
        if (closing && pending.get() == 0) {
            close();
        }
    }

    private void close() {
        if (closed.compareAndSet(false, true)) {
            int left = pending.get();
            if (left > 0) {
                lost.addAndGet(left);
                LOG.warn("{} settled costs will not be delivered to {}", left, primary);
            }
            close.tryEmitEmpty();
        }
    }

    private void finish(PendingSettlement one, @Nullable String whyLost) {
        if (!closed.get()) {
            pending.decrementAndGet();
            if (whyLost != null) {
                lose(whyLost);
            }
        }
        one.end.tryEmitEmpty();
        closeIfEmpty();
    }

    private void lose(String why) {
        lost.incrementAndGet();
        reason = why;
        lostToLog.count();
    }

    private void log(long settlements) {
        LOG.warn("{} settled costs could not be delivered to {}: {}", settlements, primary, reason);
    }

    private record PendingSettlement(Settlement settlement, Sinks.Empty<Void> end) {

        boolean isExpired() {
            return settlement.deadline() - Deadlines.now() <= 0;
        }
    }

    /** Sends the settlements of one node, one batch at a time. */
    private final class NodeQueue {

        private final String node;
        private final Queue<PendingSettlement> waiting = new ConcurrentLinkedQueue<>();
        private final AtomicBoolean running = new AtomicBoolean();

        /** The batch that is in flight, or has an unknown result. Used by one run at a time. */
        private volatile List<PendingSettlement> batch = List.of();

        NodeQueue(String node) {
            this.node = node;
        }

        void add(PendingSettlement one) {
            waiting.add(one);
            start();
        }

        private void start() {
            if (!running.get() && running.compareAndSet(false, true)) {
                send();
            }
        }

        private void send() {
            if (closed.get()) {
                return;
            }
            List<PendingSettlement> sending = next();
            batch = sending;
            if (sending.isEmpty()) {
                running.set(false);
                if (!waiting.isEmpty()) {
                    start();
                }
                return;
            }
            List<Settlement> settlements =
                    sending.stream().map(PendingSettlement::settlement).toList();
            gates.to(node)
                    .change("settlement", () -> primary.settle(settlements))
                    .singleOptional()
                    .subscribe(reply -> delivered(sending, reply.orElse(null)), error -> failed(sending, error));
        }

        /** Returns what was sent before and may still be sent, and what waits. */
        private List<PendingSettlement> next() {
            List<PendingSettlement> next = new ArrayList<>(batch);
            while (next.size() < BATCH) {
                PendingSettlement one = waiting.poll();
                if (one == null) {
                    break;
                }
                next.add(one);
            }
            next.removeIf(one -> {
                boolean isExpired = one.isExpired();
                if (isExpired) {
                    finish(one, "the store did not confirm them before their deadline");
                }
                return isExpired;
            });
            return next;
        }

        private void sendAfter(long nanos) {
            Schedulers.parallel().schedule(this::send, nanos, TimeUnit.NANOSECONDS);
        }

        private void delivered(List<PendingSettlement> sent, @Nullable StoreDecision reply) {
            dropDenials(sent);
            Set<Object> settled = new HashSet<>();
            if (reply != null) {
                replies.accept(reply);
                reply.claims().forEach(claim -> settled.add(claim.handle()));
            }
            end(
                    sent,
                    one -> reply == null
                                    || settled.contains(one.settlement.claim().handle())
                            ? null
                            : "the store cannot settle them");
        }

        private void failed(List<PendingSettlement> sent, Throwable error) {
            if (CircuitGate.mayRetry(error)) {
                sendAfter(PAUSE);
            } else {
                // Another attempt would fail too, and delay everything behind this batch.
                end(sent, one -> String.valueOf(error.getMessage()));
            }
        }

        private void end(List<PendingSettlement> sent, Function<PendingSettlement, @Nullable String> whyLost) {
            batch = List.of();
            sent.forEach(one -> finish(one, whyLost.apply(one)));
            sendAfter(0);
        }
    }

    private void dropDenials(List<PendingSettlement> sent) {
        List<Claim> freed = sent.stream()
                .map(PendingSettlement::settlement)
                .filter(one -> one.toRefund() > 0)
                .map(Settlement::claim)
                .toList();
        denials.freed(freed);
    }
}
