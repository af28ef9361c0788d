package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.settings.NamedLimiters;
import java.time.Duration;
import org.springframework.context.SmartLifecycle;
import reactor.core.publisher.Mono;

/**
 * Waits for the limiter when the application starts, before the server, and closes it when the application stops: after
 * the server, and before the connections to Redis, which it needs to reconcile what the fallback has granted.
 */
final class LimiterLifecycle implements SmartLifecycle {

    /**
     * Above Spring's Redis connections, with phase 0, and below the server, with {@code DEFAULT_PHASE - 2_048}. A lower
     * phase starts earlier and stops later.
     */
    private static final int PHASE = DEFAULT_PHASE - 4_096;

    private final RateLimiter limiter;
    private final NamedLimiters others;
    private final Duration longestWait;
    private volatile boolean running;

    /**
     * Creates the lifecycle of a limiter.
     *
     * @param others the limiters that share its store
     * @param longestWait how long the start waits for the store at most; zero does not wait
     */
    LimiterLifecycle(RateLimiter limiter, NamedLimiters others, Duration longestWait) {
        this.limiter = limiter;
        this.others = others;
        this.longestWait = longestWait;
    }

    @Override
    public void start() {
        if (longestWait.compareTo(Duration.ZERO) > 0) {
            // If the store cannot be reached, the fallback decides, and the limiter logs the reason.
            limiter.ready().timeout(longestWait).onErrorComplete().block();
        }
        running = true;
    }

    @Override
    public void stop() {
        stop(() -> {});
    }

    @Override
    public void stop(Runnable callback) {
        running = false;
        Mono.when(others.all().values().stream().map(RateLimiter::closeLater).toList())
                .then(limiter.closeLater())
                .doFinally(end -> callback.run())
                .subscribe();
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
