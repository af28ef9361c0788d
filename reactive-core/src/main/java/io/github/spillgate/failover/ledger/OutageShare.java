package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.Checks;
import java.util.OptionalDouble;
import org.jspecify.annotations.Nullable;

/**
 * The share of each limit that this instance may grant during an outage: the one that the user has set, or one that
 * follows from the use of the count and the number of instances.
 */
public final class OutageShare {
    // Design notes.
    //
    // If every instance granted its part of the use (its own permits over those of all), all of them together would
    // grant the limit once. But an instance knows the use of others only as of its own last reply, and a count with
    // three permits in use says little about which instance will use the next fifty. So each instance adds to the use
    // it knows a tenth of the limit, evenly spread over all instances: a new count is shared evenly, a busy one by its
    // use. With equal knowledge the shares still add up to one; those of a token bucket, about (BucketTraffic).

    /** The part of the limit that each instance adds to the use it knows, as if all instances used it evenly. */
    private static final double EVEN = 0.1;

    private volatile @Nullable Double fixed;

    public void set(double share) {
        fixed = Checks.share(share);
    }

    /** Returns the share that the user has set. */
    public OptionalDouble fixed() {
        Double set = fixed;
        return set == null ? OptionalDouble.empty() : OptionalDouble.of(set);
    }

    /** Returns the share of a limit that one of this many instances may grant. */
    public double of(Limit limit, int instances, Use use) {
        Double set = fixed;
        if (set != null) {
            return set;
        }
        if (instances <= 1) {
            return 1;
        }
        double even = EVEN * limit.capacity();
        return Math.min(1, (use.own + (use.unknown + even) / instances) / (Math.max(use.own, use.all) + even));
    }

    /**
     * The permits of a count that are in use as of the last reply; of a bucket, those that were taken lately.
     *
     * @param own the permits of this instance
     * @param all the permits of all instances
     * @param unknown how many of these may not have been taken
     */
    public record Use(double own, double all, double unknown) {}
}
