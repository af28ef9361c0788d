package io.github.spillgate;

/** The number of wait queues of a limiter, for tests of other packages. */
public final class Waiting {

    private Waiting() {}

    public static int in(RateLimiter limiter) {
        return limiter.queues().size();
    }
}
