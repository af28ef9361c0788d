package io.github.spillgate.failover;

import io.github.spillgate.Limit;

/**
 * How many permits of a token bucket were taken lately, by this instance and at most by all, as of the newest reply of
 * the primary store. Guarded by the monitor of its {@link RateLedger}.
 */
final class BucketTraffic {
    // Design notes.
    //
    // The level of a bucket does not show who uses it: permits return at the rate of the limit, whoever has taken them.
    // So the share of an instance follows from what was taken. A permit counts e^(-t/T), where t is the time since it
    // was taken, and T is the time in which the bucket is filled: then steady traffic at the rate adds up to the burst.
    //
    // A reply shows the level, and not what others have taken and has returned since the reply before. So all that can
    // have returned counts as taken, at the latest time that is possible. That is exact as long as the bucket is never
    // empty. If it is, the shares of all instances add up to less than the limit. With a lower bound they would add up
    // to more: instances that take turns do not see what the others take. Of the time before the first reply only the
    // level is known; but then the own permits begin to add up at that time too.

    private double own;
    private double all;

    private boolean isKnown;
    private double level;
    private long at;

    /** Records the level in a reply, in permits. */
    void replied(Limit limit, long newLevel, long repliedAt) {
        double rise = newLevel - level;
        if (isKnown) {
            double passed = Math.max(0, repliedAt - at);
            double falling = Math.max(0, -rise) * limit.window().toMillis() / limit.permits();
            own *= rest(limit, passed);
            all = all * rest(limit, passed)
                    + limit.burst() * (1 - rest(limit, Math.max(0, passed - falling)))
                    + Math.max(0, rise);
        } else {
            all = newLevel;
        }
        isKnown = true;
        level = newLevel;
        at = repliedAt;
    }

    /** Records permits that this instance has taken. */
    void took(Limit limit, long permits, long takenAt) {
        own += permits * rest(limit, (double) Math.max(0, at - takenAt));
    }

    /** Returns what is left of the weight of a permit after a time. */
    private static double rest(Limit limit, double millis) {
        return Math.exp(-millis / limit.reach().toMillis());
    }

    double own() {
        return own;
    }

    double all() {
        return Math.max(own, all);
    }
}
