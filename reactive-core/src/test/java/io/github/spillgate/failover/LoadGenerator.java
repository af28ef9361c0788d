package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.SignalType;

/**
 * Callers of a limiter that never pause: each has one operation in flight, and starts the next when that ends. Nearly
 * all take permits, which are entered in the ledger; a few peek, refund, reset and wait, on keys of their own.
 */
final class LoadGenerator {

    static final Duration LONGEST_WAIT = Duration.ofMillis(50);

    private static final int MOST_ERRORS_KEPT = 10;

    private static final Limit HOT = Limit.perHour(500);
    private static final Limit PLAIN = Limit.perDay(2_000);
    private static final Limit SHORT = Limit.of(20, Duration.ofMillis(100));
    private static final Limit COUNTER = Limit.perDay(5_000).counter();
    private static final Limit FLOW = Limit.perSecond(300).burst(30);

    /** Not one permit returns during a test. */
    private static final Limit BUCKET = Limit.bucket(60, Duration.ofDays(366), 5_000);

    private static final Limit SIDE = Limit.of(50, Duration.ofMillis(20));
    private static final List<Limit> SEVERAL =
            List.of(Limit.perHour(3_000), Limit.perDay(5_000).counter(), Limit.of(200, Duration.ofMillis(500)), BUCKET);

    private final RateLimiter limiter;
    private final Admissions ledger;
    private final Executor threads;
    private final AtomicInteger callers = new AtomicInteger();
    private final Map<Source, LongAdder> decisions = new ConcurrentHashMap<>();
    private final LatencyHistogram open = new LatencyHistogram();
    private final LatencyHistogram notOpen = new LatencyHistogram();
    private final LatencyHistogram others = new LatencyHistogram();
    private final LatencyHistogram waits = new LatencyHistogram();
    private final Map<String, Decision> toRefund = new ConcurrentHashMap<>();
    private final Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
    private volatile boolean stopping;

    /**
     * Callers of a limiter.
     *
     * @param threads runs each operation, not at once
     */
    LoadGenerator(RateLimiter limiter, Admissions ledger, Executor threads) {
        this.limiter = limiter;
        this.ledger = ledger;
        this.threads = threads;
    }

    void start(int inFlight) {
        stopping = false;
        callers.addAndGet(inFlight);
        for (int i = 0; i < inFlight; i++) {
            next();
        }
    }

    /** Starts no further operations. */
    void stop() {
        stopping = true;
    }

    boolean isOver() {
        return callers.get() == 0;
    }

    /** Returns the number of decisions of this source. */
    long decidedBy(Source source) {
        LongAdder number = decisions.get(source);
        return number == null ? 0 : number.sum();
    }

    List<Throwable> errors() {
        return List.copyOf(errors);
    }

    /** Returns the latencies of decisions requested while the breaker was open. */
    LatencyHistogram open() {
        return open;
    }

    /** Returns the latencies of decisions requested while the breaker was not open. */
    LatencyHistogram notOpen() {
        return notOpen;
    }

    /** Returns the latencies of peeks, refunds and resets. */
    LatencyHistogram others() {
        return others;
    }

    /** Returns the latencies of calls that waited for permits, for at most {@link #LONGEST_WAIT}. */
    LatencyHistogram waits() {
        return waits;
    }

    /** Switches threads, because a synchronous answer would recurse until the stack overflows. */
    private void next() {
        if (stopping) {
            callers.decrementAndGet();
        } else {
            threads.execute(this::call);
        }
    }

    private void call() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int which = random.nextInt(100);
        if (which < 97) {
            LatencyHistogram times = limiter.state().breaker() == Breaker.OPEN ? open : notOpen;
            decision(which, random).subscribe(new Caller<>(times, true));
        } else {
            other(random);
        }
    }

    private Mono<Decision> decision(int which, ThreadLocalRandom random) {
        if (which < 25) {
            return limiter.tryAcquire(Charge.of("hot", HOT));
        }
        if (which < 55) {
            return limiter.tryAcquire(plain(random).permits(1 + random.nextInt(3)));
        }
        if (which < 65) {
            return limiter.tryAcquire(
                    Charge.of("short-" + random.nextInt(10), SHORT).permits(1 + random.nextInt(3)));
        }
        if (which < 70) {
            return limiter.tryAcquire(
                    Charge.of("flow-" + random.nextInt(5), FLOW).permits(1 + random.nextInt(3)));
        }
        if (which < 75) {
            return limiter.tryAcquire(Charge.of("counter-" + random.nextInt(50), COUNTER));
        }
        if (which < 80) {
            return limiter.tryAcquire(
                    Charge.of("bucket-" + random.nextInt(20), BUCKET).permits(1 + random.nextInt(3)));
        }
        if (which < 90) {
            return limiter.tryAcquire(Charge.of("several-" + random.nextInt(50), SEVERAL));
        }
        return limiter.tryAcquire(Charge.of("team-" + random.nextInt(5), COUNTER), plain(random));
    }

    private static Charge plain(ThreadLocalRandom random) {
        return Charge.of("plain-" + random.nextInt(200), PLAIN);
    }

    private void other(ThreadLocalRandom random) {
        String key = "side-" + random.nextInt(10);
        Charge charge = Charge.of(key, SIDE);
        switch (random.nextInt(5)) {
            case 0 -> limiter.peek(charge).subscribe(new Caller<>(others, false));
            case 1 -> limiter.refund(charge).subscribe(new Caller<>(others, false));
            case 2 -> limiter.reset(charge).subscribe(new Caller<>(others, false));
            case 3 -> {
                Decision decision = toRefund.remove(key);
                Mono<Void> refund = decision == null ? limiter.refund(charge) : limiter.refund(decision);
                refund.subscribe(new Caller<>(others, false));
            }
            default ->
                limiter.acquire(List.of(charge), LONGEST_WAIT)
                        .doOnNext(decision -> toRefund.put(key, decision))
                        .subscribe(new Caller<>(waits, false));
        }
    }

    /** A caller with one operation in flight. */
    private final class Caller<T> extends BaseSubscriber<T> {

        private final LatencyHistogram times;
        private final boolean decides;
        private final long requestedAt = System.nanoTime();
        private @Nullable Decision decision;

        Caller(LatencyHistogram times, boolean decides) {
            this.times = times;
            this.decides = decides;
        }

        @Override
        protected void hookOnSubscribe(Subscription subscription) {
            subscription.request(1);
        }

        @Override
        protected void hookOnNext(T answer) {
            if (decides) {
                decision = (Decision) answer;
            }
        }

        @Override
        protected void hookOnError(Throwable error) {
            recordError(error);
        }

        @Override
        protected void hookFinally(SignalType type) {
            long decidedAt = System.nanoTime();
            times.add(decidedAt - requestedAt);
            if (decides) {
                if (decision == null) {
                    recordError(new AssertionError("a decision that ends without one: " + type));
                } else {
                    ledger.add(decision, requestedAt, decidedAt);
                    decisions
                            .computeIfAbsent(decision.source(), source -> new LongAdder())
                            .increment();
                }
            }
            next();
        }

        private void recordError(Throwable error) {
            if (errors.size() < MOST_ERRORS_KEPT) {
                errors.add(error);
            }
        }
    }
}
