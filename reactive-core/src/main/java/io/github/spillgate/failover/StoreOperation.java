package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * What a call does, on each of the two stores.
 *
 * @param <T> the type of the result
 */
final class StoreOperation<T> {

    /** What a call does to counts. */
    enum Kind {
        /** Takes permits. */
        TAKE,

        /** Only reads. */
        PEEK,

        /** Refunds, resets, or changes holds. */
        CHANGE
    }

    static final StoreOperation<StoreDecision> TAKE =
            new StoreOperation<>(Kind.TAKE, LimitStore::take, LimitStore::take);
    static final StoreOperation<StoreDecision> PEEK =
            new StoreOperation<>(Kind.PEEK, (store, claims, deadline) -> store.peek(claims), LimitStore::peek);

    private final Kind kind;
    private final OnPrimary<T> onPrimary;
    private final BiFunction<LimitStore, List<Claim>, Mono<T>> onFallback;

    private StoreOperation(Kind kind, OnPrimary<T> onPrimary, BiFunction<LimitStore, List<Claim>, Mono<T>> onFallback) {
        this.kind = kind;
        this.onPrimary = onPrimary;
        this.onFallback = onFallback;
    }

    /** Returns an operation that changes counts on both stores. */
    static StoreOperation<Void> change(
            LongFunction<Mono<Void>> onPrimary, Function<LimitStore, Mono<Void>> onFallback) {
        return new StoreOperation<>(
                Kind.CHANGE,
                (store, claims, deadline) -> onPrimary.apply(deadline),
                (store, claims) -> onFallback.apply(store));
    }

    /** Returns an operation that renews holds, and reports whether the primary store or the fallback has done so. */
    static StoreOperation<List<HoldRenewal>> renewal(
            Consumer<List<HoldRenewal>> onPrimary, Consumer<List<HoldRenewal>> onFallback) {
        return new StoreOperation<>(
                Kind.CHANGE,
                (store, claims, deadline) -> store.renew(claims).doOnNext(onPrimary),
                (store, claims) -> store.renew(claims).doOnNext(onFallback));
    }

    boolean isTake() {
        return kind == Kind.TAKE;
    }

    boolean isChange() {
        return kind == Kind.CHANGE;
    }

    /** Asks the primary store, which may execute the request until a time of {@link Deadlines#now}. */
    Mono<T> onPrimary(LimitStore primary, List<Claim> claims, long deadline) {
        return onPrimary.ask(primary, claims, deadline);
    }

    Mono<T> onFallback(LimitStore fallback, List<Claim> claims) {
        return onFallback.apply(fallback, claims);
    }

    /** Returns whether these claims may be granted from leases. */
    boolean maySpend(List<Claim> claims) {
        return kind == Kind.TAKE && Leases.areLeased(claims);
    }

    /** Returns a cached denial; null if a store has to be asked. */
    @SuppressWarnings("unchecked") // only taking has such results, and its result is a decision
    @Nullable
    T cachedDenial(Failover failover, List<Claim> claims) {
        return kind == Kind.TAKE ? (T) failover.denials().find(claims) : null;
    }

    /** Returns a grant from leases, or a cached denial, if {@link #maySpend}; null if a store has to be asked. */
    @SuppressWarnings("unchecked") // only taking may spend, and its result is a decision
    @Nullable
    T spend(Failover failover, List<Claim> claims) {
        StoreDecision leased = failover.leases().spend(claims);
        return leased == null ? cachedDenial(failover, claims) : (T) leased;
    }

    private interface OnPrimary<T> {
        Mono<T> ask(LimitStore primary, List<Claim> claims, long deadline);
    }
}
