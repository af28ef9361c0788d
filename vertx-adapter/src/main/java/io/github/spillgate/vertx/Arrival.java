package io.github.spillgate.vertx;

import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;

/**
 * Brings an answer back to the context on which it was asked for. If it is there at once, before whoever asks has
 * turned away, and he is on that context, he has it without a detour.
 */
final class Arrival<T> implements CoreSubscriber<T> {

    private static final int ASKING = 0;
    private static final int TURNED_AWAY = 1;
    private static final int ANSWERED = 2;

    private final Context home;
    private final BiConsumer<@Nullable T, @Nullable Throwable> then;
    private final AtomicInteger state = new AtomicInteger(ASKING);
    private @Nullable T answer;
    private @Nullable Throwable error;

    private Arrival(Context home, BiConsumer<@Nullable T, @Nullable Throwable> then) {
        this.home = home;
        this.then = then;
    }

    /**
     * Asks.
     *
     * @param then receives the answer, or the error, or neither if there is no answer; once, and on the context of the
     *     caller
     */
    static <T> void of(Vertx vertx, Mono<T> asked, BiConsumer<@Nullable T, @Nullable Throwable> then) {
        of(vertx.getOrCreateContext(), asked, () -> {}, then);
    }

    /** Asks, and brings the answer back as a future; null if there is none. */
    static <T> Future<T> future(Vertx vertx, Mono<T> asked) {
        Promise<T> promise = Promise.promise();
        of(vertx, asked, (answer, error) -> {
            if (error == null) {
                promise.complete(answer);
            } else {
                promise.fail(error);
            }
        });
        return promise.future();
    }

    /**
     * Asks.
     *
     * @param home where the answer is told
     * @param turning runs before whoever asks turns away; not if he has the answer without a detour
     * @param then receives the answer
     */
    static <T> void of(
            Context home, Mono<T> asked, Runnable turning, BiConsumer<@Nullable T, @Nullable Throwable> then) {
        Arrival<T> arrival = new Arrival<>(home, then);
        asked.subscribe(arrival);
        boolean isAtHome = Vertx.currentContext() == home;
        if (!isAtHome || arrival.state.get() == ASKING) {
            turning.run();
        }
        if (arrival.state.compareAndSet(ASKING, TURNED_AWAY)) {
            return;
        }
        if (isAtHome) {
            arrival.tell();
        } else {
            arrival.goHome();
        }
    }

    @Override
    public void onSubscribe(Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(T value) {
        answer = value;
    }

    @Override
    public void onError(Throwable why) {
        error = why;
        arrive();
    }

    @Override
    public void onComplete() {
        arrive();
    }

    private void arrive() {
        if (!state.compareAndSet(ASKING, ANSWERED)) {
            goHome();
        }
    }

    private void goHome() {
        try {
            home.runOnContext(ignored -> tell());
        } catch (RejectedExecutionException e) {
            // The context has gone, and whoever waits for the answer may not have.
            tell();
        }
    }

    private void tell() {
        then.accept(answer, error);
    }
}
