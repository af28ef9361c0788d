package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.RemoteSubscription;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreRequest.Mode;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/**
 * A decision between its request and its answer, and the subscription of its caller. It is answered at most once, and
 * never after a cancellation.
 */
public final class PendingDecision implements RemoteSubscription, Runnable {

    private static final AtomicIntegerFieldUpdater<PendingDecision> STAGE =
            AtomicIntegerFieldUpdater.newUpdater(PendingDecision.class, "stage");

    /** The highest number of retries. If the server's clock jumps with each reply, no retry helps. */
    private static final int MOST_RETRIES = 3;

    private static final int NEW = 0;
    private static final int WAITING = 1;
    private static final int SENT = 2;
    private static final int DONE = 3;

    private final StoreRequest request;
    private final int slot;

    private final Consumer<PendingDecision> onRequest;
    private final Consumer<StoreDecision> onUnused;
    private final CoreSubscriber<? super StoreDecision> subscriber;
    private volatile int stage;

    /** The queue that it was added to last; null while no connection is known. */
    private volatile @Nullable BatchQueue queue;

    /** The run of the event loop in which it joined that queue; null before. */
    private volatile BatchQueue.@Nullable Run run;

    /** The number of retries; written by the thread that has the reply. */
    private int retries;

    /** The next equal decision of the same group. */
    private @Nullable PendingDecision next;

    private PendingDecision(
            StoreRequest request,
            int slot,
            Consumer<PendingDecision> onRequest,
            Consumer<StoreDecision> onUnused,
            CoreSubscriber<? super StoreDecision> subscriber) {
        this.request = request;
        this.slot = slot;
        this.onRequest = onRequest;
        this.onUnused = onUnused;
        this.subscriber = subscriber;
    }

    /**
     * Returns a Mono that creates a pending decision for each subscriber.
     *
     * @param onRequest gets the decision when the subscriber requests it, and for each retry
     * @param onUnused gets a decision that was charged although its subscriber has cancelled
     */
    public static Mono<StoreDecision> of(
            StoreRequest request, int slot, Consumer<PendingDecision> onRequest, Consumer<StoreDecision> onUnused) {
        return new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super StoreDecision> subscriber) {
                subscriber.onSubscribe(new PendingDecision(request, slot, onRequest, onUnused, subscriber));
            }
        };
    }

    void setNext(PendingDecision other) {
        next = other;
    }

    /** Returns the next decision of the group, and drops the reference to it. */
    @Nullable
    PendingDecision removeNext() {
        PendingDecision removed = next;
        next = null;
        return removed;
    }

    List<Claim> claims() {
        return request.claims();
    }

    /** Returns the hash slot of all its counts. */
    public int slot() {
        return slot;
    }

    Mode mode() {
        return request.mode();
    }

    int parts() {
        return request.parts();
    }

    /** Returns the latest time at which Redis may decide, by the clock of {@code Schedulers.parallel()}. */
    long deadline() {
        return request.deadline();
    }

    @Override
    public void request(long n) {
        if (Operators.validate(n) && stage == NEW && STAGE.compareAndSet(this, NEW, WAITING)) {
            onRequest.accept(this);
        }
    }

    @Override
    public void cancel() {
        stage = DONE;
    }

    void setQueue(BatchQueue joined) {
        queue = joined;
    }

    /** Joins the queue that it was added to last, as a task of its event loop. */
    @Override
    public void run() {
        Objects.requireNonNull(queue, "it joined none").enqueue(this);
    }

    void setRun(BatchQueue.Run joined) {
        run = joined;
    }

    BatchQueue.@Nullable Run joinedRun() {
        return run;
    }

    @Override
    public void askIfSilent(long time, TimeUnit unit, Consumer<Boolean> isSilent) {
        BatchQueue joined = queue;
        if (joined == null) {
            isSilent.accept(true);
        } else {
            joined.askIfSilent(unit.toNanos(time), this, isSilent);
        }
    }

    @Override
    public boolean runAfterReading(Runnable task) {
        BatchQueue joined = queue;
        return joined != null && joined.runAfterReading(task);
    }

    /** Marks the decision as sent; returns false if it was cancelled. */
    boolean markSent() {
        return STAGE.compareAndSet(this, WAITING, SENT);
    }

    /** Returns whether it is answered or cancelled. */
    boolean isDone() {
        return stage == DONE;
    }

    boolean mayRetry() {
        return retries < MOST_RETRIES;
    }

    /** Sends the decision again, if it was not cancelled: Redis has not executed it. */
    void retry() {
        retries++;
        if (STAGE.compareAndSet(this, SENT, WAITING)) {
            onRequest.accept(this);
        }
    }

    /** Emits the decision. Throws nothing, even if the subscriber does: other decisions of the batch follow. */
    void answer(StoreDecision decision) {
        if (markDone()) {
            try {
                subscriber.onNext(decision);
                subscriber.onComplete();
            } catch (Throwable e) {
                Dropped.report(e, subscriber.currentContext());
            }
        } else if (decision.isCharged()) {
            onUnused.accept(decision);
        }
    }

    /** Emits the error. Throws nothing, even if the subscriber does. */
    void fail(LimitStoreException error) {
        if (markDone()) {
            try {
                subscriber.onError(error);
            } catch (Throwable e) {
                Dropped.report(e, subscriber.currentContext());
            }
        }
    }

    private boolean markDone() {
        return STAGE.getAndSet(this, DONE) != DONE;
    }
}
