package io.github.spillgate;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * A store that holds its replies until the test releases them, in any order. Permits of holders are released and
 * renewed at once, because no caller waits for that.
 */
final class HeldStore extends Unprotected {

    private final LimitStore store;
    private final List<Held<?>> held = new ArrayList<>();
    private boolean early = true;
    private int takes;
    private int peeks;

    HeldStore(LimitStore store) {
        super(store);
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
        held.remove(which).sink.tryEmitError(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return super.take(claims).doOnSubscribe(any -> takes++);
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return super.peek(claims).doOnSubscribe(any -> peeks++);
    }

    @Override
    protected <T> Mono<T> around(Mono<T> operation) {
        return Mono.defer(() -> hold(operation));
    }

    @Override
    public Mono<Void> release(List<Claim> holds) {
        return store.hold(holds, HoldAction.RELEASE).then();
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return store.hold(holds, HoldAction.RENEW);
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
