package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Sends decisions in batches on one connection: one command for all that are waiting, or in a cluster one for each
 * slot.
 *
 * <p>There is no timer. If nothing is in flight, a decision is sent at once. Otherwise it waits for the next reply, or
 * until another decision arrives after the time for the next batch. The batch then has all waiting decisions, up to the
 * bounds. If Redis is far away, no decision waits for the reply to others, because that could exceed its deadline.
 */
final class Coalescer {
    // Design notes.
    //
    // No decision may wait while nothing is in flight, because nothing would send it. A decision is queued before the
    // number of commands in flight is read; a reply lowers that number before the queue is read. So one of the two sees
    // the other. If it is not time for the next batch, another one is in flight, and its reply or failure will come.
    //
    // Batches are made in the connection's turnstile, where commands are written: by one thread at a time. Each thread
    // makes only a few, so that no event loop sends for all the others.
    //
    // The batches that are sent at the same time are a flight. In a cluster it has one for each slot. All of them are
    // answered at about the same time, so a flight counts as one batch, and ends with the last reply.
    //
    // While a slot is being migrated, its counts are on two nodes, and a command on both is refused without effect.
    // Then each group of decisions gets a command of its own. One with several counts may still be refused. It is
    // retried a few times, because most migrations take less than a second, and then fails.
    //
    // A broken connection needs no care: its commands fail, and so do those that are sent later. A silent connection is
    // replaced by another one with a coalescer of its own, and this one ends.

    private static final long UNKNOWN = -1;

    /** Batches up to this size share a thread switch with others when they are answered. */
    private static final int FEW = 4;

    private static final int TRIES = 4;
    private static final long BEFORE_NEXT_TRY_MILLIS = 10;

    private final OpenConnection connection;
    private final Function<Batch, Mono<Object>> decide;
    private final CountKeys keys;
    private final Coalescing bounds;
    private final AtomicInteger waiting;
    private final Delivery delivery;
    private final Queue<PendingDecision> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger underWay = new AtomicInteger();
    private volatile long lastSentAt;

    /** The shortest round trip on this connection. It shows the distance of Redis, whether Redis is busy or not. */
    private volatile long shortestTrip = UNKNOWN;

    private volatile @Nullable LimitStoreException ended;

    /**
     * A coalescer for one connection.
     *
     * @param decide sends a batch to Redis
     * @param keys the keys of the counts
     * @param waiting the number of waiting decisions, here and elsewhere; lowered when one is sent or fails
     */
    Coalescer(
            OpenConnection connection,
            Function<Batch, Mono<Object>> decide,
            CountKeys keys,
            Coalescing bounds,
            AtomicInteger waiting,
            Delivery delivery) {
        this.connection = connection;
        this.decide = decide;
        this.keys = keys;
        this.bounds = bounds;
        this.waiting = waiting;
        this.delivery = delivery;
    }

    boolean isOlderThan(OpenConnection other) {
        return connection.number() < other.number();
    }

    /** Sends the decision, now or in a later batch. */
    void add(PendingDecision decision) {
        queue.add(decision);
        if (isTimeForTheNext() || ended != null) {
            connection.inTurn(this::send);
        }
    }

    private boolean isTimeForTheNext() {
        int flights = underWay.get();
        return flights == 0
                || (flights < bounds.underWay()
                        && (waiting.get() >= bounds.together()
                                || shortestTrip >= Coalescing.FAR
                                || connection.now() - lastSentAt >= flights * bounds.pace()));
    }

    /** Ends this coalescer: waiting and later decisions fail. */
    void end(LimitStoreException why) {
        ended = why;
        connection.inTurn(this::send);
    }

    private void send() {
        LimitStoreException why = ended;
        if (why != null) {
            failAll(why);
        } else if (isTimeForTheNext()) {
            List<Batch> flight = nextFlight();
            if (!flight.isEmpty()) {
                underWay.incrementAndGet();
                lastSentAt = connection.now();
                AtomicInteger left = new AtomicInteger(flight.size());
                for (Batch batch : flight) {
                    decide.apply(batch).subscribe(new UnderWay(batch, left, TRIES));
                }
            }
            sendIfSomebodyWaits();
        }
    }

    private void sendIfSomebodyWaits() {
        if (!queue.isEmpty() && isTimeForTheNext()) {
            connection.inTurn(this::send);
        }
    }

    private List<Batch> nextFlight() {
        Flight flight = new Flight(Math.max(1, Math.min(bounds.decisions(), waiting.get())));
        while (flight.size < bounds.decisions() && flight.counts < bounds.together()) {
            PendingDecision next = queue.peek();
            if (next == null
                    || (flight.size > 0 && flight.counts + next.claims().size() > bounds.together())) {
                break;
            }
            queue.remove();
            waiting.decrementAndGet();
            if (next.markSent()) {
                flight.add(next);
            }
        }
        return flight.batches;
    }

    private void failAll(LimitStoreException why) {
        for (PendingDecision next = queue.poll(); next != null; next = queue.poll()) {
            PendingDecision waiter = next;
            waiting.decrementAndGet();
            delivery.deliver(() -> waiter.fail(why));
        }
    }

    /** Batches that are sent at the same time, one for each slot. */
    private final class Flight {

        private final int expectedSize;
        private final List<Batch> batches = new ArrayList<>(1);
        private @Nullable Map<Integer, Batch> others;
        private int slot;
        private int size;
        private int counts;

        Flight(int expectedSize) {
            this.expectedSize = expectedSize;
        }

        void add(PendingDecision decision) {
            Batch batch = batchOn(decision.slot());
            int before = batch.numberOfCounts();
            batch.add(decision);
            counts += batch.numberOfCounts() - before;
            size++;
        }

        private Batch batchOn(int wanted) {
            if (batches.isEmpty()) {
                slot = wanted;
                return newBatch(expectedSize);
            }
            if (wanted == slot) {
                return batches.get(0);
            }
            Map<Integer, Batch> known = others;
            if (known == null) {
                known = new HashMap<>();
                others = known;
            }
            Batch batch = known.get(wanted);
            if (batch == null) {
                batch = newBatch(1);
                known.put(wanted, batch);
            }
            return batch;
        }

        private Batch newBatch(int size) {
            Batch batch = new Batch(keys, size);
            batches.add(batch);
            return batch;
        }
    }

    /** A batch in flight. */
    private final class UnderWay implements CoreSubscriber<Object> {

        private final Batch batch;
        private final AtomicInteger left;
        private final int tries;
        private final long sentAt = connection.now();
        private boolean answered;

        /**
         * A batch of a flight.
         *
         * @param left the number of batches of the flight without a reply
         * @param tries the number of retries that are left while a slot is being migrated
         */
        UnderWay(Batch batch, AtomicInteger left, int tries) {
            this.batch = batch;
            this.left = left;
            this.tries = tries;
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(Object reply) {
            if (!answered) {
                long trip = connection.now() - sentAt;
                if (shortestTrip == UNKNOWN || trip < shortestTrip) {
                    shortestTrip = trip;
                }
                ScriptReply decoded = new ScriptReply((byte[]) reply);
                batch.recordTime(decoded);
                end(part -> batch.answer(decoded, part));
                String why = batch.whyUnwritten(decoded);
                if (!why.isEmpty()) {
                    connection.noteRefusal(why);
                }
            }
        }

        @Override
        public void onError(Throwable e) {
            if (answered) {
                return;
            }
            if (!Redirect.isTryAgain(e) || tries == 0) {
                end(part -> batch.fail(e, part));
                return;
            }
            answered = true;
            if (batch.numberOfGroups() > 1) {
                List<Batch> groups = batch.split();
                left.addAndGet(groups.size() - 1);
                delivery.deliver(() -> groups.forEach(this::askAgain));
            } else {
                Schedulers.parallel().schedule(() -> askAgain(batch), BEFORE_NEXT_TRY_MILLIS, TimeUnit.MILLISECONDS);
            }
        }

        private void askAgain(Batch again) {
            decide.apply(again).subscribe(new UnderWay(again, left, tries - 1));
        }

        @Override
        public void onComplete() {
            if (!answered) {
                onError(new LimitStoreUnavailableException("Redis has answered nothing", null));
            }
        }

        private void end(IntConsumer how) {
            answered = true;
            if (left.decrementAndGet() == 0) {
                underWay.decrementAndGet();
            }
            Runnable first = () -> {
                // First the next batch, so that Redis works on it while these answers are emitted.
                sendIfSomebodyWaits();
                how.accept(0);
            };
            if (batch.size() <= FEW) {
                delivery.deliverWithOthers(first);
                return;
            }
            delivery.deliver(first);
            for (int i = 1; i < batch.parts(); i++) {
                int part = i;
                delivery.deliver(() -> how.accept(part));
            }
        }
    }
}
