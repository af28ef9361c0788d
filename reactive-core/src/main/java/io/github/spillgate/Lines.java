package io.github.spillgate;

import java.time.InstantSource;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/**
 * All who wait for permits of one limiter, in lines: one for each set of counts that somebody waits for. No line
 * outlives the last who stands in it, and all of them together are bounded.
 */
final class Lines {

    private final LimitStore store;
    private final InstantSource clock;
    private final int mostInLine;
    private final int mostInAll;
    private final ConcurrentMap<String, Line> lines = new ConcurrentHashMap<>();
    private final AtomicInteger places = new AtomicInteger();
    private volatile @Nullable Supplier<? extends RuntimeException> closed;

    Lines(LimitStore store, InstantSource clock, int mostInLine, int mostInAll) {
        this.store = store;
        this.clock = clock;
        this.mostInLine = mostInLine;
        this.mostInAll = mostInAll;
    }

    /** Lets him wait, or tells him at once that he does not have to, or may not. */
    void join(Waiter waiter) {
        Supplier<? extends RuntimeException> before = closed;
        if (before != null) {
            waiter.failed(before.get());
            return;
        }
        // Joined inside of compute, so that who came first is first, also where a line ends and the next one begins.
        Line joined = lines.compute(name(waiter.claims), (name, there) -> {
            Line line = there == null ? new Line(this, name) : there;
            line.join(waiter);
            return line;
        });
        joined.go();
        Supplier<? extends RuntimeException> reason = closed;
        if (reason != null) {
            joined.fail(reason.get());
        }
    }

    /** More may be free for those who wait for these counts than they know. */
    void wake(List<Claim> claims) {
        Line line = lines.isEmpty() ? null : lines.get(name(claims));
        if (line != null) {
            line.wake();
        }
    }

    /** Ends the waiting of all, and of those who come later. */
    void close(Supplier<? extends RuntimeException> reason) {
        closed = reason;
        for (Line line : lines.values()) {
            line.fail(reason.get());
        }
    }

    Mono<Decision> ask(List<Claim> claims) {
        return Mono.defer(() -> {
            for (Claim claim : claims) {
                if (claim.limit().isCountingDenied()) {
                    // Who waits has not been denied; so he looks before he takes.
                    return store.peek(claims)
                            .flatMap(decision -> decision.isAllowed() ? store.take(claims) : Mono.just(decision));
                }
            }
            return store.take(claims);
        });
    }

    /** Gives back what nobody is there to use any more. */
    void giveBack(Decision decision) {
        if (decision.redeem()) {
            List<Claim> claims =
                    decision.limits().stream().map(Decision.Usage::claim).toList();
            Mono.defer(() -> store.refund(decision))
                    .doFinally(end -> wake(claims))
                    .subscribe(null, error -> Operators.onErrorDropped(error, Context.empty()));
        }
    }

    void retire(Line line) {
        lines.computeIfPresent(line.name(), (name, there) -> there == line && line.isIdle() ? null : there);
    }

    boolean takePlace() {
        int taken = places.get();
        while (taken < mostInAll) {
            if (places.compareAndSet(taken, taken + 1)) {
                return true;
            }
            taken = places.get();
        }
        return false;
    }

    void freePlaces(int number) {
        places.addAndGet(-number);
    }

    int mostInLine() {
        return mostInLine;
    }

    InstantSource clock() {
        return clock;
    }

    // The scheduler is asked for each time, as Reactor's own operators do, so that a test may set a virtual time.

    long nanos() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    void later(Runnable task) {
        Schedulers.parallel().schedule(task);
    }

    Disposable later(Runnable task, long nanos) {
        return Schedulers.parallel().schedule(task, nanos, TimeUnit.NANOSECONDS);
    }

    /** How many lines there are, for tests to look at. */
    int size() {
        return lines.size();
    }

    /** How many places are taken, for tests to look at. */
    int taken() {
        return places.get();
    }

    private static String name(List<Claim> claims) {
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
