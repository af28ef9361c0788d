package io.github.spillgate.redis;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/**
 * A decision that somebody has asked for, from the request to the answer. It is answered once, or not at all, if he who
 * asked has left.
 */
final class PendingDecision implements Subscription {

    private static final AtomicIntegerFieldUpdater<PendingDecision> STAGE =
            AtomicIntegerFieldUpdater.newUpdater(PendingDecision.class, "stage");

    /** The deadline of a decision without one. */
    static final long NO_DEADLINE = Long.MAX_VALUE;

    /** If the server's clock jumps with each reply, no retry helps. */
    private static final int MOST_RETRIES = 3;

    private static final int NEW = 0;
    private static final int WAITS = 1;
    private static final int SENT = 2;
    private static final int DONE = 3;

    private final List<Claim> claims;
    private final int slot;
    private final boolean takes;
    private final long deadline;
    private final Consumer<PendingDecision> begin;
    private final CoreSubscriber<? super Decision> asker;
    private volatile int stage;

    /** How often it was sent again; written by the thread that has its reply. */
    private int retries;

    /** The next who asks the very same, where they are decided together; each batch has its own, and asks once. */
    private @Nullable PendingDecision nextOfSame;

    private PendingDecision(
            List<Claim> claims,
            int slot,
            boolean takes,
            long deadline,
            Consumer<PendingDecision> begin,
            CoreSubscriber<? super Decision> asker) {
        this.claims = claims;
        this.slot = slot;
        this.takes = takes;
        this.deadline = deadline;
        this.begin = begin;
        this.asker = asker;
    }

    /** A decision for each subscriber, for which something begins when he requests it. */
    static Mono<Decision> by(
            List<Claim> claims, int slot, boolean takes, long deadline, Consumer<PendingDecision> begin) {
        return new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super Decision> asker) {
                asker.onSubscribe(new PendingDecision(claims, slot, takes, deadline, begin, asker));
            }
        };
    }

    void nextOfSame(PendingDecision next) {
        nextOfSame = next;
    }

    /** The next one, who is then no more held by this. */
    @Nullable
    PendingDecision takeNextOfSame() {
        PendingDecision next = nextOfSame;
        nextOfSame = null;
        return next;
    }

    List<Claim> claims() {
        return claims;
    }

    /** Where all of its counts are. */
    int slot() {
        return slot;
    }

    boolean takes() {
        return takes;
    }

    /** The last moment at which Redis may decide, by the clock of {@code Schedulers.parallel()}. */
    long deadline() {
        return deadline;
    }

    @Override
    public void request(long n) {
        if (Operators.validate(n) && stage == NEW && STAGE.compareAndSet(this, NEW, WAITS)) {
            begin.accept(this);
        }
    }

    @Override
    public void cancel() {
        stage = DONE;
    }

    /** Leaves for Redis; returns false if nobody waits for it any more. */
    boolean leaves() {
        return STAGE.compareAndSet(this, WAITS, SENT);
    }

    /** Returns whether it may be sent again. */
    boolean mayRetry() {
        return retries < MOST_RETRIES;
    }

    /** Sends the decision again, if its caller still waits: Redis has not executed it. */
    void retry() {
        retries++;
        if (STAGE.compareAndSet(this, SENT, WAITS)) {
            begin.accept(this);
        }
    }

    /** Answers, and throws nothing, whatever he does who has asked: there may be others who wait for their answers. */
    void answer(Decision decision) {
        if (isAnsweredNow()) {
            try {
                asker.onNext(decision);
                asker.onComplete();
            } catch (Throwable e) {
                drop(e);
            }
        }
    }

    /** Tells that there is no answer, and throws nothing. */
    void fail(LimitStoreException why) {
        if (isAnsweredNow()) {
            try {
                asker.onError(why);
            } catch (Throwable e) {
                drop(e);
            }
        }
    }

    private boolean isAnsweredNow() {
        return STAGE.getAndSet(this, DONE) != DONE;
    }

    private void drop(Throwable thrown) {
        try {
            Operators.onErrorDropped(thrown, asker.currentContext());
        } catch (Throwable e) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }
}
