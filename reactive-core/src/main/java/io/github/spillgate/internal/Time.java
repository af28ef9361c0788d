package io.github.spillgate.internal;

import java.util.concurrent.TimeUnit;
import reactor.core.scheduler.Schedulers;

/** The clock of this process, which is that of Reactor's parallel scheduler: tests replace it. */
public final class Time {

    private Time() {}

    /** Returns the monotonic time, to measure what has passed. */
    public static long nanos() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** Returns the time of the wall clock. */
    public static long millis() {
        return Schedulers.parallel().now(TimeUnit.MILLISECONDS);
    }
}
