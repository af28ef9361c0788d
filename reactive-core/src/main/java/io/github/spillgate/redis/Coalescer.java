package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;

/**
 * Lets decisions that are asked for while others are at Redis leave together, in the next command on one connection.
 *
 * <p>There is no timer. Who comes while no command is under way leaves at once. Else he waits until one is answered, or until
 * somebody comes for whom it is time for the next one; then all leave who have come by then, as many as may leave together. Where
 * Redis is far away nobody waits for an answer to others, for that could take longer than he has.
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
    // A connection that breaks needs no care: its commands fail, and whoever is sent after them fails as well. One that
    // has fallen silent is replaced by another one, which has a coalescer of its own; this one then ends.

    private static final long UNKNOWN = -1;

    private final OpenConnection connection;
    private final ScriptRunner decide;
    private final byte[] prefix;
    private final Coalescing bounds;
    private final AtomicInteger waiting;
    private final Delivery delivery;
    private final Queue<Asked> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger underWay = new AtomicInteger();
    private volatile long lastSentAt;

    /** How far away Redis is: no answer has come faster on this connection. Redis being busy does not make it farther. */
    private volatile long shortestTrip = UNKNOWN;

    private volatile @Nullable LimitStoreException ended;

    /**
     * A coalescer for one connection.
     *
     * @param waiting how many wait, here and elsewhere; who leaves, or is told that he will not, is counted off
     */
    Coalescer(
            OpenConnection connection,
            ScriptRunner decide,
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
    void add(Asked asked) {
        queue.add(asked);
        if (isTimeForTheNext() || ended != null) {
            connection.inTurn(this::send);
        }
    }

    private boolean isTimeForTheNext() {
        int commands = underWay.get();
        return commands == 0
                || (commands < bounds.underWay()
                        && (waiting.get() >= bounds.together()
                                || shortestTrip >= Coalescing.FAR
                                || connection.now() - lastSentAt >= commands * bounds.pace()));
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
            Batch batch = nextBatch();
            if (batch.size() > 0) {
                underWay.incrementAndGet();
                lastSentAt = connection.now();
                decide.run(connection, batch.keys(), new byte[][] {batch.argument()})
                        .subscribe(new UnderWay(batch));
            }
            sendIfSomebodyWaits();
        }
    }

    private void sendIfSomebodyWaits() {
        if (!queue.isEmpty() && isTimeForTheNext()) {
            connection.inTurn(this::send);
        }
    }

    private Batch nextBatch() {
        Batch batch = new Batch(prefix, Math.max(1, Math.min(bounds.decisions(), waiting.get())));
        while (batch.size() < bounds.decisions() && batch.numberOfCounts() < bounds.together()) {
            Asked next = queue.peek();
            if (next == null
                    || (batch.size() > 0
                            && batch.numberOfCounts() + next.claims().size() > bounds.together())) {
                break;
            }
            queue.remove();
            waiting.decrementAndGet();
            if (next.leaves()) {
                batch.add(next);
            }
        }
        return batch;
    }

    private void failAll(LimitStoreException why) {
        for (Asked next = queue.poll(); next != null; next = queue.poll()) {
            Asked waiter = next;
            waiting.decrementAndGet();
            delivery.deliver(() -> waiter.fail(why));
        }
    }

    /** A batch at Redis. */
    private final class UnderWay implements CoreSubscriber<Object> {

        private final Batch batch;
        private final long sentAt = lastSentAt;
        private boolean answered;

        UnderWay(Batch batch) {
            this.batch = batch;
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
                end(piece -> batch.answer((byte[]) reply, piece));
            }
        }

        @Override
        public void onError(Throwable e) {
            if (!answered) {
                end(piece -> batch.fail(e, piece));
            }
        }

        @Override
        public void onComplete() {
            if (!answered) {
                onError(new LimitStoreUnavailableException("Redis has answered nothing", null));
            }
        }

        private void end(IntConsumer how) {
            answered = true;
            underWay.decrementAndGet();
            delivery.deliver(() -> {
                // First the next batch, so that Redis has something to do meanwhile.
                sendIfSomebodyWaits();
                how.accept(0);
            });
            for (int i = 1; i < batch.pieces(); i++) {
                int piece = i;
                delivery.deliver(() -> how.accept(piece));
            }
        }
    }
}
