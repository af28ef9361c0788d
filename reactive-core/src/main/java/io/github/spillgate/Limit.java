package io.github.spillgate;

import io.github.spillgate.CountName.Prefix;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Names;
import io.github.spillgate.internal.QuotaCalendar;
import io.github.spillgate.internal.QuotaCalendar.Period;
import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A limit: at most a number of permits in any window of a given length, a rate with a burst, a number of permits at the
 * same time, or a number in each day, week, month or year of the calendar.
 *
 * <p>Immutable, and always valid. Limits are equal if all their settings are equal. {@link #of(long, Duration)} creates
 * an exact {@linkplain Log log}; {@link #counter()} trades exactness for constant memory; {@link #burst(long)} returns
 * a {@linkplain Bucket token bucket}; {@link #concurrent(long)} limits what runs at the same time. None of these kinds
 * has a boundary at which all permits are available again at once; only a calendar quota has, such as {@link
 * #monthly(long)}. Methods that change a setting return a new limit.
 *
 * <pre>{@code
 * Limit.perMinute(120)
 * Limit.of(3_000, Duration.ofMinutes(10)).named("sustained")
 * Limit.perDay(10_000).counter().alignedToClock()
 * Limit.perSecond(10).burst(50)
 * Limit.concurrent(20)
 * Limit.monthly(10_000).in(ZoneId.of("Europe/Berlin")).from(15)
 * Limit.parse("10000/24h counter aligned")
 * }</pre>
 *
 * <h2>Text form</h2>
 *
 * The text form is {@code permits/window}, followed by any of these words in any order:
 *
 * <table>
 * <caption>Words after the permits and the window</caption>
 * <tr><th>word</th><th>meaning</th></tr>
 * <tr><td>{@code log}, {@code counter}</td><td>the kind, {@code log} by default</td></tr>
 * <tr><td>{@code aligned}</td><td>{@link #alignedToClock()}; only for a counter</td></tr>
 * <tr><td>{@code burst=50}</td><td>{@link #burst(long)}; a token bucket</td></tr>
 * <tr><td>{@code hold=60s}</td><td>{@link #hold(Duration)}; only for a concurrency limit</td></tr>
 * <tr><td>{@code retry=1s}</td><td>{@link #retryAfter(Duration)}; only for a concurrency limit</td></tr>
 * <tr><td>{@code resolution=10ms}</td><td>{@link #resolution(Duration)}; only for a log</td></tr>
 * <tr><td>{@code counting-denied}</td><td>{@link #countingDenied()}</td></tr>
 * <tr><td>{@code leased}</td><td>{@link #leased()}; only for a log or a token bucket</td></tr>
 * <tr><td>{@code near=80%}</td><td>{@link #near(int)}</td></tr>
 * <tr><td>{@code name=burst}</td><td>{@link #named(String)}</td></tr>
 * </table>
 *
 * The text form of a {@linkplain #concurrent(long) concurrency limit} is {@code 20 concurrent}, followed by any of
 * {@code hold=60s}, {@code retry=1s}, {@code near=80%} and {@code name=…}.
 *
 * <p>The text form of a {@linkplain Quota calendar quota} is {@code 500 daily}, or {@code weekly}, {@code monthly} or
 * {@code yearly}, followed by any of {@code zone=Europe/Berlin}, {@code at=06:00}, {@code from=15} (only for {@code
 * monthly}), {@code counting-denied}, {@code near=80%} and {@code name=…}. A window such as {@code 24h} or {@code 1d}
 * slides.
 *
 * <p>The text form of a {@linkplain Ban ban} is {@code ban 1h after 3/10m}: the time of the ban, and the denials that
 * begin it within a window. It may be followed by {@code growing} and {@code name=…}. {@code pausable}, alone or with
 * {@code name=…}, is a ban that only calls begin.
 *
 * <p>A window is a number and one of the units {@code ms}, {@code s}, {@code m}, {@code h}, {@code d}. A unit without
 * a number means one, as in {@code 10/s}. {@link #toString()} returns this form, and {@link #parse(String)} reads it
 * back to an equal limit.
 */
public abstract sealed class Limit {
    // Design notes.
    //
    // A class and no interface: what each decision reads is a final field here, and what only this package asks a kind
    // is not public. A kind overrides what differs. Other code asks a limit what it has to know, and not for its kind.
    // What only stores and waiting callers need of a kind is in the table LimitKind of count.

    /** The maximum number of entries of a log for one key. */
    public static final int MOST_LOG_ENTRIES = 10_000;

    /** The maximum number of permits of a log: the largest value of four bytes. */
    public static final long MOST_LOG_PERMITS = 0xffff_ffffL;

    /**
     * The maximum number of permits of a counter or a quota. The scripts count in doubles, and sums of a few such
     * numbers are still exact.
     */
    public static final long MOST_COUNTER_PERMITS = 1_000_000_000_000_000L;

    /**
     * The maximum number of permits and of the burst of a token bucket. In addition, each of them times the window in
     * milliseconds must be below 2<sup>53</sup>: the scripts calculate in doubles, which hold such integers exactly.
     */
    public static final long MOST_BUCKET_PERMITS = 100_000_000_000_000L;

    /** The maximum number of permits of a concurrency limit. */
    public static final long MOST_CONCURRENT_PERMITS = 1_000;

    /** The shortest hold time of a concurrency limit. */
    public static final Duration SHORTEST_HOLD = Duration.ofSeconds(1);

    /** The longest hold time of a concurrency limit. */
    public static final Duration LONGEST_HOLD = Duration.ofDays(1);

    /** The shortest retry time of a concurrency limit. */
    public static final Duration SHORTEST_RETRY = Duration.ofMillis(100);

    /** The longest retry time of a concurrency limit. */
    public static final Duration LONGEST_RETRY = Duration.ofDays(1);

    /** The maximum number of denials before a ban. */
    public static final int MOST_STRIKES = 100;

    /** The longest window. */
    public static final Duration LONGEST_WINDOW = Duration.ofDays(366);

    /** The longest time in which an empty token bucket is filled. */
    public static final Duration LONGEST_FILL = Duration.ofDays(36_600);

    private static final long UNMARKED = Long.MAX_VALUE;
    private static final long LEASES_IN_A_WINDOW = 100;
    private static final long LONGEST_LEASE = 100;
    private static final long SHORTEST_LEASED_WINDOW = 1_000;

    private static final Duration DEFAULT_HOLD = Duration.ofMinutes(1);
    private static final Duration DEFAULT_RETRY = Duration.ofSeconds(1);
    private static final Duration TICK = Duration.ofMillis(1);

    static final String EXAMPLE = "\"100/1m\" or \"10000/24h counter\"";
    private static final String COUNTER_EXAMPLE = "Limit.perDay(10_000).counter()";
    private static final String BURST_EXAMPLE = "Limit.perSecond(10).burst(50)";
    private static final String BAN_EXAMPLE = "Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10))";
    private static final String HOLD_EXAMPLE = "Limit.concurrent(20).hold(Duration.ofSeconds(30))";

    private final String name;
    private final long permits;
    private final long capacity;
    private final boolean countingDenied;
    private final boolean leased;
    private final int near;
    private final long mark;
    private final String identity;
    private final Duration time;
    private final Duration leaseTime;

    /**
     * The last prefix of identities, because each charge with limits of its own needs one. Most limits are used by one
     * limiter; a race only creates it twice.
     */
    private @Nullable Prefix prefix;

    /**
     * Creates a limit with valid settings.
     *
     * @param millis the window or hold time
     * @param identity the part of the identity behind the name
     */
    private Limit(CommonSettings settings, long capacity, long millis, String identity) {
        this.name = settings.name;
        this.permits = settings.permits;
        this.capacity = capacity;
        this.countingDenied = settings.countingDenied;
        this.leased = settings.leased;
        this.near = settings.near;
        this.mark = near == 0 ? UNMARKED : capacity / 100 * near + (capacity % 100 * near + 99) / 100; // exact
        this.identity = name + identity;
        this.time = Duration.ofMillis(millis);
        this.leaseTime = Duration.ofMillis(canBeLeased() ? leaseMillis(millis) : 0);
    }

    /**
     * Returns a limit of at most this many permits in any window of this length, counted by an exact log.
     *
     * @param permits the permits, from 1 to {@link #MOST_LOG_PERMITS}; a {@link #counter(long, Duration) counter}
     *     allows more
     * @param window the length of a window in whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @return the limit, named after its window
     * @throws IllegalArgumentException if an argument is out of range
     */
    public static Limit of(long permits, Duration window) {
        long windowMillis = checkWindow(window);
        checkPermits(permits, MOST_LOG_PERMITS, "a log (a counter takes more)");
        return new Log(
                CommonSettings.of(permits, windowMillis), windowMillis, defaultResolution(permits, windowMillis));
    }

    /**
     * Returns a limit of this many permits in a window of this length, counted by a {@linkplain Counter
     * counter}.
     *
     * @param permits the permits, from 1 to {@link #MOST_COUNTER_PERMITS}
     * @param window the length of a window in whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @return the limit, named after its window
     * @throws IllegalArgumentException if an argument is out of range
     */
    public static Limit counter(long permits, Duration window) {
        long windowMillis = checkWindow(window);
        checkPermits(permits, MOST_COUNTER_PERMITS, "a counter");
        return new Counter(CommonSettings.of(permits, windowMillis), windowMillis, false);
    }

    /**
     * Returns a {@linkplain Bucket token bucket}, to which this many permits return in a window of this
     * length, at an even rate.
     *
     * @param permits the permits that return in a window, from 1 to {@link #MOST_BUCKET_PERMITS}
     * @param window the length of a window in whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @param burst the capacity of the bucket in permits, as in {@link #burst(long)}
     * @return the limit, named after its window
     * @throws IllegalArgumentException if an argument is out of range
     */
    public static Limit bucket(long permits, Duration window, long burst) {
        long windowMillis = checkWindow(window);
        return bucket(CommonSettings.of(permits, windowMillis), windowMillis, burst);
    }

    private static Bucket bucket(CommonSettings settings, long windowMillis, long burst) {
        checkBucket(settings.permits, windowMillis, burst);
        return new Bucket(settings, windowMillis, burst);
    }

    /**
     * Returns a {@linkplain Concurrent concurrency limit} of at most this many permits at the same time, over
     * all instances. Each request holds its permits until they are released, and at most for the {@linkplain
     * #hold(Duration) hold time}, 60 s by default, unless they are renewed. {@link
     * RateLimiter#whileHolding(String, reactor.core.publisher.Mono) whileHolding} takes, renews and releases them.
     *
     * @param permits the permits, from 1 to {@link #MOST_CONCURRENT_PERMITS}
     * @return the limit, named {@code concurrent}
     * @throws IllegalArgumentException if the permits are out of range
     */
    public static Limit concurrent(long permits) {
        checkPermits(permits, MOST_CONCURRENT_PERMITS, "a concurrency limit");
        return new Concurrent(
                new CommonSettings(Concurrent.NAME, permits, false, false, 0), DEFAULT_HOLD.toMillis(), DEFAULT_RETRY);
    }

    /**
     * Returns a {@linkplain Quota calendar quota} of this many permits in each day of the calendar, in UTC unless
     * {@link Quota#in} says otherwise.
     *
     * @param permits the permits, from 1 to {@link #MOST_COUNTER_PERMITS}
     * @return the limit, named {@code daily}
     * @throws IllegalArgumentException if the permits are out of range
     */
    public static Quota daily(long permits) {
        return quota(permits, QuotaCalendar.Unit.DAILY);
    }

    /**
     * Returns a {@linkplain Quota calendar quota} of this many permits in each week, from Monday on.
     *
     * @param permits the permits, as in {@link #daily(long)}
     * @return the limit, named {@code weekly}
     */
    public static Quota weekly(long permits) {
        return quota(permits, QuotaCalendar.Unit.WEEKLY);
    }

    /**
     * Returns a {@linkplain Quota calendar quota} of this many permits in each month.
     *
     * @param permits the permits, as in {@link #daily(long)}
     * @return the limit, named {@code monthly}
     */
    public static Quota monthly(long permits) {
        return quota(permits, QuotaCalendar.Unit.MONTHLY);
    }

    /**
     * Returns a {@linkplain Quota calendar quota} of this many permits in each year.
     *
     * @param permits the permits, as in {@link #daily(long)}
     * @return the limit, named {@code yearly}
     */
    public static Quota yearly(long permits) {
        return quota(permits, QuotaCalendar.Unit.YEARLY);
    }

    /**
     * Returns a {@linkplain Ban ban}, beside the limits of a key: a key that is denied too often by them is denied for
     * this time, whatever its usage.
     *
     * @param time for how long the key is banned, in whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @param denials the number of denials, from 1 to {@link #MOST_STRIKES}
     * @param within the time within which they are counted, in whole milliseconds, from 1 ms to {@link #LONGEST_WINDOW}
     * @return the ban, named {@code ban}
     * @throws IllegalArgumentException if an argument is out of range
     */
    public static Ban ban(Duration time, long denials, Duration within) {
        if (denials < 1 || denials > MOST_STRIKES) {
            throw new IllegalArgumentException("denials " + denials + " are out of range: expected 1 to " + MOST_STRIKES
                    + " for a ban, for example " + BAN_EXAMPLE);
        }
        long millis = checkTime("time of a ban", time, "Duration.ofHours(1)");
        long withinMillis = checkTime("window of a ban", within, "Duration.ofMinutes(10)");
        return new Ban(new CommonSettings(Ban.BAN, denials, true, false, 0), millis, withinMillis, false);
    }

    /**
     * Returns what makes the keys of a limiter {@linkplain RateLimiter#pause(String, Duration) pausable}: while a key
     * is paused, its requests are denied or wait. It is a {@linkplain Ban ban} that no denial begins.
     *
     * @return the limit, named {@code pause}
     */
    public static Ban pausable() {
        return new Ban(
                new CommonSettings(Ban.PAUSE, 1, false, false, 0), Ban.SHORTEST_REACH, Ban.SHORTEST_REACH, false);
    }

    static Quota quota(long permits, QuotaCalendar.Unit unit) {
        checkPermits(permits, MOST_COUNTER_PERMITS, "a quota");
        return new Quota(
                new CommonSettings(Quota.nameOf(unit), permits, false, false, 0),
                new QuotaCalendar(unit, ZoneOffset.UTC, LocalTime.MIDNIGHT, 1));
    }

    /**
     * Returns a limit of at most this many permits in any second.
     *
     * @param permits the permits, as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perSecond(long permits) {
        return of(permits, Duration.ofSeconds(1));
    }

    /**
     * Returns a limit of at most this many permits in any minute.
     *
     * @param permits the permits, as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perMinute(long permits) {
        return of(permits, Duration.ofMinutes(1));
    }

    /**
     * Returns a limit of at most this many permits in any hour.
     *
     * @param permits the permits, as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perHour(long permits) {
        return of(permits, Duration.ofHours(1));
    }

    /**
     * Returns a limit of at most this many permits in any 24 hours.
     *
     * @param permits the permits, as in {@link #of(long, Duration)}
     * @return the limit
     */
    public static Limit perDay(long permits) {
        return of(permits, Duration.ofDays(1));
    }

    /**
     * Parses the text form, which the documentation of this class describes.
     *
     * @param text the text, for example {@code 100/1m} or {@code 10000/24h counter}
     * @return the limit
     * @throws IllegalArgumentException if the text is not a limit; the message has the text and what was expected
     */
    public static Limit parse(String text) {
        Checks.present(text, "limit", EXAMPLE);
        try {
            return LimitText.parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "limit " + Text.quote(text) + " cannot be read: " + e.getMessage() + "; for example "
                            + LimitText.example(text),
                    e);
        }
    }

    /**
     * Returns a limit with the same permits and window, counted by a {@linkplain Counter counter}. The first
     * window starts with the first hit, and the next windows follow it.
     *
     * @return the limit
     * @throws IllegalStateException if this limit is a token bucket or a concurrency limit
     */
    public Limit counter() {
        checkHasWindow("a counter", COUNTER_EXAMPLE);
        checkNotLeased("only logs and token buckets are", COUNTER_EXAMPLE);
        return new Counter(settings(), millis(), isAlignedToClock());
    }

    /**
     * Returns a {@linkplain Bucket token bucket} with this burst: a key that has not been used for a while
     * may take this many permits at once. The permits return at an even rate, as many in each window as this limit has.
     * In any time {@code t}, at most {@code burst + permits × t / window} permits are granted.
     *
     * <p>The burst may be less than the permits of a window. Like these, it is not part of the count's identity: it may
     * change at any time, and the usage is kept.
     *
     * @param burst the capacity of the bucket in permits, from 1 to {@link #MOST_BUCKET_PERMITS}; an empty bucket must
     *     be filled within {@link #LONGEST_FILL}, and the burst times the window in milliseconds must be below
     *     2<sup>53</sup>
     * @return the limit
     * @throws IllegalArgumentException if the burst is out of range
     * @throws IllegalStateException if this limit is a counter or a concurrency limit
     */
    public Limit burst(long burst) {
        checkHasWindow("a burst", BURST_EXAMPLE);
        return bucket(settings(), millis(), burst);
    }

    /**
     * Returns the same counter with windows aligned to the clock: windows of {@code 24h} start at midnight UTC, windows
     * of {@code 1m} at the full minute.
     *
     * @return the limit
     * @throws IllegalStateException if this limit is not a counter
     */
    public Limit alignedToClock() {
        throw unsuitable("has no windows to align", "a counter", "Limit.perDay(10_000).counter().alignedToClock()");
    }

    /**
     * Returns the same log with time divided into slots of this length. The hits of a slot share an entry, and expire
     * when the end of the slot is one window old. A coarser resolution needs less memory, and may deny a request for up
     * to one slot longer.
     *
     * <p>The default is 1 ms, or, if that could need more than {@link #MOST_LOG_ENTRIES} entries, the finest resolution
     * that cannot. The resolution is part of the count's identity: if you raise the permits above
     * that bound, set the resolution explicitly to keep the history.
     *
     * @param resolution the length of a slot in whole milliseconds, at most the window, and long enough that the log
     *     holds at most {@link #MOST_LOG_ENTRIES} entries
     * @return the limit
     * @throws IllegalArgumentException if the resolution is out of range
     * @throws IllegalStateException if this limit is not a log
     */
    public Limit resolution(Duration resolution) {
        throw unsuitable("has no resolution", "a log", "Limit.perDay(1_000_000).resolution(Duration.ofMinutes(1))");
    }

    /**
     * Returns the same limit, which also counts denied requests, so that a client that does not back off stays blocked.
     * A denied request is recorded only up to the limit: it never raises the used permits above the limit's permits.
     *
     * @return the limit
     * @throws IllegalStateException if this limit is a concurrency limit
     */
    public final Limit countingDenied() {
        checkHasWindow("denied requests to count", "Limit.perMinute(100).countingDenied()");
        checkNotLeased(
                "a denied request would have to be recorded in the store at once",
                "Limit.perMinute(120).countingDenied()");
        return with(new CommonSettings(name, permits, true, leased, near));
    }

    /**
     * Returns the same log or token bucket, with permits that instances may lease: an instance that sees many requests
     * for a key charges a block of permits at once, and spends it within {@link #leaseTime()} without asking the store.
     * The limit is never exceeded, even if other instances do not lease.
     *
     * <p>The price is that fewer permits may be granted: permits of a block count for one lease time after they have
     * left the window, and while an instance has unspent permits, other instances cannot use them. Unspent permits are
     * refunded when the lease ends. In a bucket with a lease, at least what returns in a lease time counts as in use.
     *
     * <p>Leases have no effect on a local store, and none on a bucket with a burst of less than a hundredth of the
     * permits of a window.
     *
     * @return the limit
     * @throws IllegalArgumentException if the window is below one second
     * @throws IllegalStateException if this limit is neither a log nor a token bucket, or counts denied requests
     */
    public final Limit leased() {
        if (!canBeLeased()) {
            throw new IllegalStateException(notLeasable("is neither a log nor a token bucket"));
        }
        if (countingDenied) {
            throw new IllegalStateException(notLeasable("counts denied requests, which the store has to record"));
        }
        if (millis() < SHORTEST_LEASED_WINDOW) {
            throw new IllegalArgumentException(notLeasable("has a window below 1 s"));
        }
        return with(new CommonSettings(name, permits, countingDenied, true, near));
    }

    /**
     * Returns the same concurrency limit with another hold time: the longest time for which a request that is neither
     * released nor renewed holds its permits, for example because its process has ended. A longer time needs fewer
     * renewals; after a shorter time, permits of a process that was killed are available again sooner.
     *
     * <p>Like the permits, the hold time is not part of the count's identity. A change applies to
     * permits that are taken or renewed afterwards.
     *
     * @param hold the hold time in whole milliseconds, from {@link #SHORTEST_HOLD} to {@link #LONGEST_HOLD}
     * @return the limit
     * @throws IllegalArgumentException if the hold time is out of range
     * @throws IllegalStateException if this limit is not a concurrency limit
     */
    public Limit hold(Duration hold) {
        throw unsuitable("has no hold time", "a concurrency limit", HOLD_EXAMPLE);
    }

    /**
     * Returns the same concurrency limit with another retry time, 1 s by default: the time after which a client that is
     * denied should retry. It is not known when a holder will release its permits, so choose about the time that the
     * work takes.
     *
     * <p>Like the permits, the retry time is not part of the count's identity.
     *
     * @param retry the retry time in whole milliseconds, from {@link #SHORTEST_RETRY} to {@link #LONGEST_RETRY}
     * @return the limit
     * @throws IllegalArgumentException if the retry time is out of range
     * @throws IllegalStateException if this limit is not a concurrency limit
     */
    public Limit retryAfter(Duration retry) {
        throw unsuitable(
                "has a retry time that follows from its usage",
                "a concurrency limit",
                "Limit.concurrent(20).retryAfter(Duration.ofSeconds(5))");
    }

    /**
     * Returns the same limit with another name. By default a limit is named after its window, for example {@code 1m}.
     * Headers and metrics show the name, and it is part of the count's identity.
     *
     * @param name the name, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}
     * @return the limit
     * @throws IllegalArgumentException if the name is empty, too long or has other characters
     */
    public final Limit named(String name) {
        return with(new CommonSettings(
                Names.check("limit name", name, "\"burst\""), permits, countingDenied, leased, near));
    }

    /**
     * Returns the same limit with a mark: the decision by which a key reaches this part of the limit {@linkplain
     * Decision#near() says so}, once. It is not part of the count's identity, and may change at any time.
     *
     * @param percent the part of the {@linkplain #capacity() capacity}, 1 to 100 percent
     * @return the limit
     * @throws IllegalArgumentException if the percentage is out of range
     */
    public final Limit near(int percent) {
        if (!takesPermits()) {
            throw unsuitable("takes no permits", "a limit that does", "Limit.perDay(10_000).near(80)");
        }
        if (percent < 1 || percent > 100) {
            throw new IllegalArgumentException(
                    "near " + percent + "% is out of range: expected 1% to 100%, for example near(80)");
        }
        return with(new CommonSettings(name, permits, countingDenied, leased, percent));
    }

    /**
     * Returns the part of the capacity from which on a key is near this limit.
     *
     * @return the percentage; 0 without {@link #near(int)}
     */
    public final int near() {
        return near;
    }

    /**
     * Returns the used permits from which on a key is near this limit.
     *
     * @return the permits, at most the {@linkplain #capacity() capacity}; {@link Long#MAX_VALUE} without {@link
     *     #near(int)}
     */
    public final long nearMark() {
        return mark;
    }

    /**
     * Returns the name of this limit.
     *
     * @return the name
     */
    public final String name() {
        return name;
    }

    /**
     * Returns the number of permits in a window: the most that are granted or, for a token bucket, those that return.
     * For a concurrency limit, they are the most that are held at the same time.
     *
     * @return the permits, at least 1
     */
    public final long permits() {
        return permits;
    }

    /**
     * Returns the most permits that can be in use at once, and that a request can cost.
     *
     * @return for a token bucket, its {@linkplain #burst(long) burst}; otherwise the {@linkplain #permits() permits}
     */
    public final long capacity() {
        return capacity;
    }

    /**
     * Returns the length of a window; for a token bucket, the time in which its {@linkplain #permits() permits} return;
     * for a quota, that of its longest period in UTC, such as 31 days.
     *
     * @return the window, in whole milliseconds
     * @throws IllegalStateException if this is a concurrency limit, which has a {@linkplain #holdTime() hold time}
     */
    public final Duration window() {
        checkHasWindow("a window", "Limit.perMinute(100).window()");
        return time;
    }

    /**
     * Returns the longest time for which a request holds its permits, unless it renews them.
     *
     * @return the hold time, in whole milliseconds
     * @throws IllegalStateException if this is not a {@linkplain #holdsPermits() concurrency limit}
     */
    public Duration holdTime() {
        throw unsuitable("has no hold time", "a concurrency limit", HOLD_EXAMPLE);
    }

    /**
     * Returns whether requests hold their permits until they release them. Permits of other limits return as time
     * passes, or by a refund.
     *
     * @return true for a {@linkplain Concurrent concurrency limit}
     */
    public final boolean holdsPermits() {
        return this instanceof Concurrent; // faster than a virtual call, and each decision asks
    }

    /**
     * Returns whether requests take permits of this limit.
     *
     * @return false for a {@linkplain Ban ban}, which only denies
     */
    public final boolean takesPermits() {
        return !(this instanceof Ban);
    }

    /**
     * Returns the time in which no more than the {@linkplain #capacity() capacity} may be used, as header fields report
     * it. A client that uses no more of a bucket in any such time is never denied.
     *
     * @return the {@linkplain #window() window}; for a token bucket, the time in which an empty one is filled; for a
     *     concurrency limit, the hold time
     */
    public Duration quotaWindow() {
        return time;
    }

    /**
     * Returns the length of a slot of a log. For others it is 1 ms, the tick of their clock.
     *
     * @return the resolution, in whole milliseconds
     */
    public Duration resolution() {
        return TICK;
    }

    /**
     * Returns whether this limit is a counter with windows aligned to the clock.
     *
     * @return true after {@link #alignedToClock()}
     */
    public boolean isAlignedToClock() {
        return false;
    }

    /**
     * Returns whether denied requests count.
     *
     * @return true after {@link #countingDenied()}
     */
    public final boolean isCountingDenied() {
        return countingDenied;
    }

    /**
     * Returns whether instances may lease permits of this limit.
     *
     * @return true after {@link #leased()}
     */
    public final boolean isLeased() {
        return leased;
    }

    /**
     * Returns the time for which leased permits of a log or token bucket with this window can be spent: a hundredth of
     * the window, at most 100 ms.
     *
     * @return the time, in whole milliseconds; zero if this is neither
     */
    public final Duration leaseTime() {
        return leaseTime;
    }

    /**
     * Returns the time after which a request that a full concurrency limit denies should be retried.
     *
     * @return the time, in whole milliseconds; zero for other limits, for which it follows from the usage
     */
    public Duration retryAfter() {
        return Duration.ZERO;
    }

    /**
     * All settings that distinguish one count from another: all except the permits, the burst, the hold and retry
     * times, the counting of denied requests and leases, and the zone, time and day of a quota with a name.
     */
    String identity() {
        return identity;
    }

    /**
     * Returns the prefix of the identities of its counts under a limiter. Equal identities are found faster if their
     * prefixes are the same object.
     */
    Prefix prefix(String limiter) {
        Prefix known = prefix;
        if (known == null || !known.isOf(limiter)) {
            known = new Prefix(limiter, this);
            prefix = known;
        }
        return known;
    }

    static long defaultResolution(long permits, long windowMillis) {
        // A log can hold one live slot more than fit into a window, and a window may end within a slot: floor(w/r) + 2
        // entries.
        return permits <= MOST_LOG_ENTRIES ? 1 : Math.max(1, ceilDiv(windowMillis, MOST_LOG_ENTRIES - 1));
    }

    // What only this package asks a kind.

    /** Returns a copy with other settings, which the caller has checked. */
    abstract Limit with(CommonSettings settings);

    /** Appends the words of the text form that only this kind has. */
    abstract void appendSettings(StringBuilder text);

    boolean canBeLeased() {
        return false;
    }

    /** Returns a setting that only this kind has, and that does not follow from the identity and the time. */
    Object ownSetting() {
        return identity;
    }

    String defaultName() {
        return LimitText.format(millis());
    }

    /** Returns the window or hold time, in milliseconds. */
    final long millis() {
        return time.toMillis();
    }

    final CommonSettings settings() {
        return new CommonSettings(name, permits, countingDenied, leased, near);
    }

    @Override
    public final boolean equals(@Nullable Object other) {
        return this == other
                || (other instanceof Limit limit
                        && permits == limit.permits
                        && capacity == limit.capacity
                        && countingDenied == limit.countingDenied
                        && leased == limit.leased
                        && near == limit.near
                        && time.equals(limit.time)
                        && identity.equals(limit.identity)
                        && ownSetting().equals(limit.ownSetting()));
    }

    @Override
    public final int hashCode() {
        return 31 * (31 * identity.hashCode() + Long.hashCode(permits)) + Long.hashCode(capacity);
    }

    /** Returns the text form, which {@link #parse(String)} reads back. */
    @Override
    public final String toString() {
        String defaultName = defaultName();
        StringBuilder text = new StringBuilder();
        if (takesPermits()) {
            text.append(permits)
                    .append(Character.isLetter(defaultName.charAt(0)) ? ' ' : '/')
                    .append(defaultName);
        }
        appendSettings(text);
        if (countingDenied && takesPermits()) {
            text.append(" counting-denied");
        }
        if (leased) {
            text.append(" leased");
        }
        if (near > 0) {
            text.append(" near=").append(near).append('%');
        }
        return name.equals(defaultName)
                ? text.toString()
                : text.append(" name=").append(name).toString();
    }

    // Checks.

    void checkHasWindow(String what, String example) {}

    final void checkNotLeased(String reason, String example) {
        if (leased) {
            throw unsuitable("is leased, but " + reason, "a limit without .leased()", example);
        }
    }

    private String notLeasable(String why) {
        return "limit " + Text.quote(toString()) + " " + why
                + ", so it cannot be leased: expected a log or token bucket"
                + " with a window of 1 s or more, for example Limit.perMinute(6_000).leased()";
    }

    final IllegalStateException unsuitable(String reason, String expected, String example) {
        return new IllegalStateException("limit " + Text.quote(toString()) + " " + reason + ": expected " + expected
                + ", for example " + example);
    }

    private static long millisBetween(
            String what, Duration given, Duration shortest, Duration longest, String example) {
        long millis = wholeMillis(what, given, example);
        if (given.compareTo(shortest) < 0 || given.compareTo(longest) > 0) {
            throw new IllegalArgumentException(what + " " + given + " is out of range: expected "
                    + LimitText.format(shortest.toMillis()) + " to " + LimitText.format(longest.toMillis())
                    + ", for example " + example);
        }
        return millis;
    }

    private static void checkPermits(long permits, long most, String what) {
        if (permits < 1 || permits > most) {
            throw new IllegalArgumentException("permits " + permits + " are out of range: expected 1 to " + most
                    + " for " + what + ", for example 100");
        }
    }

    private static void checkBucket(long permits, long windowMillis, long burst) {
        long mostPermits = Math.min(MOST_BUCKET_PERMITS, Bounds.MOST_EXACT / windowMillis);
        checkPermits(permits, mostPermits, "a bucket with this window");
        // The double errs by less than one part in 2^52, which does not matter for a bound of a hundred years.
        double filled = (double) LONGEST_FILL.toMillis() * permits / windowMillis;
        long most = Math.min(Bounds.MOST_EXACT / windowMillis, (long) Math.min(MOST_BUCKET_PERMITS, filled));
        if (burst < 1 || burst > most) {
            throw new IllegalArgumentException("burst " + burst + " is out of range: expected 1 to " + most + " for "
                    + permits + " permits in " + LimitText.format(windowMillis) + ", for example "
                    + Math.min(most, 50));
        }
    }

    private static long checkWindow(Duration window) {
        return checkTime("window", window, "Duration.ofMinutes(1)");
    }

    private static long checkTime(String what, Duration given, String example) {
        long millis = wholeMillis(what, given, example);
        if (given.compareTo(LONGEST_WINDOW) > 0) {
            throw new IllegalArgumentException(what + " " + given + " is too long: expected at most "
                    + LONGEST_WINDOW.toDays() + " days, for example " + example);
        }
        return millis;
    }

    private static long wholeMillis(String what, Duration duration, String example) {
        Checks.present(duration, what, example);
        if (duration.isNegative() || duration.isZero() || duration.toNanosPart() % 1_000_000 != 0) {
            throw new IllegalArgumentException(what + " " + duration
                    + " is not a positive number of whole milliseconds: expected at least 1 ms, for example "
                    + example);
        }
        return duration.compareTo(LONGEST_WINDOW) > 0 ? Long.MAX_VALUE : duration.toMillis();
    }

    private static long ceilDiv(long dividend, long divisor) {
        return (dividend + divisor - 1) / divisor;
    }

    private static long leaseMillis(long windowMillis) {
        return Math.min(LONGEST_LEASE, windowMillis / LEASES_IN_A_WINDOW);
    }

    /** The settings that all kinds have. */
    record CommonSettings(String name, long permits, boolean countingDenied, boolean leased, int near) {

        static CommonSettings of(long permits, long windowMillis) {
            return new CommonSettings(LimitText.format(windowMillis), permits, false, false, 0);
        }
    }

    // The kinds.

    /**
     * A log of all hits with their times. Exact: no window ever contains more than the limit's permits, wherever it
     * begins. Needs about 10 bytes of memory per hit.
     */
    public static final class Log extends Limit {

        private final Duration resolution;

        private Log(CommonSettings settings, long window, long resolution) {
            super(settings, settings.permits, window, ":L" + window + "." + resolution);
            this.resolution = Duration.ofMillis(resolution);
        }

        @Override
        Log with(CommonSettings settings) {
            return new Log(settings, millis(), resolution.toMillis());
        }

        @Override
        public Limit resolution(Duration resolution) {
            long window = millis();
            long millis = wholeMillis("resolution", resolution, "Duration.ofMillis(10)");
            long finest = defaultResolution(permits(), window);
            if (millis < finest || millis > window) {
                throw new IllegalArgumentException("resolution " + resolution + " does not suit " + permits()
                        + " permits in " + LimitText.format(window) + ": expected from " + LimitText.format(finest)
                        + " (so that no log holds more than " + MOST_LOG_ENTRIES
                        + " entries) to the window, for example Duration.ofMillis(" + Math.max(finest, window / 1_000)
                        + ")");
            }
            return new Log(settings(), window, millis);
        }

        @Override
        public Duration resolution() {
            return resolution;
        }

        @Override
        boolean canBeLeased() {
            return true;
        }

        @Override
        void appendSettings(StringBuilder text) {
            LimitText.append(text, " resolution=", resolution.toMillis(), defaultResolution(permits(), millis()));
        }
    }

    /**
     * A counter for the current window and one for the window before it; the older count fades out linearly. The sum is
     * an estimate of the usage, and decisions follow it exactly. Needs the same few bytes for every limit.
     */
    public static final class Counter extends Limit {

        private final boolean aligned;

        private Counter(CommonSettings settings, long window, boolean aligned) {
            super(settings, settings.permits, window, (aligned ? ":A" : ":C") + window);
            this.aligned = aligned;
        }

        @Override
        Counter with(CommonSettings settings) {
            return new Counter(settings, millis(), aligned);
        }

        @Override
        public Limit burst(long burst) {
            throw unsuitable("is a counter, which has no burst", "a limit without .counter()", BURST_EXAMPLE);
        }

        @Override
        public Limit alignedToClock() {
            return new Counter(settings(), millis(), true);
        }

        @Override
        public boolean isAlignedToClock() {
            return aligned;
        }

        @Override
        void appendSettings(StringBuilder text) {
            text.append(aligned ? " counter aligned" : " counter");
        }
    }

    /**
     * A token bucket: permits return at an even rate, and up to its {@linkplain #capacity() burst} of them may be taken
     * at once. Exact: in any time, no more than the burst plus the permits that return in that time are granted. Needs
     * the same few bytes for every limit.
     */
    public static final class Bucket extends Limit {

        private final Duration fill;

        private Bucket(CommonSettings settings, long window, long burst) {
            super(settings, burst, window, ":B" + window);
            this.fill = Duration.ofMillis(ceilDiv(burst * window, settings.permits));
        }

        @Override
        Bucket with(CommonSettings settings) {
            return new Bucket(settings, millis(), capacity());
        }

        @Override
        public Limit counter() {
            checkNotLeased("only logs and token buckets are", COUNTER_EXAMPLE);
            throw unsuitable("is a token bucket, and a counter has no burst", "a log", COUNTER_EXAMPLE);
        }

        @Override
        public Duration quotaWindow() {
            return fill;
        }

        @Override
        boolean canBeLeased() {
            return true;
        }

        @Override
        void appendSettings(StringBuilder text) {
            text.append(" burst=").append(capacity());
        }
    }

    /**
     * A count that begins again at each boundary of a calendar: each day, week, month or year has the limit's permits.
     * Exact, and needs the same few bytes for every limit. At a boundary all permits are available at once, so a client
     * may use those of two periods within a short time.
     *
     * <p>A period that has begun ends when the clock of the store passes its end, and only then. So instances with
     * other clocks, or other time-zone data, never begin it twice.
     *
     * <p>The zone, the time of the day and the day of the month are part of the count's identity, unless the limit has
     * a {@linkplain #named(String) name}, as those of rules have. With a name, a change applies from the end of the
     * present period on.
     */
    public static final class Quota extends Limit {

        private static final String IN_EXAMPLE = "Limit.daily(500).in(ZoneId.of(\"Europe/Berlin\"))";
        private static final String FROM_EXAMPLE = "Limit.monthly(10_000).from(15)";
        private static final int LONGEST_ZONE = 50;

        /** Names of offsets. Of others, such as EST, some time-zone data knows an offset, and other data a history. */
        private static final Pattern OFFSET = Pattern.compile("(Etc/|UT|GMT).*");

        private static final long DAY = Duration.ofDays(1).toMillis();

        private final QuotaCalendar calendar;

        /** Three periods in a row, around the last one that was computed; a race only computes them more often. */
        private volatile Period[] known = {};

        private Quota(CommonSettings settings, QuotaCalendar calendar) {
            super(settings, settings.permits, calendar.unit().longestDays * DAY, identity(settings.name, calendar));
            this.calendar = calendar;
        }

        private static String identity(String name, QuotaCalendar calendar) {
            String unit = nameOf(calendar.unit());
            String settings = "." + calendar.zone() + "." + calendar.at() + "." + calendar.from();
            return ":Q" + unit.charAt(0) + (name.equals(unit) ? settings : "");
        }

        static String nameOf(QuotaCalendar.Unit unit) {
            return unit.name().toLowerCase(Locale.ROOT);
        }

        /**
         * Returns the same quota in a time zone, of which the calendar of {@code java.time} knows when clocks are set.
         *
         * @param zone the zone, such as {@code Europe/Berlin}, or an offset
         * @return the limit
         */
        public Quota in(ZoneId zone) {
            ZoneId checked = Checks.present(zone, "zone", IN_EXAMPLE);
            ZoneId normalized = OFFSET.matcher(checked.getId()).matches() ? checked.normalized() : checked;
            if (normalized.getId().length() > LONGEST_ZONE) {
                throw new IllegalArgumentException(
                        "zone " + Text.quote(normalized.getId()) + " is too long: expected at" + " most " + LONGEST_ZONE
                                + " characters, for example " + IN_EXAMPLE);
            }
            return with(new QuotaCalendar(calendar.unit(), normalized, calendar.at(), calendar.from()));
        }

        /**
         * Returns the same quota with periods that begin at a time of the day; midnight by default.
         *
         * @param at the time, in whole minutes
         * @return the limit
         * @throws IllegalArgumentException if the time has seconds
         */
        public Quota at(LocalTime at) {
            Checks.present(at, "time", "LocalTime.of(6, 0)");
            if (at.getSecond() != 0 || at.getNano() != 0) {
                throw new IllegalArgumentException("time " + at
                        + " is not in whole minutes: expected one that is, for example LocalTime.of(6, 0)");
            }
            return with(new QuotaCalendar(calendar.unit(), calendar.zone(), at, calendar.from()));
        }

        /**
         * Returns the same monthly quota with periods that begin on a day of the month; the first by default.
         *
         * @param day the day, 1 to 31; in a shorter month, its last day
         * @return the limit
         * @throws IllegalArgumentException if there is no such day
         * @throws IllegalStateException if this quota is not monthly
         */
        public Quota from(int day) {
            if (calendar.unit() != QuotaCalendar.Unit.MONTHLY) {
                throw unsuitable("does not begin on a day of the month", "a monthly quota", FROM_EXAMPLE);
            }
            if (day < 1 || day > 31) {
                throw new IllegalArgumentException("day " + day
                        + " is not in a month: expected 1 to 31, where 31 is the last day of each month, for example "
                        + FROM_EXAMPLE);
            }
            return with(new QuotaCalendar(calendar.unit(), calendar.zone(), calendar.at(), day));
        }

        /**
         * Returns the start of the period that contains a time.
         *
         * @param at the time
         * @return the first time of the period
         */
        public Instant periodStart(Instant at) {
            return Instant.ofEpochMilli(periodAt(at.toEpochMilli()).start());
        }

        /**
         * Returns the end of the period that contains a time: when all permits are available again.
         *
         * @param at the time
         * @return the start of the next period
         */
        public Instant periodEnd(Instant at) {
            return Instant.ofEpochMilli(periodAt(at.toEpochMilli()).end());
        }

        private Period periodAt(long millis) {
            for (Period one : known) {
                if (one.contains(millis)) {
                    return one;
                }
            }
            Period period = calendar.periodAt(millis);
            Period before = calendar.periodAt(period.start() - 1);
            known = new Period[] {before, period, calendar.periodAt(period.end())};
            return period;
        }

        private Quota with(QuotaCalendar other) {
            return new Quota(settings(), other);
        }

        @Override
        Quota with(CommonSettings settings) {
            return new Quota(settings, calendar);
        }

        @Override
        public Limit counter() {
            throw unsuitable("is a calendar quota, which is counted exactly", "a log", COUNTER_EXAMPLE);
        }

        @Override
        public Limit burst(long burst) {
            throw unsuitable("is a calendar quota, which has no burst", "a limit with a window", BURST_EXAMPLE);
        }

        @Override
        Object ownSetting() {
            return calendar;
        }

        @Override
        String defaultName() {
            return nameOf(calendar.unit());
        }

        @Override
        void appendSettings(StringBuilder text) {
            if (!calendar.zone().equals(ZoneOffset.UTC)) {
                text.append(" zone=").append(calendar.zone());
            }
            if (!calendar.at().equals(LocalTime.MIDNIGHT)) {
                text.append(" at=").append(calendar.at());
            }
            if (calendar.from() != 1) {
                text.append(" from=").append(calendar.from());
            }
        }
    }

    /**
     * A set of holders: each takes permits, and returns them when its work ends. Exact: at any time, the holders have
     * no more than the limit's permits. A holder that does not return its permits loses them after the {@linkplain
     * #holdTime() hold time}. Needs 28 bytes of memory per holder.
     */
    public static final class Concurrent extends Limit {

        private static final String NAME = "concurrent";

        private final Duration retry;

        private Concurrent(CommonSettings settings, long hold, Duration retry) {
            super(settings, settings.permits, hold, ":H");
            this.retry = retry;
        }

        @Override
        Concurrent with(CommonSettings settings) {
            return new Concurrent(settings, millis(), retry);
        }

        @Override
        void checkHasWindow(String what, String example) {
            throw unsuitable("is a concurrency limit, which does not have " + what, "a limit with a window", example);
        }

        @Override
        public Limit hold(Duration hold) {
            long millis = millisBetween("hold time", hold, SHORTEST_HOLD, LONGEST_HOLD, "Duration.ofSeconds(30)");
            return new Concurrent(settings(), millis, retry);
        }

        @Override
        public Limit retryAfter(Duration retry) {
            long millis = millisBetween("retry time", retry, SHORTEST_RETRY, LONGEST_RETRY, "Duration.ofSeconds(5)");
            return new Concurrent(settings(), millis(), Duration.ofMillis(millis));
        }

        @Override
        public Duration holdTime() {
            return quotaWindow();
        }

        @Override
        public Duration retryAfter() {
            return retry;
        }

        @Override
        Object ownSetting() {
            return retry;
        }

        @Override
        String defaultName() {
            return NAME;
        }

        @Override
        void appendSettings(StringBuilder text) {
            LimitText.append(text, " hold=", millis(), DEFAULT_HOLD.toMillis());
            LimitText.append(text, " retry=", retry.toMillis(), DEFAULT_RETRY.toMillis());
        }
    }

    /**
     * A ban of keys that do not stop: a key that the other limits of its charge deny too often is denied for some time,
     * and so is a key that the application {@linkplain RateLimiter#ban bans} or {@linkplain RateLimiter#pause pauses}.
     * No request takes permits of it. A key that was denied lately has a value of 24 bytes, and 6 for each denial.
     *
     * <p>The length of a ban, and what begins one, are not part of its identity: a change keeps the bans.
     */
    public static final class Ban extends Limit {

        private static final String BAN = "ban";
        private static final String PAUSE = "pause";

        /** A key can be banned for a day by a call, and the growth of bans ends there, unless the limit has more. */
        private static final long SHORTEST_REACH = Duration.ofDays(1).toMillis();

        private final long length;
        private final boolean growing;

        private Ban(CommonSettings settings, long length, long within, boolean growing) {
            super(settings, 1, within, ":B");
            this.length = length;
            this.growing = growing;
        }

        /**
         * Returns the same ban, of which each one is twice as long as the last, up to a day or its own time if that is
         * longer. A day after the end of a ban, the next one is a first one again.
         *
         * @return the ban
         * @throws IllegalStateException if no denial begins this ban
         */
        public Ban growing() {
            if (isPause()) {
                throw unsuitable("is a pause, which does not grow", "a ban", BAN_EXAMPLE + ".growing()");
            }
            return new Ban(settings(), length, millis(), true);
        }

        /**
         * Returns for how long a key is banned.
         *
         * @return the time, in whole milliseconds; of a growing ban, that of the first one
         */
        public Duration time() {
            return Duration.ofMillis(length);
        }

        /**
         * Returns the time within which denials are counted.
         *
         * @return the time, in whole milliseconds
         */
        public Duration within() {
            return Duration.ofMillis(millis());
        }

        /**
         * Returns whether each ban is longer than the last.
         *
         * @return true after {@link #growing()}
         */
        public boolean isGrowing() {
            return growing;
        }

        /**
         * Returns whether only a {@linkplain RateLimiter#pause call} begins it, and no denial.
         *
         * @return true for {@link Limit#pausable()}
         */
        public boolean isPause() {
            return !isCountingDenied();
        }

        @Override
        Ban with(CommonSettings settings) {
            return new Ban(settings, length, millis(), growing);
        }

        @Override
        void checkHasWindow(String what, String example) {
            throw unsuitable("is a ban, which does not have " + what, "a limit with a window", example);
        }

        @Override
        public Duration quotaWindow() {
            return Duration.ofMillis(Math.max(SHORTEST_REACH, length));
        }

        @Override
        Object ownSetting() {
            return List.of(length, growing);
        }

        @Override
        String defaultName() {
            return isPause() ? PAUSE : BAN;
        }

        @Override
        void appendSettings(StringBuilder text) {
            if (isPause()) {
                text.append("pausable");
                return;
            }
            text.append("ban ").append(LimitText.format(length));
            text.append(" after ").append(permits()).append('/').append(LimitText.format(millis()));
            text.append(growing ? " growing" : "");
        }
    }
}
