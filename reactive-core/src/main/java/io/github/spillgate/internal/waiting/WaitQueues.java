package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.holding.Bans;
import io.github.spillgate.internal.holding.HoldIds;
import io.github.spillgate.internal.holding.Redemption;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The wait queues of one limiter, one for each set of counts with waiters. A queue is removed when it is empty, and the
 * number of waiters is bounded, per queue and in total. Thread-safe.
 */
public final class WaitQueues {

    /** A longest wait without a bound. */
    public static final long FOREVER = Long.MAX_VALUE;

    private final NearMarks store;
    private final InstantSource clock;
    private final int maxPerQueue;
    private final int maxInTotal;
    private final UnaryOperator<List<Claim>> renewed;
    private final ConcurrentMap<String, WaitQueue> queues = new ConcurrentHashMap<>();
    private final AtomicInteger places = new AtomicInteger();
    private volatile @Nullable Supplier<? extends RuntimeException> closed;

    /**
     * Creates queues without waiters.
     *
     * @param renewed returns the claims of the same charges under the current limits; the same list if nothing differs
     */
    public WaitQueues(
            NearMarks store, InstantSource clock, int maxPerQueue, int maxInTotal, UnaryOperator<List<Claim>> renewed) {
        this.store = store;
        this.clock = clock;
        this.maxPerQueue = maxPerQueue;
        this.maxInTotal = maxInTotal;
        this.renewed = renewed;
    }

    /**
     * Returns the longest wait in nanoseconds. About 292 years or more mean {@link #FOREVER}.
     *
     * @throws IllegalArgumentException if it is negative
     */
    public static long checkLongestWait(Duration longestWait) {
        if (Checks.present(longestWait, "longestWait", "Duration.ofSeconds(2)").isNegative()) {
            throw new IllegalArgumentException("longestWait " + longestWait
                    + " is negative: expected zero or more, for example Duration.ofSeconds(2)");
        }
        return longestWait.toSeconds() >= FOREVER / 1_000_000_000 ? FOREVER : longestWait.toNanos();
    }

    /**
     * Takes the claims, waiting if necessary.
     *
     * @param claims the claims
     * @param currentClaims returns the same list until the limits are replaced
     * @param longestWait the longest wait, in nanoseconds
     */
    public Mono<Decision> acquire(List<Claim> claims, Supplier<List<Claim>> currentClaims, long longestWait) {
        Mono<Decision> acquired = new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super Decision> actual) {
                actual.onSubscribe(new Waiter(WaitQueues.this, claims, currentClaims, longestWait, actual));
            }
        };
        // The deadline of the store applies to each attempt, and starts when the attempt is sent.
        return acquired.contextWrite(context -> context.delete(LimitStore.WAITING_SINCE));
    }

    /** Adds the waiter to the queue of its counts, where it is served or denied at once if possible. */
    void join(Waiter waiter) {
        Supplier<? extends RuntimeException> before = closed;
        if (before != null) {
            waiter.fail(before.get());
            return;
        }
        // Joins within "compute", so that waiters are in order even if one queue is removed and another one is created.
        WaitQueue joined = queues.compute(name(waiter.claims), (name, existing) -> {
            WaitQueue queue = existing == null ? new WaitQueue(this, name) : existing;
            queue.join(waiter);
            return queue;
        });
        joined.drain();
        if (waiter.isOutdated()) {
            // The limits were replaced, and "renew" may have visited all queues before this waiter joined.
            renew(joined);
        }
        // A second check: if the queue was added after "close" had visited all queues, nothing else fails its waiters.
        Supplier<? extends RuntimeException> reason = closed;
        if (reason != null) {
            joined.fail(reason.get());
        }
    }

    /**
     * Wakes the waiters for the charges of these claims, because permits may have become available. If the limits were
     * replaced since, they wait for other counts, which may include those of the claims.
     */
    public void wake(List<Claim> claims) {
        if (queues.isEmpty()) {
            return;
        }
        wake(name(claims));
        List<Claim> now = renewed.apply(claims);
        if (now != claims) {
            wake(name(now));
        }
    }

    private void wake(String name) {
        WaitQueue queue = queues.get(name);
        if (queue != null) {
            queue.wake();
        }
    }

    /** Gives all waiters their claims under the current limits, which have replaced others. */
    public void renew() {
        for (WaitQueue queue : queues.values()) {
            renew(queue);
        }
    }

    private void renew(WaitQueue queue) {
        for (Waiter moved : queue.renew()) {
            join(moved);
            if (moved.isEnded()) {
                // It may have been cancelled while it was in no queue, when "leave" had no effect.
                moved.leave();
            }
        }
    }

    /** Fails all current and future waiters. */
    public void close(Supplier<? extends RuntimeException> reason) {
        closed = reason;
        for (WaitQueue queue : queues.values()) {
            queue.fail(reason.get());
        }
    }

    /** Makes one attempt to take the claims. */
    Mono<StoreDecision> take(List<Claim> claims) {
        return Mono.defer(() -> {
            for (Claim claim : claims) {
                if (claim.limit().isCountingDenied() && claim.limit().takesPermits()) {
                    // A waiting request must not be recorded as denied, so this peeks before it takes.
                    return store.take(StoreRequest.peek(claims))
                            .flatMap(decision -> decision.isAllowed() ? takeAtOnce(claims) : Mono.just(decision));
                }
            }
            return takeAtOnce(claims);
        });
    }

    private Mono<StoreDecision> takeAtOnce(List<Claim> claims) {
        return store.take(StoreRequest.take(HoldIds.assign(Bans.withoutStrikes(claims))));
    }

    /** Refunds a decision that no caller uses. Does not wait for that. */
    public void refund(Decision decision) {
        if (decision instanceof StoreDecision made) {
            Redemption unused = Redemption.of(made, usage -> true);
            if (!unused.isEmpty()) {
                store.dropped(made);
                Mono.defer(() -> unused.refund(store))
                        .doFinally(end -> wake(unused.claims()))
                        .subscribe(null, error -> Dropped.report(error));
            }
        }
    }

    /** Removes the queue if it is idle. */
    void retire(WaitQueue queue) {
        queues.computeIfPresent(
                queue.name(), (name, existing) -> existing == queue && queue.isIdle() ? null : existing);
    }

    /** Reserves a place for a waiter. Returns false if the total is reached. */
    boolean reservePlace() {
        int taken = places.get();
        while (taken < maxInTotal) {
            if (places.compareAndSet(taken, taken + 1)) {
                return true;
            }
            taken = places.get();
        }
        return false;
    }

    void releasePlaces(int number) {
        places.addAndGet(-number);
    }

    int maxPerQueue() {
        return maxPerQueue;
    }

    InstantSource clock() {
        return clock;
    }

    // The scheduler is looked up on each use, as in Reactor's own operators, so that tests can set a virtual time.

    void schedule(Runnable task) {
        Schedulers.parallel().schedule(task);
    }

    Disposable schedule(Runnable task, long nanos) {
        return Schedulers.parallel().schedule(task, nanos, TimeUnit.NANOSECONDS);
    }

    /** Returns the number of queues, for tests. */
    public int size() {
        return queues.size();
    }

    /** Returns the number of reserved places, for tests. */
    public int reserved() {
        return places.get();
    }

    public static String name(List<? extends Claim> claims) {
        if (claims.size() == 1) {
            return claims.get(0).identity();
        }
        StringBuilder name = new StringBuilder();
        for (Claim claim : claims) {
            name.append(claim.identity()).append(' ');
        }
        return name.toString();
    }
}
