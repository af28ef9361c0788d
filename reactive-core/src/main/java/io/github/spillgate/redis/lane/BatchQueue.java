package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.StoreClock;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongPredicate;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The decisions that wait for one connection, and the batches in flight on it. Sends each batch as one command, or in a
 * cluster as one for each slot.
 *
 * <p>There is no timer. A decision joins the queue, and the queue is sent at the end of the event loop's current run.
 * So everything that the loop has read at the same time is sent together, and nothing waits if Redis is idle. If enough
 * batches are in flight, decisions wait for the next reply.
 */
public final class BatchQueue {
    // Design notes.
    //
    // Only the event loop of the connection touches the state, so there are no locks, and no order between threads to
    // think about. Other threads hand a decision to the loop as a task. Replies arrive on the loop; with some options
    // of the user, and after timeouts, Lettuce reports them on other threads, and they return to the loop first.
    //
    // No decision may wait while nothing is in flight, because nothing would send it. A decision that joins the queue
    // schedules a run of send() unless one is scheduled; each reply or failure calls it.
    //
    // The batches that are sent at the same time are a flight. In a cluster it has one for each slot. All of them are
    // answered at about the same time, so a flight counts as one batch, and ends with the last reply. They are written
    // to the socket together: a system call for each would double the client's time for a decision.
    //
    // While a slot is being migrated, its counts are on two nodes, and a command on both is refused without effect.
    // Then each group of decisions gets a command of its own. One with several counts may still be refused. It is
    // retried a few times, because most migrations take less than a second, and then fails.
    //
    // A broken connection needs nothing here: its commands fail, and so do those that are sent later. A silent
    // connection is replaced by another one with a queue of its own, and this queue ends.
    //
    // A reply that has arrived is not known before the event loop reads it, and the loop may be busy. So whether Redis
    // is silent is judged after the loop's next run, which begins with reading. The time for its reply counts from the
    // end of the run in which the decision joined the queue. If Redis has replied to a command that was sent since
    // then, it is not silent: the decision waits here for others, because this process or Redis is overloaded. Such a
    // decision is not sent after its deadline. Otherwise, under a lasting overload, all would be sent too late.
    //
    // Redis executes commands in about the order in which they arrive. If it has replied to a later command on another
    // connection, it has executed those in flight here, or will never receive them: only this connection is silent. The
    // order may differ a little, so the connection must have been silent for some time.

    private static final int TRIES = 4;
    private static final long BEFORE_NEXT_TRY_MILLIS = 10;

    /** A task that the event loop itself schedules with a delay does not run in the loop's current run. */
    private static final long NEXT_RUN = TimeUnit.MILLISECONDS.toNanos(1);

    /** Only a connection that is silent for this part of the time, a half, is judged by the replies on others. */
    private static final int SILENCE_PART = 2;

    /** Sends a batch to Redis, to be decided by the script. */
    private final Function<Batch, Mono<byte[]>> decide;

    private final CountKeys keys;
    private final BatchBounds bounds;

    private final AnswerDelivery delivery;

    /** Returns whether Redis has replied, on any connection, to a command that was sent after a time. */
    private final LongPredicate serverAnsweredSince;

    private final OpenConnection connection;
    private final BlockedLoopLog blocked;
    private final Queue<PendingDecision> queue = new ArrayDeque<>();

    /** The number of decisions in the queue, or on their way to it from other threads. */
    private final AtomicInteger waiting = new AtomicInteger();

    /** The queue is sent at the end of this run of the event loop; null if no decision has joined since the last. */
    private @Nullable Run currentRun;

    private boolean isSending;
    private int inFlight;

    /** The shortest round trip on this connection. It shows the distance of Redis, whether Redis is busy or not. */
    private long shortestRoundTrip = Long.MAX_VALUE;

    private @Nullable LimitStoreException ended;

    public BatchQueue(
            OpenConnection connection,
            Function<Batch, Mono<byte[]>> decide,
            CountKeys keys,
            BatchBounds bounds,
            AnswerDelivery delivery,
            LongPredicate serverAnsweredSince) {
        this.connection = connection;
        this.blocked = new BlockedLoopLog(connection);
        this.decide = decide;
        this.keys = keys;
        this.bounds = bounds;
        this.delivery = delivery;
        this.serverAnsweredSince = serverAnsweredSince;
    }

    /** Prepares the event loop of the connection, before the first decision. */
    void prepareLoop() {
        connection.run(() -> {
            delivery.prepareThread();
            blocked.noteThread();
        });
    }

    /** Sends the decision, at the end of the event loop's current run or in a later batch. */
    public void add(PendingDecision decision) {
        decision.setQueue(this);
        if (waiting.incrementAndGet() > bounds.waiting()) {
            waiting.decrementAndGet();
            decision.fail(bounds.tooManyWait());
        } else if (delivery.isOnLoop()) {
            enqueue(decision);
        } else {
            enqueueLater(decision);
        }
    }

    /** As a task even if this is the event loop: decisions of other threads that were requested before may be tasks. */
    private void enqueueLater(PendingDecision decision) {
        if (!connection.runLater(0, decision)) {
            waiting.decrementAndGet();
            decision.fail(loopEnded());
        }
    }

    /** Ends this queue: waiting and later decisions fail. */
    void end(LimitStoreException why) {
        connection.run(() -> {
            ended = why;
            send();
        });
    }

    /** Runs a task after the next run of the event loop; returns false if that is not the loop of the callers. */
    boolean runAfterReading(Runnable task) {
        return delivery.isOnLoop() && connection.runLater(0, () -> connection.runLater(NEXT_RUN, task));
    }

    /** Finds out whether Redis has had this time for its reply to a decision, and replies to no later command. */
    void askIfSilent(long nanos, PendingDecision decision, Consumer<Boolean> isSilent) {
        Runnable answer = () -> {
            if (!decision.isDone()) {
                isSilent.accept(!isReplying(nanos / SILENCE_PART, decision));
            }
        };
        Runnable ask = () -> {
            Run joined = decision.joinedRun();
            long left = joined == null ? 0 : joined.endedAt + nanos - connection.now();
            if (!connection.runLater(Math.max(NEXT_RUN, left), answer)) {
                answer.run();
            }
        };
        blocked.look();
        // After the task by which it joins the queue.
        if (!connection.runLater(0, ask)) {
            answer.run();
        }
    }

    /** Returns whether Redis replies to later commands, here, or elsewhere while only this connection is silent. */
    private boolean isReplying(long nanos, PendingDecision decision) {
        Run joined = decision.joinedRun();
        return (joined != null && connection.hasAnsweredSince(joined.endedAt))
                || connection.isSilentAlone(nanos, serverAnsweredSince);
    }

    void enqueue(PendingDecision decision) {
        queue.add(decision);
        Run run = currentRun;
        if (run == null) {
            run = new Run();
            currentRun = run;
            if (!connection.runLater(0, run)) {
                currentRun = null;
                end(loopEnded());
                return;
            }
        }
        decision.setRun(run);
    }

    private void send() {
        if (isSending) {
            // A command has failed while it was being sent. The loop below goes on.
            return;
        }
        isSending = true;
        try {
            while (ended == null && !queue.isEmpty() && inFlight < bounds.inFlight(roundTrip())) {
                sendFlight(bounds.inFlight(roundTrip()) - inFlight);
            }
        } finally {
            isSending = false;
        }
        LimitStoreException why = ended;
        if (why != null) {
            failAll(why);
        }
    }

    private void sendFlight(int free) {
        Flight flight = nextFlight(bounds.share(queue.size(), free, roundTrip()));
        List<Batch> batches = flight.batches;
        if (batches.isEmpty()) {
            return;
        }
        inFlight++;
        flight.unanswered = batches.size();
        if (batches.size() == 1) {
            send(batches.get(0), flight, TRIES);
        } else {
            connection.sendTogether(() -> batches.forEach(batch -> send(batch, flight, TRIES)));
        }
        flight.forgetBatches();
    }

    /** Sends a batch. Whatever is thrown fails this batch, and no other. */
    private void send(Batch batch, Flight flight, int tries) {
        BatchInFlight sent = new BatchInFlight(batch, flight, tries);
        try {
            decide.apply(batch).subscribe(sent);
        } catch (Throwable e) {
            sent.onError(e);
        }
    }

    /** Returns the shortest round trip; zero before the first reply. */
    private long roundTrip() {
        return shortestRoundTrip == Long.MAX_VALUE ? 0 : shortestRoundTrip;
    }

    private Flight nextFlight(int most) {
        Flight flight = new Flight(most);
        long now = connection.now();
        while (flight.size < most && flight.counts < bounds.counts()) {
            PendingDecision next = queue.peek();
            if (next == null
                    || (flight.size > 0 && flight.counts + next.claims().size() > bounds.counts())) {
                break;
            }
            queue.remove();
            waiting.decrementAndGet();
            if (StoreClock.isAfter(next.deadline(), now)) {
                delivery.deliver(() -> next.fail(tooLate()));
            } else if (next.markSent()) {
                addOrFail(flight, next);
            }
        }
        return flight;
    }

    /** A decision that cannot be encoded must not keep the others from being sent. */
    private void addOrFail(Flight flight, PendingDecision decision) {
        try {
            flight.add(decision);
        } catch (RuntimeException e) {
            delivery.deliver(() -> decision.fail(Errors.translate(e)));
        }
    }

    private void failAll(LimitStoreException why) {
        for (PendingDecision next = queue.poll(); next != null; next = queue.poll()) {
            PendingDecision waiter = next;
            waiting.decrementAndGet();
            delivery.deliver(() -> waiter.fail(why));
        }
    }

    private static LimitStoreException tooLate() {
        return new LimitStoreException(
                Kind.LATE, "Redis was not asked: the request waited for others until its deadline");
    }

    private LimitStoreException loopEnded() {
        return connection.unusable("the event loop of its connection has ended");
    }

    /** A run of the event loop. When it ends, the decisions that have joined the queue are sent. */
    final class Run implements Runnable {

        /** When it has ended, which is when its decisions could be sent; before that, when they joined. */
        private volatile long endedAt = connection.now();

        @Override
        public void run() {
            endedAt = connection.now();
            currentRun = null;
            send();
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

        /** The number of batches without a reply; used once they are sent. */
        private int unanswered;

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

        /** Drops the batches: one without a reply must not keep the others, and their callers, in memory. */
        void forgetBatches() {
            batches.clear();
            others = null;
        }

        void batchEnded() {
            unanswered--;
            if (unanswered == 0) {
                inFlight--;
            }
        }
    }

    /** A batch in flight. */
    private final class BatchInFlight implements CoreSubscriber<byte[]> {

        private final Batch batch;
        private final Flight flight;

        /** The number of retries that are left while a slot is being migrated. */
        private final int tries;

        private final long sentAt = connection.now();
        private boolean answered;

        /** Written and read by the thread that reports the reply. */
        private boolean hasReply;

        BatchInFlight(Batch batch, Flight flight, int tries) {
            this.batch = batch;
            this.flight = flight;
            this.tries = tries;
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(byte[] reply) {
            hasReply = true;
            long roundTrip = connection.now() - sentAt;
            ScriptReply decoded;
            String whyUnwritten;
            try {
                decoded = new ScriptReply(reply);
                batch.recordTime(decoded);
                whyUnwritten = batch.whyUnwritten(decoded);
            } catch (RuntimeException e) {
                // This batch fails, and keeps no place among those in flight.
                onError(new LimitStoreException(
                        Kind.REJECTED, "the reply of Redis cannot be read: " + e.getMessage(), e));
                return;
            }
            if (!connection.run(() -> replied(decoded, whyUnwritten, roundTrip))) {
                batch.parts()
                        .forEach(part -> AnswerDelivery.deliver(Schedulers.parallel(), () -> part.answer(decoded)));
            }
        }

        @Override
        public void onError(Throwable e) {
            if (!connection.run(() -> failed(e))) {
                batch.parts().forEach(part -> AnswerDelivery.deliver(Schedulers.parallel(), () -> part.fail(e)));
            }
        }

        @Override
        public void onComplete() {
            if (hasReply) {
                return;
            }
            onError(new LimitStoreException(Kind.UNANSWERED, "Redis replied with nothing"));
        }

        private void replied(ScriptReply reply, String whyUnwritten, long roundTrip) {
            if (answered) {
                return;
            }
            answered = true;
            shortestRoundTrip = Math.min(shortestRoundTrip, roundTrip);
            if (!whyUnwritten.isEmpty()) {
                connection.noteRefusal(whyUnwritten);
            }
            flight.batchEnded();
            // First the next batches, so that Redis works on them while these answers are emitted.
            send();
            delivery.deliver(batch, connection, part -> part.answer(reply));
        }

        private void failed(Throwable e) {
            if (answered) {
                return;
            }
            answered = true;
            if (Redirect.isTryAgain(e) && tries > 0) {
                retry();
                return;
            }
            flight.batchEnded();
            send();
            delivery.deliver(batch, connection, part -> part.fail(e));
        }

        private void retry() {
            if (batch.numberOfGroups() > 1) {
                List<Batch> groups = batch.split();
                flight.unanswered += groups.size() - 1;
                groups.forEach(this::sendAgain);
            } else {
                // Not a timer of the loop, which would drop it if it ended.
                Background.scheduler().schedule(() -> sendAgain(batch), BEFORE_NEXT_TRY_MILLIS, TimeUnit.MILLISECONDS);
            }
        }

        private void sendAgain(Batch again) {
            send(again, flight, tries - 1);
        }
    }
}
