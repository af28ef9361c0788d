package io.github.spillgate.webflux;

import io.github.spillgate.internal.Turns;
import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import java.util.concurrent.Executor;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The thread on which an exchange continues after a decision. If Reactor Netty serves the exchange, that is the event
 * loop of its connection, or a thread that may block if the exchange arrived on one. With another server it is the
 * thread that emits the decision, but never one that reads from Redis.
 */
final class ExchangeThread {
    // Design notes.
    //
    // A handler starts on the event loop, as it does without a limiter, and its writes need no switch of threads.
    //
    // The event loop also avoids a bug of Reactor Netty (up to 1.3.7; reactor/reactor-netty#4361). If another thread
    // ends a response, the event loop treats the response as ended only after that thread has reported it. If the next
    // request on the connection arrives earlier, and is answered at once, Reactor Netty never reads from that
    // connection again. If Redis fails and recovers, a limiter causes exactly this mix: some responses from another
    // thread, and some at once. If a client pipelines, the event loop does not avoid it.

    /** Not a thread that reads the replies for other callers: handlers of a servlet container may take long. */
    private static final ExchangeThread ANY =
            new ExchangeThread(task -> Schedulers.parallel().schedule(task), () -> !Turns.isShared());

    /** For an exchange that a filter has moved to a thread that may block. A test may replace the scheduler. */
    private static final ExchangeThread BLOCKING = new ExchangeThread(
            task -> Schedulers.boundedElastic().schedule(task), () -> !Schedulers.isInNonBlockingThread());

    private final Executor executor;
    private final BooleanSupplier isCurrent;

    private ExchangeThread(Executor executor, BooleanSupplier isCurrent) {
        this.executor = executor;
        this.isCurrent = isCurrent;
    }

    /** Returns the thread on which an exchange continues. Call it on the thread on which the exchange arrived. */
    static ExchangeThread of(ServerWebExchange exchange) {
        Channel channel = NettyConnection.of(exchange.getRequest());
        ExchangeThread thread = channel == null ? ANY : of(channel.eventLoop());
        return thread.isCurrent.getAsBoolean() || Schedulers.isInNonBlockingThread() ? thread : BLOCKING;
    }

    private static ExchangeThread of(EventLoop loop) {
        // Not the loop itself: it is an ExecutorService, for which Reactor would create a scheduler per request.
        return new ExchangeThread(task -> loop.execute(task), loop::inEventLoop);
    }

    /** Subscribes on this thread; at once if it is the current thread. */
    <T> Mono<T> run(Supplier<Mono<T>> continuation) {
        return isCurrent.getAsBoolean()
                ? continuation.get()
                : Mono.defer(continuation).subscribeOn(Schedulers.fromExecutor(executor));
    }
}
