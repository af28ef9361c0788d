package io.github.spillgate.internal;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The causes that were logged within the last minute, so that each is logged at most once a minute. Holds about 64
 * causes; further ones are not logged until one of them may be logged again. Thread-safe.
 */
public final class LoggedCauses {

    /** The most causes. Some threads at once may exceed it by one each. */
    static final int MOST = 64;

    private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);

    private final LongSupplier nanos;
    private final Map<String, Long> loggedAt = new ConcurrentHashMap<>();

    /**
     * Creates an empty set of causes.
     *
     * @param nanos the monotonic clock, in nanoseconds
     */
    public LoggedCauses(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /**
     * Adds an error as a cause: its type and that of its own cause, because its message may contain what a client has
     * sent.
     *
     * @param affected what the error affects, such as the name of a rule
     * @param error the error; null if there is none
     * @return whether to log it now: true for one caller a minute
     */
    public boolean add(String affected, @Nullable Throwable error) {
        return add(affected + " " + typeOf(error) + " " + typeOf(error == null ? null : error.getCause()));
    }

    private static String typeOf(@Nullable Throwable error) {
        return error == null ? "" : error.getClass().getName();
    }

    /**
     * Adds a cause.
     *
     * @param cause the text that the log lines of one cause have in common
     * @return whether to log it now: true for one caller a minute
     */
    public boolean add(String cause) {
        long now = nanos.getAsLong();
        Long before = loggedAt.get(cause);
        if (before != null) {
            return now - before >= PAUSE && loggedAt.replace(cause, before, now);
        }
        if (loggedAt.size() >= MOST) {
            loggedAt.values().removeIf(at -> now - at >= PAUSE);
        }
        return loggedAt.size() < MOST && loggedAt.putIfAbsent(cause, now) == null;
    }
}
