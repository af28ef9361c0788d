package io.github.spillgate.examples.benchmark.contender;

import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import reactor.netty.resources.LoopResources;

/** Requests all decisions of a contender on one event loop of Reactor Netty, as the requests of a server do. */
final class OnEventLoop implements Contender {

    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final Contender contender;
    private final LoopResources resources;
    private final EventLoop loop;

    private OnEventLoop(Contender contender) {
        this.contender = contender;
        this.resources = LoopResources.create("loop", 1, true);
        this.loop = resources.onServer(true).next();
    }

    /** Opens the contender, and waits until its decisions are answered on the loop. */
    static OnEventLoop open(Setting setting, Function<Setting, Contender> contender) {
        OnEventLoop opened = new OnEventLoop(contender.apply(setting));
        long giveUp = System.nanoTime() + TIMEOUT.toNanos();
        while (!opened.isAnsweredOnLoop()) {
            if (System.nanoTime() - giveUp > 0) {
                throw new IllegalStateException("the event loop has no connection to Redis after " + TIMEOUT);
            }
        }
        return opened;
    }

    private boolean isAnsweredOnLoop() {
        CompletableFuture<Boolean> answered = new CompletableFuture<>();
        decide("ready", new Answer() {
            @Override
            public void decided(boolean allowed) {
                answered.complete(loop.inEventLoop());
            }

            @Override
            public void fellBack() {
                answered.complete(false);
            }

            @Override
            public void failed(Throwable error) {
                answered.completeExceptionally(error);
            }
        });
        return answered.join();
    }

    @Override
    public void decide(String key, Answer answer) {
        if (loop.inEventLoop()) {
            contender.decide(key, answer);
        } else {
            loop.execute(() -> contender.decide(key, answer));
        }
    }

    @Override
    public void prepare(List<String> keys) {
        contender.prepare(keys);
    }

    @Override
    public void close() {
        contender.close();
        resources.disposeLater().block(TIMEOUT);
    }
}
