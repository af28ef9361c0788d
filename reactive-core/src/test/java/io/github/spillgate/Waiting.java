package io.github.spillgate;

/** How many wait in a limiter, for tests of other packages to see. */
public final class Waiting {

    private Waiting() {}

    public static int in(RateLimiter limiter) {
        return limiter.queues().size();
    }
}
