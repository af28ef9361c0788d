package io.github.spillgate;

import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** A store that holds its replies until the test releases them, in any order. */
final class HeldStore implements LimitStore {

    private final LimitStore store;
    private final List<Held<?>> held = new ArrayList<>();
    private boolean early = true;
    private int takes;
    private int peeks;

    HeldStore(LimitStore store) {
        this.store = store;
    }

    /** Sets whether the store decides at the call, or only when its reply is released. */
    void decidesEarly(boolean early) {
        this.early = early;
    }

    int held() {
        return held.size();
    }

    int takes() {
        return takes;
    }

    int peeks() {
        return peeks;
    }

    void answer(int which) {
        held.remove(which).answer();
    }

    /** Releases all replies, also those to calls that these cause. */
    void answerAll() {
        while (!held.isEmpty()) {
            answer(0);
        }
    }

    void fail(int which) {
        held.remove(which).sink.tryEmitError(new LimitStoreUnavailableException("told to fail", null));
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return Mono.defer(() -> {
            takes++;
            return hold(store.take(claims));
        });
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return Mono.defer(() -> {
            peeks++;
            return hold(store.peek(claims));
        });
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        return Mono.defer(() -> hold(store.refund(decision)));
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return Mono.defer(() -> hold(store.refund(claims)));
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return Mono.defer(() -> hold(store.refundCharged(permits)));
    }

    /** At once, because no caller waits for it. */
    @Override
    public Mono<Void> release(List<Claim> holds) {
        return store.release(holds);
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return store.renew(holds);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.defer(() -> hold(store.reset(claims)));
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    private <T> Mono<T> hold(Mono<T> decision) {
        Mono<T> decided = decision.cache();
        if (early) {
            decided.subscribe();
        }
        Held<T> one = new Held<>(decided, Sinks.one());
        held.add(one);
        return one.sink.asMono();
    }

    private record Held<T>(Mono<T> decided, Sinks.One<T> sink) {
        void answer() {
            decided.subscribe(sink::tryEmitValue, sink::tryEmitError, sink::tryEmitEmpty);
        }
    }
}
