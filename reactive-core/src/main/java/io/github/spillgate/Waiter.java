package io.github.spillgate;

import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;

/** A caller that waits in a {@link WaitQueue} until its claims are taken. */
abstract class Waiter {

    /** A longest wait without a bound. */
    static final long FOREVER = Long.MAX_VALUE;

    private final Supplier<List<Claim>> currentClaims;

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

    boolean isListed;
    long deadline;

    /**
     * Creates a waiter.
     *
     * @param claims the claims
     * @param currentClaims returns the same list until the limits are replaced
     * @param longestWait the longest wait, in nanoseconds
     * @param context the context that the store sees
     */
    Waiter(List<Claim> claims, Supplier<List<Claim>> currentClaims, long longestWait, Context context) {
        this.claims = claims;
        this.currentClaims = currentClaims;
        this.longestWait = longestWait;
        this.context = context;
    }

    /** Passes on a decision that took the claims. Returns false if the waiter is cancelled, and does not use it. */
    abstract boolean grant(Decision decision);

    /** Denies: the wait would be too long, or no place is free. */
    abstract void deny(Decision decision);

    /** Fails: no decision can be made. */
    abstract void fail(Throwable error);

    /** Returns whether the waiter is cancelled, or has its decision. */
    abstract boolean isEnded();

    /** Returns whether the limits were replaced since the claims were created. */
    final boolean isOutdated() {
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
    final List<Claim> renewedClaims() {
        return currentClaims.get();
    }

    /** Removes this waiter from its queue, if it is in one. */
    final void leave() {
        WaitQueue current = queue;
        if (current != null) {
            current.leave(this);
        }
    }

    /** Returns whether both waiters' claims are on the same limits. */
    final boolean hasSameLimitsAs(Waiter other) {
        for (int i = 0; i < claims.size(); i++) {
            if (!claims.get(i).limit().equals(other.claims.get(i).limit())) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether a decision on those claims is a decision on the claims of this waiter. */
    final boolean requestsSameAs(List<Claim> others) {
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
    final boolean requestsAtLeast(List<Claim> others) {
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
