package io.github.spillgate.postgres;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.stream.Stream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Callers that do everything with few keys and short limits, without pauses: rows are created, changed and expire. */
final class MixedTraffic {

    private static final int CALLERS = 24;
    private static final int KEYS = 40;
    private static final int SELDOM_USED_KEYS = 3_000;

    private static final List<Limit> LIMITS = List.of(
            Limit.of(20, Duration.ofMillis(300)),
            Limit.of(2_000, Duration.ofSeconds(2)),
            Limit.counter(300, Duration.ofSeconds(1)),
            Limit.bucket(200, Duration.ofSeconds(1), 50));
    private static final List<Limit> LEASED = List.of(
            Limit.of(2_000, Duration.ofSeconds(1)).leased(),
            Limit.bucket(2_000, Duration.ofSeconds(1), 400).leased());
    private static final Limit CONCURRENT = Limit.concurrent(5).hold(Limit.SHORTEST_HOLD);

    private final RateLimiter limiter;
    private final LongAdder inPostgres = new LongAdder();
    private final LongAdder elsewhere = new LongAdder();

    MixedTraffic(RateLimiter limiter) {
        this.limiter = limiter;
    }

    /** Returns a Mono that ends a little after the traffic is stopped. */
    Mono<Void> until(Mono<Void> stop, Consumer<String> onError) {
        return Flux.range(0, CALLERS)
                .flatMap(
                        caller -> Mono.defer(this::step)
                                .subscribeOn(Schedulers.parallel())
                                .doOnError(error -> onError.accept(error.toString()))
                                .onErrorComplete()
                                .repeat()
                                .takeUntilOther(stop),
                        CALLERS)
                .then();
    }

    long inPostgres() {
        return inPostgres.sum();
    }

    long elsewhere() {
        return elsewhere.sum();
    }

    private Mono<Void> step() {
        int which = random(100);
        if (which < 60) {
            return take().then();
        } else if (which < 68) {
            return take().flatMap(limiter::refund);
        } else if (which < 78) {
            return take().flatMap(decision -> limiter.settle(decision, random(5)));
        } else if (which < 82) {
            return limiter.refund(charge());
        } else if (which < 86) {
            return limiter.reset(charge(), charge());
        } else if (which < 90) {
            return decided(limiter.tryAcquire(Charge.of(key(), CONCURRENT))).flatMap(limiter::release);
        } else if (which < 92) {
            return limiter.peek(charge(), charge()).then();
        }
        return decided(limiter.tryAcquire(Charge.of(key(), LEASED.get(random(LEASED.size())))))
                .then();
    }

    /** Takes permits of up to three keys, under up to three limits each, in any order. */
    private Mono<Decision> take() {
        return decided(limiter.tryAcquire(
                Stream.generate(MixedTraffic::charge).limit(1 + random(3)).toArray(Charge[]::new)));
    }

    private Mono<Decision> decided(Mono<Decision> decision) {
        return decision.doOnNext(made -> (made.source() == Source.POSTGRES ? inPostgres : elsewhere).increment());
    }

    private static Charge charge() {
        List<Limit> limits = new ArrayList<>(LIMITS);
        Collections.shuffle(limits, ThreadLocalRandom.current());
        return Charge.of(key(), limits.subList(0, 1 + random(3)).toArray(Limit[]::new))
                .permits(1 + random(3));
    }

    private static String key() {
        return "key-" + (random(3) > 0 ? random(KEYS) : KEYS + random(SELDOM_USED_KEYS));
    }

    private static int random(int bound) {
        return ThreadLocalRandom.current().nextInt(bound);
    }
}
