package io.github.spillgate;

import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;

/** Somebody who waits in a {@link Line} until his claims are taken. */
abstract class Waiter {

    /** Of one who waits for as long as it takes. */
    static final long FOREVER = Long.MAX_VALUE;

    final List<Claim> claims;

    /** For how long he wants to wait, in nanoseconds. */
    final long patience;

    /** What a store gets to see when it is asked for him. */
    final Context context;

    /** Where he stands, or has stood; read without a lock by him who leaves. */
    volatile @Nullable Line line;

    // The line's, guarded by its monitor.
    @Nullable
    Waiter ahead;

    @Nullable
    Waiter behind;

    boolean inRow;
    long until;

    Waiter(List<Claim> claims, long patience, Context context) {
        this.claims = claims;
        this.patience = patience;
        this.context = context;
    }

    /** His claims are taken. Returns false if he has gone meanwhile; then they are somebody else's. */
    abstract boolean granted(Decision decision);

    /** He would have to wait for too long, or there is no place for him. */
    abstract void denied(Decision decision);

    /** Nobody can decide. */
    abstract void failed(Throwable error);

    /** Lets him go, wherever he stands. */
    final void leave() {
        Line in = line;
        if (in != null) {
            in.leave(this);
        }
    }

    /** Returns whether his permits are counted against the same limits as the other's. */
    final boolean hasTheLimitsOf(Waiter other) {
        for (int i = 0; i < claims.size(); i++) {
            if (!claims.get(i).limit().equals(other.claims.get(i).limit())) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether a decision on those claims would do for him. */
    final boolean asksTheSameAs(List<Claim> others) {
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

    /** Returns whether he cannot be served before those claims could. */
    final boolean asksNoLessThan(List<Claim> others) {
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
