package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.internal.Bounds;
import java.time.Duration;
import java.time.Instant;

/** The table of kinds: what stores and waiting callers need of a limit, and users do not. No API. */
public enum LimitKind {
    /** {@link Limit.Log}. */
    LOG {
        @Override
        Count newCount() {
            return new LogCount();
        }

        @Override
        Numbers numbersOf(Limit limit, long now) {
            return new Numbers(1, millis(limit.window()), millis(limit.resolution()), 0, 0);
        }

        @Override
        long reachOf(Limit limit) {
            return millis(limit.window())
                    + millis(limit.resolution())
                    + (limit.isLeased() ? millis(limit.leaseTime()) : 0);
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return Limit.MOST_LOG_PERMITS;
        }

        @Override
        long leastTimeOf(Limit limit, long total) {
            return Math.max(0, total - 1) / limit.permits() * millis(limit.window());
        }
    },

    /** {@link Limit.Counter}. */
    COUNTER {
        @Override
        Count newCount() {
            return new CounterCount();
        }

        @Override
        Numbers numbersOf(Limit limit, long now) {
            return new Numbers(limit.isAlignedToClock() ? 3 : 2, millis(limit.window()), 1, 0, 0);
        }

        @Override
        long reachOf(Limit limit) {
            return 2 * millis(limit.window());
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return Bounds.MOST_EXACT / 2; // two windows are added
        }

        /** It may grant the permits of two windows at once: at the end of one and the start of the next. */
        @Override
        long leastTimeOf(Limit limit, long total) {
            return Math.max(0, Math.max(0, total - 1) / limit.permits() - 1) * millis(limit.window());
        }
    },

    /** {@link Limit.Bucket}. */
    BUCKET {
        @Override
        Count newCount() {
            return new BucketCount();
        }

        @Override
        Numbers numbersOf(Limit limit, long now) {
            return new Numbers(4, millis(limit.window()), limit.capacity(), 0, 0);
        }

        @Override
        long reachOf(Limit limit) {
            return millis(limit.quotaWindow());
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return Bounds.MOST_EXACT / millis(limit.window());
        }

        @Override
        long leastTimeOf(Limit limit, long total) {
            double windows = Math.max(0, total - limit.capacity()) / (double) limit.permits();
            return (long) (windows * millis(limit.window()) * (1 - 1e-9));
        }
    },

    /** {@link Limit.Concurrent}. */
    CONCURRENT {
        @Override
        Count newCount() {
            return new HoldCount();
        }

        @Override
        Numbers numbersOf(Limit limit, long now) {
            return new Numbers(5, millis(limit.holdTime()), 1, 0, 0);
        }

        @Override
        long reachOf(Limit limit) {
            return millis(limit.holdTime());
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return limit.permits();
        }

        /** A holder may release its permits at any time. */
        @Override
        long leastTimeOf(Limit limit, long total) {
            return 0;
        }
    },

    /** {@link Limit.Quota}. */
    QUOTA {
        @Override
        Count newCount() {
            return new QuotaCount();
        }

        /** The boundaries are those of the period of this time, and of the one that is nearer to it than others. */
        @Override
        Numbers numbersOf(Limit limit, long now) {
            if (now == 0) {
                return new Numbers(6, millis(limit.window()), 1, 0, 0);
            }
            Limit.Quota quota = (Limit.Quota) limit;
            long start = quota.periodStart(Instant.ofEpochMilli(now)).toEpochMilli();
            long end = quota.periodEnd(Instant.ofEpochMilli(now)).toEpochMilli();
            if (now < start + (end - start) / 2) {
                long before = quota.periodStart(Instant.ofEpochMilli(start - 1)).toEpochMilli();
                return new Numbers(6, before, start, end, limit.near());
            }
            long after = quota.periodEnd(Instant.ofEpochMilli(end)).toEpochMilli();
            return new Numbers(6, start, end, after, limit.near());
        }

        /** A zone may set its clocks. */
        @Override
        long reachOf(Limit limit) {
            return millis(limit.window().plusDays(1));
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return Bounds.MOST_EXACT;
        }

        /** It may grant the permits of two periods at once: at the end of one and the start of the next. */
        @Override
        long leastTimeOf(Limit limit, long total) {
            long others = Math.max(0, Math.max(0, total - 1) / limit.permits() - 1);
            return others * millis(limit.window()) / 2; // no period is shorter than half of the longest
        }
    },

    /** {@link Limit.Ban}. */
    BAN {
        @Override
        Count newCount() {
            return new BanCount();
        }

        @Override
        Numbers numbersOf(Limit limit, long now) {
            Limit.Ban ban = (Limit.Ban) limit;
            return new Numbers(7, millis(ban.within()), millis(ban.time()), 0, ban.isGrowing() ? 1 : 0);
        }

        /** A call may ban a key for a day. */
        @Override
        long reachOf(Limit limit) {
            return millis(limit.quotaWindow());
        }

        @Override
        long mostRecordedOf(Limit limit) {
            return 1;
        }

        /** A call may end it at any time. */
        @Override
        long leastTimeOf(Limit limit, long total) {
            return 0;
        }
    };

    /**
     * A limit in a request to a script; {@code wire.lua} has the numbers.
     *
     * @param kind the number of its kind
     * @param first its window or hold time, in milliseconds; of a quota, the first of three boundaries; of a ban, the
     *     window of the denials
     * @param second its burst if it is a token bucket, the second boundary of a quota, or the time of a ban in
     *     milliseconds; otherwise its resolution, in milliseconds
     * @param third the third boundary of a quota; otherwise 0
     * @param near the percentage at which a quota is near, and 1 for a ban that grows; otherwise 0
     */
    public record Numbers(int kind, long first, long second, long third, int near) {}

    /** Returns the kind of a limit. */
    static LimitKind of(Limit limit) {
        if (limit instanceof Limit.Log) {
            return LOG;
        } else if (limit instanceof Limit.Counter) {
            return COUNTER;
        } else if (limit instanceof Limit.Bucket) {
            return BUCKET;
        }
        if (limit instanceof Limit.Quota) {
            return QUOTA;
        }
        return limit instanceof Limit.Ban ? BAN : CONCURRENT;
    }

    /**
     * Returns the numbers by which the scripts of Redis know a limit, besides its permits.
     *
     * @param limit the limit
     * @param now the time of the store, as far as it is known, in milliseconds; 0 for a quota without boundaries
     * @return the numbers
     */
    public static Numbers numbers(Limit limit, long now) {
        return of(limit).numbersOf(limit, now);
    }

    /**
     * Returns the longest time for which a hit counts.
     *
     * @param limit the limit
     * @return the time in milliseconds: for a log, the window plus one slot and, if it is leased, the lease time; for a
     *     counter, two windows; for a token bucket, the time in which an empty one is filled; for a concurrency limit,
     *     the hold time; for a quota, a day more than its period; for a ban, the longest one
     */
    public static long reach(Limit limit) {
        return of(limit).reachOf(limit);
    }

    /**
     * Returns the most permits that a count can record, beyond the capacity because of settled costs.
     *
     * @param limit the limit
     * @return the number of permits
     */
    public static long mostRecorded(Limit limit) {
        return of(limit).mostRecordedOf(limit);
    }

    /**
     * Returns a lower bound of the time in which permits are granted, from the first on.
     *
     * @param limit the limit
     * @param total the number of permits
     * @return the time, in milliseconds
     */
    public static long leastTimeToGrant(Limit limit, long total) {
        return of(limit).leastTimeOf(limit, total);
    }

    abstract Count newCount();

    abstract Numbers numbersOf(Limit limit, long now);

    abstract long reachOf(Limit limit);

    abstract long mostRecordedOf(Limit limit);

    abstract long leastTimeOf(Limit limit, long total);

    private static long millis(Duration duration) {
        return duration.toMillis();
    }
}
