package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.BucketState;

/** A token bucket from which everything is taken that was granted, in the order of time. */
final class GrantedBucket {

    private final Limit limit;
    private BucketState state = new BucketState(0, 0);
    private long most;

    GrantedBucket(Limit limit) {
        this.limit = limit;
    }

    /** Takes permits at a time in milliseconds. */
    void take(long at, long permits) {
        state = new BucketState(state.at(limit, at).level() + BucketState.units(limit, permits), at);
        most = Math.max(most, state.used(limit));
    }

    /** Returns the highest level in permits, which is at most the burst if no interval had too many. */
    long most() {
        return most;
    }
}
