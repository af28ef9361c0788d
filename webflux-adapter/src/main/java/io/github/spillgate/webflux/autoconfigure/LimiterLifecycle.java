package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.RateLimiter;
import org.springframework.context.SmartLifecycle;

/**
 * Closes the limiter when the application stops: after the server, and before the connections to Redis, which it needs
 * to reconcile what the fallback has granted.
 */
final class LimiterLifecycle implements SmartLifecycle {

    /** After the server, whose last phase is 2048 below the default; before connections, which have no phase. */
    private static final int PHASE = DEFAULT_PHASE - 4_096;

    private final RateLimiter limiter;
    private volatile boolean running;

    LimiterLifecycle(RateLimiter limiter) {
        this.limiter = limiter;
    }

    @Override
    public void start() {
        running = true;
    }

    @Override
    public void stop() {
        stop(() -> {});
    }

    @Override
    public void stop(Runnable callback) {
        running = false;
        limiter.closeLater().doFinally(end -> callback.run()).subscribe();
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }
}
