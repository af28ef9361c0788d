package io.github.spillgate.internal.fleet;

import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.FleetExchange;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** The number of instances of each limiter, in all processes that use the same store. Thread-safe. */
public final class Instances {
    // Design notes.
    //
    // A number that is too low lets the instances grant more than the limit during an outage; one that is too high lets
    // them grant less. So a higher number counts at once, and a lower one only when no registration can be missing any
    // more: after an outage all of them have expired in the store, and the first instance that is back finds itself
    // alone. During the outage itself the last number stays.

    /** How long a process is registered. */
    static final Duration LIFETIME = Duration.ofSeconds(20);

    private static final long NEVER = Long.MIN_VALUE;

    private final ConcurrentHashMap<String, Group> byLimiter = new ConcurrentHashMap<>();

    /** The highest number of instances of any limiter. */
    private volatile int highest = 1;

    Instances() {}

    /** Returns the instances of a limiter. Beyond a bound, the highest number of any of the others counts. */
    public Group of(String limiter) {
        Group known = byLimiter.get(limiter);
        if (known != null) {
            return known;
        }
        return byLimiter.size() < FleetExchange.MOST_NAMES
                ? byLimiter.computeIfAbsent(limiter, name -> new Group())
                : new Group();
    }

    /** Notes how many instances of each limiter the store has counted. */
    void counted(List<String> limiters, List<Integer> numbers) {
        for (int i = 0; i < numbers.size(); i++) {
            of(limiters.get(i)).counted(numbers.get(i));
        }
        highest = byLimiter.values().stream()
                .mapToInt(group -> group.number)
                .max()
                .orElse(1);
    }

    /** Notes that the store has not replied: while it does not, registrations expire. */
    void notCounted() {
        byLimiter.values().forEach(Group::notCounted);
    }

    /** The instances of one limiter. */
    public final class Group {

        private volatile int number;

        /** The time since which fewer instances are registered than this number. */
        private long fewerSince = NEVER;

        private Group() {}

        /** Returns how many there are, as far as is known; 1 if this process has never registered. */
        public int number() {
            int known = number;
            return known == 0 ? Math.max(1, highest) : known;
        }

        private synchronized void notCounted() {
            fewerSince = NEVER;
        }

        private synchronized void counted(int counted) {
            long now = Time.nanos();
            if (counted < number && fewerSince == NEVER) {
                fewerSince = now;
            } else if (counted >= number || now - fewerSince > LIFETIME.toNanos()) {
                fewerSince = NEVER;
                number = counted;
            }
        }
    }
}
