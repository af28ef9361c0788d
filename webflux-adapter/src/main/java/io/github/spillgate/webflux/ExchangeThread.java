package io.github.spillgate.webflux;

import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import java.util.concurrent.Executor;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Where an exchange is handled: on the event loop of its connection, whoever has answered meanwhile, if Reactor Netty
 * serves it; on a thread that may block, if it came on one; or else wherever it is.
 */
final class Home {
    // Design notes.
    //
    // Without a limiter a handler begins on the event loop, so it does with one. That saves each write a hop, too, and
    // is more than a nicety: a response that another thread ends is ended for the event loop only when that thread has
    // come back to say so. If the next request on the connection is there before that, and is answered at once,
    // Reactor Netty (up to 1.3.7; reactor/reactor-netty#4361) never reads from that connection again. Some answers from
    // another thread and some at once is what a limiter does whose Redis comes and goes.

    private static final Home ANYWHERE = new Home(Runnable::run, () -> true);

    /** Where somebody has put it who wants to block. */
    private static final Home MAY_BLOCK =
            new Home(Schedulers.boundedElastic()::schedule, () -> !Schedulers.isInNonBlockingThread());

    private final Executor executor;
    private final BooleanSupplier isHere;

    private Home(Executor executor, BooleanSupplier isHere) {
        this.executor = executor;
        this.isHere = isHere;
    }

    static Home of(ServerWebExchange exchange) {
        Channel channel = NettyConnection.of(exchange.getRequest());
        Home home = channel == null ? ANYWHERE : on(channel.eventLoop());
        return home.isHere.getAsBoolean() || Schedulers.isInNonBlockingThread() ? home : MAY_BLOCK;
    }

    private static Home on(EventLoop loop) {
        // Not the loop itself: of an ExecutorService Reactor would make a scheduler for each request.
        return new Home(task -> loop.execute(task), loop::inEventLoop);
    }

    /** Goes on there; at once, if this is there. */
    <T> Mono<T> goOn(Supplier<Mono<T>> how) {
        return isHere.getAsBoolean() ? how.get() : Mono.defer(how).subscribeOn(Schedulers.fromExecutor(executor));
    }
}
