package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import reactor.core.publisher.Mono;

/** Requests on event loops of an application. */
public final class LoopRequests {

    private static final Duration LONG = Duration.ofSeconds(30);

    private LoopRequests() {}

    /** Subscribes on an event loop, to a Mono that is not empty. */
    public static <T> CompletableFuture<T> request(EventLoop loop, Mono<T> mono) {
        CompletableFuture<T> result = new CompletableFuture<>();
        loop.execute(() -> mono.subscribe(result::complete, result::completeExceptionally));
        return result;
    }

    /** Returns whether a decision that is requested on the loop is made by Redis and emitted there. */
    public static boolean isEmittedOnLoop(EventLoop loop, RateLimiter limiter, String key) {
        return isEmittedOnLoop(loop, limiter.peek(key));
    }

    public static boolean isEmittedOnLoop(EventLoop loop, Mono<Decision> decision) {
        return request(loop, decision.map(made -> made.source() == Source.REDIS && loop.inEventLoop()))
                .join();
    }

    /** Requests decisions on the loop until they are emitted there. */
    public static void awaitLane(EventLoop loop, RateLimiter limiter) {
        await().atMost(LONG).until(() -> isEmittedOnLoop(loop, limiter, "lane"));
    }
}
