package io.github.spillgate.examples.grpc;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.function.BiFunction;
import java.util.function.Function;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Charges each call, or each message that a client streams, without blocking a thread. */
public final class RateLimitInterceptor implements ServerInterceptor {

    private final RateLimiter limiter;
    private final Function<String, Mono<Decision>> question;
    private final boolean ofMessages;
    private final BiFunction<ServerCall<?, ?>, Metadata, String> keys;
    private final Executor executor;

    private RateLimitInterceptor(
            RateLimiter limiter,
            Function<String, Mono<Decision>> question,
            boolean ofMessages,
            BiFunction<ServerCall<?, ?>, Metadata, String> keys,
            Executor executor) {
        this.limiter = limiter;
        this.question = question;
        this.ofMessages = ofMessages;
        this.keys = keys;
        this.executor = executor;
    }

    /** Takes one permit for each call before its handler starts. Concurrency limits are held until the call ends. */
    public static RateLimitInterceptor ofCalls(
            RateLimiter limiter, BiFunction<ServerCall<?, ?>, Metadata, String> keys, Executor executor) {
        return new RateLimitInterceptor(limiter, limiter::tryAcquire, false, keys, executor);
    }

    /** Takes one permit for each message of a stream, which waits for at most {@code longestWait}. */
    public static RateLimitInterceptor ofMessages(
            RateLimiter limiter,
            Duration longestWait,
            BiFunction<ServerCall<?, ?>, Metadata, String> keys,
            Executor executor) {
        return new RateLimitInterceptor(limiter, key -> limiter.acquire(key, longestWait), true, keys, executor);
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
            ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
        if (ofMessages && call.getMethodDescriptor().getType().clientSendsOneMessage()) {
            return next.startCall(call, headers);
        }
        LimitedListener<Q, A> listener = new LimitedListener<>(
                new LimitedCall<>(call),
                limiter,
                question.apply(keys.apply(call, headers)),
                ofMessages,
                Schedulers.fromExecutor(Context.current().fixedContextExecutor(executor)));
        listener.start(headers, next);
        return listener;
    }
}
