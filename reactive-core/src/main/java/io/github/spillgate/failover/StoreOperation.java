package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.LongFunction;
import reactor.core.publisher.Mono;

/**
 * What a call does, on each of the two stores.
 *
 * @param <T> the type of the result
 * @param effect what it does to counts
 * @param onPrimary asks the primary store
 * @param onFallback asks the fallback
 */
record StoreOperation<T>(
        Effect effect, OnPrimary<T> onPrimary, BiFunction<LimitStore, List<Claim>, Mono<T>> onFallback) {

    /** What a call does to counts. */
    enum Effect {
        /** Takes permits. */
        TAKE,

        /** Only reads. */
        PEEK,

        /** Refunds, resets, or changes holds. */
        CHANGE
    }

    static final StoreOperation<StoreDecision> TAKE = new StoreOperation<>(
            Effect.TAKE,
            (store, claims, deadline) -> store.take(StoreRequest.take(claims, deadline)),
            (store, claims) -> store.take(StoreRequest.take(claims)));
    static final StoreOperation<StoreDecision> PEEK = new StoreOperation<>(
            Effect.PEEK,
            (store, claims, deadline) -> store.take(StoreRequest.peek(claims)),
            (store, claims) -> store.take(StoreRequest.peek(claims)));

    /** Returns an operation that changes counts on both stores. */
    static <T> StoreOperation<T> change(LongFunction<Mono<T>> onPrimary, Function<LimitStore, Mono<T>> onFallback) {
        return new StoreOperation<>(
                Effect.CHANGE,
                (store, claims, deadline) -> onPrimary.apply(deadline),
                (store, claims) -> onFallback.apply(store));
    }

    boolean isTake() {
        return effect == Effect.TAKE;
    }

    boolean isChange() {
        return effect == Effect.CHANGE;
    }

    @FunctionalInterface
    interface OnPrimary<T> {

        /**
         * Asks the store, which may execute the request until a time of {@link
         * io.github.spillgate.internal.Time#nanos}.
         */
        Mono<T> ask(LimitStore primary, List<Claim> claims, long deadline);
    }
}
