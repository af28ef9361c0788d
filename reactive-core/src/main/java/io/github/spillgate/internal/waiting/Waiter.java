package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * A caller that waits in a {@link WaitQueue} until its claims are taken. It joins the queue when it requests the
 * decision, and leaves it when it cancels.
 */
final class Waiter implements Subscription {

    private static final AtomicIntegerFieldUpdater<Waiter> STATE =
            AtomicIntegerFieldUpdater.newUpdater(Waiter.class, "state");

    private static final int NEW = 0;
    private static final int WAITING = 1;
    private static final int ENDED = 2;

    private final WaitQueues queues;

    /** Returns the same list until the limits are replaced. */
    private final Supplier<List<Claim>> currentClaims;

    private final CoreSubscriber<? super Decision> actual;
    private volatile int state;

    /** Owned by the queue, like the fields below, and changed if the limits are replaced. */
    List<Claim> claims;

    /** The longest wait from the time of joining a queue, in nanoseconds. */
    long longestWait;

    /** The context that the store sees if it is asked on behalf of this waiter. */
    final Context context;

    /** The current or last queue; read without a lock on cancellation. */
    volatile @Nullable WaitQueue queue;

    // Owned by the queue, and guarded by its monitor.

    @Nullable
    Waiter previous;

    @Nullable
    Waiter next;

    /** Whether it is in the list of its queue. */
    boolean isListed;

    /** The end of its longest wait. */
    long deadline;

    Waiter(
            WaitQueues queues,
            List<Claim> claims,
            Supplier<List<Claim>> currentClaims,
            long longestWait,
            CoreSubscriber<? super Decision> actual) {
        this.queues = queues;
        this.claims = claims;
        this.currentClaims = currentClaims;
        this.longestWait = longestWait;
        this.actual = actual;
        this.context = actual.currentContext();
    }

    @Override
    public void request(long n) {
        if (Operators.validate(n) && STATE.compareAndSet(this, NEW, WAITING)) {
            queues.join(this);
            if (state == ENDED) {
                // It may have been cancelled before it was in the queue, when "leave" had no effect.
                leave();
            }
        }
    }

    @Override
    public void cancel() {
        if (STATE.getAndSet(this, ENDED) == WAITING) {
            leave();
        }
    }

    /** Emits a decision that took the claims. Returns false if the waiter is cancelled, so that it is not emitted. */
    boolean grant(Decision decision) {
        if (!STATE.compareAndSet(this, WAITING, ENDED)) {
            return false;
        }
        actual.onNext(decision);
        actual.onComplete();
        return true;
    }

    /** Emits a denial: the wait would be too long, or no place is free. */
    void deny(Decision decision) {
        grant(decision);
    }

    /** Emits an error: no decision can be made. */
    void fail(Throwable error) {
        if (STATE.compareAndSet(this, WAITING, ENDED)) {
            actual.onError(error);
        }
        // Otherwise it was cancelled. The error is not dropped: all other waiters of the queue get it too.
    }

    /** Returns whether the waiter is cancelled, or has its decision. */
    boolean isEnded() {
        return state == ENDED;
    }

    /** Returns whether the limits were replaced since the claims were created. */
    boolean isOutdated() {
        try {
            return claims != currentClaims.get();
        } catch (IllegalArgumentException e) {
            return true;
        }
    }

    /**
     * Returns the claims under the current limits.
     *
     * @throws IllegalArgumentException if there are none, because the charges cannot be combined under these limits
     */
    List<Claim> renewedClaims() {
        return currentClaims.get();
    }

    /** Removes this waiter from its queue, if it is in one. */
    void leave() {
        WaitQueue current = queue;
        if (current != null) {
            current.leave(this);
        }
    }

    /** Returns whether both waiters' claims are on the same limits. */
    boolean hasSameLimitsAs(Waiter other) {
        for (int i = 0; i < claims.size(); i++) {
            if (!claims.get(i).limit().equals(other.claims.get(i).limit())) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether a decision on those claims is a decision on the claims of this waiter. */
    boolean requestsSameAs(List<Claim> others) {
        if (claims == others) {
            return true;
        }
        for (int i = 0; i < claims.size(); i++) {
            Claim mine = claims.get(i);
            Claim other = others.get(i);
            if (mine.permits() != other.permits() || !mine.limit().equals(other.limit())) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether the claims of this waiter cannot fit before those claims fit. */
    boolean requestsAtLeast(List<Claim> others) {
        for (int i = 0; i < claims.size(); i++) {
            Claim mine = claims.get(i);
            Claim other = others.get(i);
            if (mine.permits() < other.permits() || !mine.limit().equals(other.limit())) {
                return false;
            }
        }
        return true;
    }
}
