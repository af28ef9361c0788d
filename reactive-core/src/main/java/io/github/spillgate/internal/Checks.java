package io.github.spillgate.internal;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Checks for null, with messages that say what was expected. */
public final class Checks {

    private static final Duration MINUTE = Duration.ofMinutes(1);

    private Checks() {}

    /**
     * Returns the value if it is not null.
     *
     * @param <T> the type of the value
     * @param value the value
     * @param what the name of the value
     * @param example an example of a value, as in code
     * @return the value
     * @throws NullPointerException if it is null
     */
    public static <T> T present(@Nullable T value, String what, String example) {
        if (value == null) {
            throw isNull(what, example);
        }
        return value;
    }

    private static NullPointerException isNull(String what, String example) {
        return new NullPointerException(what + " is null: expected one, for example " + example);
    }

    /**
     * Returns the value if it is not null, for a value with a name in the plural.
     *
     * @param <T> the type of the value
     * @param value the value
     * @param what the name of the value, such as {@code rules}
     * @param example an example of a value, as in code
     * @return the value
     * @throws NullPointerException if it is null
     */
    public static <T> T some(@Nullable T value, String what, String example) {
        if (value == null) {
            throw areNull(what, example);
        }
        return value;
    }

    private static NullPointerException areNull(String what, String example) {
        return new NullPointerException(what + " are null: expected some, for example " + example);
    }

    /**
     * Returns a copy of the collection if neither it nor an element is null.
     *
     * @param <T> the type of the elements
     * @param values the collection
     * @param what the name of the collection
     * @param example an example of an element, as in code
     * @return the copy
     * @throws NullPointerException if the collection or an element is null
     */
    public static <T> List<T> allPresent(@Nullable Collection<? extends T> values, String what, String example) {
        // This runs for each decision, so the messages are built only if they are needed.
        if (values == null) {
            throw areNull(what, "List.of(" + example + ")");
        }
        try {
            return List.copyOf(values);
        } catch (NullPointerException e) {
            throw isNull("one of the " + what, example);
        }
    }

    /**
     * Returns a number of permits.
     *
     * @param permits the number
     * @return the same number
     * @throws IllegalArgumentException if it is negative
     */
    public static long permits(long permits) {
        if (permits < 0) {
            throw new IllegalArgumentException(
                    "permits " + permits + " are negative: expected 0 or more, for example 1");
        }
        return permits;
    }

    /**
     * Returns a cost in permits.
     *
     * @param cost the cost
     * @return the same cost
     * @throws IllegalArgumentException if it is negative
     */
    public static long cost(long cost) {
        if (cost < 0) {
            throw new IllegalArgumentException("cost " + cost + " is negative: expected 0 or more, for example 5");
        }
        return cost;
    }

    /**
     * Returns the longest time for a decision.
     *
     * @param deadline the time
     * @return the same time
     * @throws IllegalArgumentException if it is less than 1 ms or more than a minute
     */
    public static Duration deadline(Duration deadline) {
        if (deadline.compareTo(Duration.ofMillis(1)) < 0 || deadline.compareTo(MINUTE) > 0) {
            throw new IllegalArgumentException("deadline " + deadline
                    + " is out of range: expected at least 1 ms and at most a minute, for example 100 ms");
        }
        return deadline;
    }

    /**
     * Returns the longest time for which a denial is cached.
     *
     * @param longest the time
     * @return the same time
     * @throws IllegalArgumentException if it is negative, or more than a minute
     */
    public static Duration cacheDenials(Duration longest) {
        if (longest.isNegative() || longest.compareTo(MINUTE) > 0) {
            throw new IllegalArgumentException("cacheDenials " + longest
                    + " is out of range: expected zero, which disables the cache, or more, and at most a minute, for"
                    + " example 1 s");
        }
        return longest;
    }

    /**
     * Returns a share of a limit.
     *
     * @param share the share
     * @return the same share
     * @throws IllegalArgumentException if it is not more than 0 and at most 1
     */
    public static double share(double share) {
        if (!(share > 0 && share <= 1)) {
            throw new IllegalArgumentException("share " + share
                    + " is not a part of a limit: expected more than 0 and at most 1, for example 0.25 for "
                    + "four instances");
        }
        return share;
    }
}
