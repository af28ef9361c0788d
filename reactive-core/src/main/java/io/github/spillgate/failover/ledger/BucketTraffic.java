package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.LimitKind;

/**
 * How many permits of a token bucket were taken lately: by this instance, and about how many by all, as of the newest
 * reply of the primary store. Guarded by the monitor of its {@link RateLedger}.
 */
final class BucketTraffic {
    // Design notes.
    //
    // The level of a bucket does not show which instances use it: permits return at the rate, whichever took them.
    // So the share of an instance follows from what was taken. A permit counts e^(-t/T), where t is the time since it
    // was taken, and T is the time in which the bucket is filled: then steady traffic at the rate adds up to the burst.
    //
    // What others have taken shows in the level, but for permits that were taken and returned between two replies. So
    // all that can have returned counts as taken. As long as the level shows that the bucket was not empty, that much
    // has returned. For the rest of the time it is unknown: of a bucket that is seldom used, nearly all is. Half of
    // what is unknown is shared evenly. With all of it, instances that use half of the rate would share much more than
    // the limit; without it, a key with a page load a minute would keep only a small part of its burst.
    //
    // Of the time before the first reply only the level is known. The own permits begin to add up then, too. After a
    // loss, the level includes what was lost.

    /** What this instance has taken lately, as of the newest reply. */
    private double own;

    /** What all instances have taken lately, as of the newest reply. */
    private double all;

    /** The part of {@code all} that may not have been taken. */
    private double unknown;

    /** Whether there was a reply. */
    private boolean isKnown;

    /** The level in the newest reply, without what was refunded since. */
    private double level;

    /** The server's time of the newest reply. */
    private long at;

    /** Records the level in a reply, in permits. */
    void replied(Limit limit, long newLevel, long repliedAt) {
        double rise = newLevel - level;
        if (isKnown) {
            double passed = Math.max(0, repliedAt - at);
            double rest = rest(limit, passed);
            double returning = Math.max(0, passed - Math.max(0, -rise) * millisPerPermit(limit));
            double perhapsEmpty = Math.max(0, passed - level * millisPerPermit(limit));
            own *= rest;
            all = all * rest + limit.capacity() * (1 - rest(limit, returning)) + Math.max(0, rise);
            unknown = unknown * rest + limit.capacity() * (1 - rest(limit, perhapsEmpty));
        } else {
            all = newLevel;
        }
        isKnown = true;
        level = newLevel;
        at = repliedAt;
    }

    private static double millisPerPermit(Limit limit) {
        return (double) limit.window().toMillis() / limit.permits();
    }

    /** Records permits that this instance has taken. */
    void took(Limit limit, long permits, long takenAt) {
        own += permits * rest(limit, (double) Math.max(0, at - takenAt));
    }

    /** Records that permits of this instance were refunded. */
    void refunded(Limit limit, long permits, long takenAt) {
        double less = permits * rest(limit, (double) Math.max(0, at - takenAt));
        own = Math.max(0, own - less);
        all = Math.max(0, all - less);
        level = Math.max(0, level - permits);
    }

    /** Returns what is left of the weight of a permit after a time. */
    private static double rest(Limit limit, double millis) {
        return Math.exp(-millis / LimitKind.reach(limit));
    }

    /** Returns what was taken lately. Of what is unknown, half is shared. */
    OutageShare.Use use() {
        return new OutageShare.Use(own, Math.max(own + unknown, all), unknown / 2);
    }
}
