package io.github.spillgate;

import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * So many permits in any window of so long.
 *
 * <p>A limit is a value: immutable, valid once it exists, and equal to every other limit that says the same. It starts as an
 * exact {@linkplain Algorithm#LOG log}; {@link #counter()} trades exactness for constant memory. The methods that change one
 * thing return a new limit.
 *
 * <pre>{@code
 * Limit.perMinute(120)
 * Limit.of(3_000, Duration.ofMinutes(10)).named("sustained")
 * Limit.perDay(10_000).counter().alignedToClock()
 * Limit.parse("10000/24h counter aligned")
 * }</pre>
 *
 * <h2>The text form</h2>
 *
 * {@code permits/window}, then any of these words, in any order:
 *
 * <table>
 * <caption>Words after the permits and the window</caption>
 * <tr><th>word</th><th>meaning</th></tr>
 * <tr><td>{@code log}, {@code counter}</td><td>the algorithm; {@code log} where neither is said</td></tr>
 * <tr><td>{@code aligned}</td><td>{@link #alignedToClock()}; of a counter only</td></tr>
 * <tr><td>{@code resolution=10ms}</td><td>{@link #resolution(Duration)}; of a log only</td></tr>
 * <tr><td>{@code counting-denied}</td><td>{@link #countingDenied()}</td></tr>
 * <tr><td>{@code name=burst}</td><td>{@link #named(String)}</td></tr>
 * </table>
 *
 * The window is a number and one of {@code ms}, {@code s}, {@code m}, {@code h}, {@code d}; without a number it is one of
 * them, as in {@code 10/s}. {@link #toString()} writes this form, and {@link #parse(String)} reads it back to an equal limit.
 */
public final class Limit {

    /** The most entries that a log ever holds for one key. */
    public static final int MOST_LOG_ENTRIES = 10_000;

    /** The most permits that a log counts: what four bytes hold. */
    public static final long MOST_LOG_PERMITS = 0xffff_ffffL;

    /** The most permits that a counter counts; sums of a few of them are still exact in the doubles that scripts count in. */
    public static final long MOST_COUNTER_PERMITS = 1_000_000_000_000_000L;

    /** The longest window. */
    public static final Duration LONGEST_WINDOW = Duration.ofDays(366);

    private static final String EXAMPLE = "\"100/1m\" or \"10000/24h counter\"";

    private final String name;
    private final long permits;
    private final long windowMillis;
    private final Algorithm algorithm;
    private final long resolutionMillis;
    private final boolean aligned;
    private final boolean countingDenied;
    private final String identity;
    private final Duration window;
    private final Duration resolution;

    private Limit(
            @Nullable String name,
            long permits,
            long windowMillis,
            Algorithm algorithm,
            long resolutionMillis,
            boolean aligned,
            boolean countingDenied) {
        this.name = name == null ? Durations.format(windowMillis) : name;
        this.permits = permits;
        this.windowMillis = windowMillis;
        this.algorithm = algorithm;
        this.resolutionMillis = resolutionMillis;
        this.aligned = aligned;
        this.countingDenied = countingDenied;
        // Made once: every decision asks for them.
        this.window = Duration.ofMillis(windowMillis);
        this.resolution = Duration.ofMillis(resolutionMillis);
        this.identity = switch (algorithm) {
            case LOG -> this.name + ":L" + windowMillis + "." + resolutionMillis;
            case COUNTER -> this.name + (aligned ? ":A" : ":C") + windowMillis;
        };
    }

    /**
     * So many permits in any window of so long, counted by an exact log.
     *
     * @param permits at least 1, at most {@link #MOST_LOG_PERMITS}; a {@link #counter(long, Duration) counter} takes more
     * @param window whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @return the limit, named after its window
     * @throws IllegalArgumentException if either is out of its range
     */
    public static Limit of(long permits, Duration window) {
        long windowMillis = checkWindow(window);
        checkPermits(permits, MOST_LOG_PERMITS, "a log (a counter takes more)");
        return new Limit(
                null, permits, windowMillis, Algorithm.LOG, defaultResolution(permits, windowMillis), false, false);
    }

    /**
     * So many permits in a window of so long, counted by a {@linkplain Algorithm#COUNTER counter}.
     *
     * @param permits at least 1, at most {@link #MOST_COUNTER_PERMITS}
     * @param window whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @return the limit, named after its window
     * @throws IllegalArgumentException if either is out of its range
     */
    public static Limit counter(long permits, Duration window) {
        long windowMillis = checkWindow(window);
        checkPermits(permits, MOST_COUNTER_PERMITS, "a counter");
        return new Limit(null, permits, windowMillis, Algorithm.COUNTER, 1, false, false);
    }

    /**
     * So many permits in any second.
     *
     * @param permits as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perSecond(long permits) {
        return of(permits, Duration.ofSeconds(1));
    }

    /**
     * So many permits in any minute.
     *
     * @param permits as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perMinute(long permits) {
        return of(permits, Duration.ofMinutes(1));
    }

    /**
     * So many permits in any hour.
     *
     * @param permits as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perHour(long permits) {
        return of(permits, Duration.ofHours(1));
    }

    /**
     * So many permits in any 24 hours.
     *
     * @param permits as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perDay(long permits) {
        return of(permits, Duration.ofDays(1));
    }

    /**
     * Reads the text form, see above.
     *
     * @param text for example {@code 100/1m} or {@code 10000/24h counter}
     * @return the limit that it means
     * @throws IllegalArgumentException if it means none; the message names the text and what was expected
     */
    public static Limit parse(String text) {
        Checks.present(text, "limit", EXAMPLE);
        try {
            return LimitText.parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "limit " + Text.quote(text) + " cannot be read: " + e.getMessage() + "; for example " + EXAMPLE, e);
        }
    }

    /**
     * The same permits and window, counted by a {@linkplain Algorithm#COUNTER counter} whose windows follow one another from
     * the first hit.
     *
     * @return the limit
     */
    public Limit counter() {
        return new Limit(name, permits, windowMillis, Algorithm.COUNTER, 1, aligned, countingDenied);
    }

    /**
     * The same counter with its windows on the clock: those of {@code 24h} start at midnight UTC, those of {@code 1m} with the
     * minute.
     *
     * @return the limit
     * @throws IllegalStateException if this limit is no counter
     */
    public Limit alignedToClock() {
        if (algorithm != Algorithm.COUNTER) {
            throw new IllegalStateException("limit " + Text.quote(toString())
                    + " is a log, which has no windows to align: expected a counter, for example"
                    + " Limit.perDay(10_000).counter().alignedToClock()");
        }
        return new Limit(name, permits, windowMillis, algorithm, 1, true, countingDenied);
    }

    /**
     * The same log with time cut into slots of this length. Hits of one slot share an entry, and leave when the end of their
     * slot is one window old: a coarser resolution costs less memory and errs towards denying, by one slot at most.
     *
     * <p>By default the resolution is 1 ms, or, where that could make more than {@link #MOST_LOG_ENTRIES} entries, the finest
     * that cannot. It is part of the {@linkplain Claim#identity() identity}: to raise permits across that bound and keep the
     * history, say the resolution.
     *
     * @param resolution whole milliseconds, at most the window, and not so fine that the log could hold more than
     *     {@link #MOST_LOG_ENTRIES} entries
     * @return the limit
     * @throws IllegalArgumentException if the resolution is out of that range
     * @throws IllegalStateException if this limit is no log
     */
    public Limit resolution(Duration resolution) {
        if (algorithm != Algorithm.LOG) {
            throw new IllegalStateException("limit " + Text.quote(toString())
                    + " is a counter, which has no resolution: expected a log, for example"
                    + " Limit.perDay(1_000_000).resolution(Duration.ofMinutes(1))");
        }
        long millis = wholeMillis("resolution", resolution, "Duration.ofMillis(10)");
        long finest = defaultResolution(permits, windowMillis);
        if (millis < finest || millis > windowMillis) {
            throw new IllegalArgumentException("resolution " + resolution + " does not suit " + permits + " permits in "
                    + Durations.format(windowMillis) + ": expected from " + Durations.format(finest)
                    + " (so that no log holds more than " + MOST_LOG_ENTRIES + " entries) to the window, for example "
                    + "Duration.ofMillis(" + Math.max(finest, windowMillis / 1_000) + ")");
        }
        return new Limit(name, permits, windowMillis, algorithm, millis, false, countingDenied);
    }

    /**
     * The same limit, under which a denied decision counts too, so that a client who does not let up stays out. Only as much is
     * recorded as that takes: what is used never passes the permits because of it.
     *
     * @return the limit
     */
    public Limit countingDenied() {
        return new Limit(name, permits, windowMillis, algorithm, resolutionMillis, aligned, true);
    }

    /**
     * The same limit under a name of its own. Without one a limit is named after its window, such as {@code 1m}. The name is
     * part of the {@linkplain Claim#identity() identity}, and is what headers and metrics call the limit.
     *
     * @param name 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}
     * @return the limit
     * @throws IllegalArgumentException if the name has other characters, or too many
     */
    public Limit named(String name) {
        return new Limit(
                Names.check("limit name", name, "\"burst\""),
                permits,
                windowMillis,
                algorithm,
                resolutionMillis,
                aligned,
                countingDenied);
    }

    /**
     * Returns what this limit is called.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns how many permits a window holds.
     *
     * @return the permits, at least 1
     */
    public long permits() {
        return permits;
    }

    /**
     * Returns how long a window is.
     *
     * @return the window, whole milliseconds
     */
    public Duration window() {
        return window;
    }

    /**
     * Returns how this limit counts.
     *
     * @return the algorithm
     */
    public Algorithm algorithm() {
        return algorithm;
    }

    /**
     * Returns the length of a slot of a log; for a counter, 1 ms, the tick of its clock.
     *
     * @return the resolution, whole milliseconds
     */
    public Duration resolution() {
        return resolution;
    }

    /**
     * Returns whether the windows of a counter lie on the clock.
     *
     * @return true after {@link #alignedToClock()}
     */
    public boolean isAlignedToClock() {
        return aligned;
    }

    /**
     * Returns whether denied decisions count too.
     *
     * @return true after {@link #countingDenied()}
     */
    public boolean isCountingDenied() {
        return countingDenied;
    }

    /**
     * Returns for how long a hit counts at most.
     *
     * @return for a log, the window and the slot that the hit fell into; for a counter, two windows
     */
    public Duration reach() {
        return Duration.ofMillis(algorithm == Algorithm.LOG ? windowMillis + resolutionMillis : 2 * windowMillis);
    }

    long windowMillis() {
        return windowMillis;
    }

    /** Everything of this limit that tells one count from another: all but the permits and what is recorded of denials. */
    String identity() {
        return identity;
    }

    static long defaultResolution(long permits, long windowMillis) {
        // One slot more than fit into a window can be live at once, and a window may end within a slot: w/r + 2
        // rounded down.
        return permits <= MOST_LOG_ENTRIES ? 1 : Math.max(1, ceilDiv(windowMillis, MOST_LOG_ENTRIES - 1));
    }

    private static long ceilDiv(long dividend, long divisor) {
        return (dividend + divisor - 1) / divisor;
    }

    private static void checkPermits(long permits, long most, String what) {
        if (permits < 1 || permits > most) {
            throw new IllegalArgumentException("permits " + permits + " are out of range: expected 1 to " + most
                    + " for " + what + ", for example 100");
        }
    }

    private static long checkWindow(Duration window) {
        String example = "Duration.ofMinutes(1)";
        long millis = wholeMillis("window", window, example);
        if (window.compareTo(LONGEST_WINDOW) > 0) {
            throw new IllegalArgumentException("window " + window + " is too long: expected at most "
                    + LONGEST_WINDOW.toDays() + " days, for example " + example);
        }
        return millis;
    }

    private static long wholeMillis(String what, Duration duration, String example) {
        Checks.present(duration, what, example);
        if (duration.isNegative() || duration.isZero() || duration.toNanosPart() % 1_000_000 != 0) {
            throw new IllegalArgumentException(what + " " + duration
                    + " is no positive number of whole milliseconds: expected at least 1 ms, for example " + example);
        }
        return duration.compareTo(LONGEST_WINDOW) > 0 ? Long.MAX_VALUE : duration.toMillis();
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Limit limit
                && permits == limit.permits
                && countingDenied == limit.countingDenied
                && identity.equals(limit.identity);
    }

    @Override
    public int hashCode() {
        return Objects.hash(permits, countingDenied, identity);
    }

    /** Returns the text form, which {@link #parse(String)} reads back. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder().append(permits).append('/').append(Durations.format(windowMillis));
        if (algorithm == Algorithm.COUNTER) {
            text.append(' ').append(algorithm.name().toLowerCase(Locale.ROOT));
        } else if (resolutionMillis != defaultResolution(permits, windowMillis)) {
            text.append(" resolution=").append(Durations.format(resolutionMillis));
        }
        if (aligned) {
            text.append(" aligned");
        }
        if (countingDenied) {
            text.append(" counting-denied");
        }
        if (!name.equals(Durations.format(windowMillis))) {
            text.append(" name=").append(name);
        }
        return text.toString();
    }
}
