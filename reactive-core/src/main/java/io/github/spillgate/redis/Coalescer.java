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
 * Lets decisions that are asked for while others are at Redis leave together on one connection: in one command, or in a
 * cluster in one for each slot.
 *
 * <p>There is no timer. Who comes while nothing is under way leaves at once. Else he waits until something is answered,
 * or until somebody comes for whom it is time for the next one; then all leave who have come by then, as many as may
 * leave together. Where Redis is far away nobody waits for an answer to others, for that could take longer than he has.
 */
final class Coalescer {
    // Design notes.
    //
    // What must not happen is that somebody waits while nothing is under way: nobody would come back for him. Who comes
    // stands in the queue first and then looks how many commands are under way; a command that is answered is counted
    // off first and then the queue is looked into. So one of the two sees the other. Where it is not time yet for the
    // next command, another one is under way, and its answer will come.
    //
    // Batches are made where commands are written, in the connection's turnstile: by one thread at a time, each of
    // which makes only a few, or an event loop that comes to ask would send for all the others.
    //
    // What leaves at the same time is a flight. In a cluster it has a command for each slot, which are all answered at
    // about the same time, so it counts as one; it has come back with the last of them.
    //
    // While a slot is being moved, some of its counts are on one node and some on the other, and a command that asks
    // about both is refused, with nothing done. Then each question is asked by itself. One about several counts may
    // still be refused; that is tried again a few times, for a move mostly takes less than a second, and then given up.
    //
    // A connection that breaks needs no care: its commands fail, and whoever is sent after them fails as well. One that
    // has fallen silent is replaced by another one, which has a coalescer of its own; this one then ends.

    private static final long UNKNOWN = -1;

    /** Whose answers are delivered together with those of others. */
    private static final int FEW = 4;

    private static final int TRIES = 4;
    private static final long BEFORE_NEXT_TRY_MILLIS = 10;

    private final OpenConnection connection;
    private final Function<Batch, Mono<Object>> decide;
    private final byte[] prefix;
    private final Coalescing bounds;
    private final AtomicInteger waiting;
    private final Delivery delivery;
    private final Queue<PendingDecision> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger underWay = new AtomicInteger();
    private volatile long lastSentAt;

    /**
     * How far away Redis is: no answer has come faster on this connection. Redis being busy does not make it farther.
     */
    private volatile long shortestTrip = UNKNOWN;

    private volatile @Nullable LimitStoreException ended;

    /**
     * A coalescer for one connection.
     *
     * @param decide has Redis decide on a batch
     * @param prefix what the names of counts begin with
     * @param waiting how many wait, here and elsewhere; who leaves, or is told that he will not, is counted off
     */
    Coalescer(
            OpenConnection connection,
            Function<Batch, Mono<Object>> decide,
            byte[] prefix,
            Coalescing bounds,
            AtomicInteger waiting,
            Delivery delivery) {
        this.connection = connection;
        this.decide = decide;
        this.prefix = prefix;
        this.bounds = bounds;
        this.waiting = waiting;
        this.delivery = delivery;
    }

    boolean isOlderThan(OpenConnection other) {
        return connection.number() < other.number();
    }

    /** Has the decision made, together with others if it has to wait. */
    void add(PendingDecision asked) {
        queue.add(asked);
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

    /** Nobody leaves from here any more, and those who wait are told why. */
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
            if (next.leaves()) {
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

    /** Batches that leave at the same time, one for each slot. */
    private final class Flight {

        private final int likely;
        private final List<Batch> batches = new ArrayList<>(1);
        private @Nullable Map<Integer, Batch> others;
        private int slot;
        private int size;
        private int counts;

        Flight(int likely) {
            this.likely = likely;
        }

        void add(PendingDecision asked) {
            Batch batch = batchOn(asked.slot());
            int before = batch.numberOfCounts();
            batch.add(asked);
            counts += batch.numberOfCounts() - before;
            size++;
        }

        private Batch batchOn(int wanted) {
            if (batches.isEmpty()) {
                slot = wanted;
                return newBatch(likely);
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
            Batch batch = new Batch(prefix, size);
            batches.add(batch);
            return batch;
        }
    }

    /** A batch at Redis. */
    private final class UnderWay implements CoreSubscriber<Object> {

        private final Batch batch;
        private final AtomicInteger left;
        private final int tries;
        private final long sentAt = connection.now();
        private boolean answered;

        /**
         * A batch of a flight.
         *
         * @param left how many of the flight have not come back
         * @param tries how often more it is asked while a slot is being moved
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
                batch.heard((byte[]) reply);
                end(piece -> batch.answer((byte[]) reply, piece));
                String why = batch.whyUnwritten((byte[]) reply);
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
            if (!Redirect.isTornApart(e) || tries == 0) {
                end(piece -> batch.fail(e, piece));
                return;
            }
            answered = true;
            if (batch.numberOfQuestions() > 1) {
                List<Batch> apart = batch.apart();
                left.addAndGet(apart.size() - 1);
                delivery.deliver(() -> apart.forEach(this::askAgain));
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
                // First the next batch, so that Redis has something to do meanwhile.
                sendIfSomebodyWaits();
                how.accept(0);
            };
            if (batch.size() <= FEW) {
                delivery.deliverWithOthers(first);
                return;
            }
            delivery.deliver(first);
            for (int i = 1; i < batch.pieces(); i++) {
                int piece = i;
                delivery.deliver(() -> how.accept(piece));
            }
        }
    }
}
