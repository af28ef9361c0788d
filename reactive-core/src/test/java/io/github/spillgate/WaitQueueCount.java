package io.github.spillgate;

/** The number of wait queues of a limiter, for tests of other packages. */
public final class WaitQueueCount {

    private WaitQueueCount() {}

    public static int of(RateLimiter limiter) {
        return limiter.queues().size();
    }
}
