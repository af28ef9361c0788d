package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import java.util.ArrayDeque;
import java.util.Deque;

/** Everything that was granted under one limit, in the order of time. */
public final class GrantedPermits {

    private record Grant(long at, long permits) {}

    private final Limit limit;
    private final Deque<Grant> window = new ArrayDeque<>();
    private BucketState bucket = new BucketState(0, 0);
    private long inWindow;
    private long most;

    public GrantedPermits(Limit limit) {
        this.limit = limit;
    }

    /** Takes permits at a time in milliseconds. */
    public void take(long at, long permits) {
        if (limit instanceof Limit.Bucket) {
            bucket = new BucketState(bucket.at(limit, at).level() + BucketState.units(limit, permits), at);
            most = Math.max(most, bucket.used(limit));
            return;
        }
        window.add(new Grant(at, permits));
        inWindow += permits;
        while (window.getFirst().at <= at - limit.window().toMillis()) {
            inWindow -= window.remove().permits;
        }
        most = Math.max(most, inWindow);
    }

    /** Forgets what {@link #most()} was until now; permits that still count do so from now on, too. */
    void forgetMost() {
        most = 0;
    }

    /** Returns the most permits in any window, or the highest level of a token bucket. */
    public long most() {
        return most;
    }
}
