package io.github.spillgate.spi;

import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * What a process tells a store of itself, and what it publishes; see {@link LimitStore#exchange}.
 *
 * @param instance the process, unique among all
 * @param lifetime how long it counts as an instance of its limiters, up to a minute; zero if it ends now
 * @param limiters the names of its limiters, at most {@value #MOST_NAMES} of them and one more; no two equal. A process
 *     with more than {@value #MOST_NAMES} counts as an instance of every limiter
 * @param known the {@linkplain FleetReply#version() version} of all values that it knows; 0 for none
 * @param restored values that were published earlier: the store puts back those that it has lost
 * @param published a value to publish; null for none. Its version is the one that the store must have for its name
 */
public record FleetExchange(
        UUID instance,
        Duration lifetime,
        List<String> limiters,
        long known,
        List<Value> restored,
        @Nullable Value published) {

    /** The highest number of limiters of a process of which the instances are counted. */
    public static final int MOST_NAMES = 1_000;

    /** The number of instances that a store reports if it cannot keep all of them. */
    public static final int TOO_MANY = 10_000;

    /**
     * A published value.
     *
     * @param name the name of what it is for, at most 200 ASCII characters
     * @param version its version, a positive number; each later one is higher
     * @param until the time until which the store keeps it, in milliseconds of its clock
     * @param content the value; a store does not read it
     */
    public record Value(String name, long version, long until, String content) {}

    /** What became of the value to publish. */
    public enum PublishOutcome {
        /** There was none. */
        NONE,

        /** It is published, with the version of the reply. */
        PUBLISHED,

        /** The store has another version for its name, and has not published it. */
        CONFLICT,

        /** The store has no room for it, or a foreign value in its place, and has not published it. */
        REFUSED
    }

    /**
     * The reply.
     *
     * @param micros the clock of the store, in microseconds since 1970
     * @param instances the number of instances of each limiter, in their order; empty if a foreign value is in their
     *     place
     * @param version the version of all values, which grows with each change; 0 for none
     * @param outcome what became of the value to publish
     * @param values all values, if the version is not the known one, or there was a value to publish; else null
     */
    public record FleetReply(
            long micros,
            List<Integer> instances,
            long version,
            PublishOutcome outcome,
            @Nullable List<Value> values) {}
}
