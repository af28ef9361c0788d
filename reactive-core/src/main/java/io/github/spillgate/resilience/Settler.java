package io.github.spillgate.resilience;

import io.github.spillgate.Decision;
import io.github.spillgate.FallbackStore;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.Settlement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Charges in the store what the fallback has admitted in its place: in small batches, one at a time, with a pause after each as
 * long as it took, so that decisions hardly notice. What has been handed over is sent until its fate is known, always under the
 * same ids; so nothing is charged twice, and nothing else is handed over meanwhile.
 *
 * <p>It runs once a second while something is to be settled, and not at all else. As it passes the same gate as all questions, it
 * also finds out by itself that the store is back when nobody asks for decisions.
 */
final class Settler {

    static final int BATCH = 32;

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);
    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long SHORTEST_REST = TimeUnit.MILLISECONDS.toNanos(20);
    private static final Duration LONGEST_TRIP = Duration.ofSeconds(1);
    private static final Duration LAST_CHANCE = Duration.ofSeconds(1);

    private final LimitStore primary;
    private final FallbackStore fallback;
    private final Gate gate;
    private final Doubts doubts;
    private final AtomicBoolean awake = new AtomicBoolean();
    private final AtomicLong alarms = new AtomicLong();
    private final AtomicBoolean hurried = new AtomicBoolean();
    private final AtomicBoolean working = new AtomicBoolean();
    private final Sinks.Empty<Void> ended = Sinks.empty();
    private final AtomicBoolean ending = new AtomicBoolean();

    /** What has been handed over, and has not been settled for all that is known; whoever works has it. */
    private volatile List<Settlement> sent = List.of();

    /** Whether the store has done what is needed before it can settle at once; whoever works has it. */
    private volatile boolean ready;

    private volatile long restsSince = Deadlines.now() - SHORTEST_REST;

    Settler(LimitStore primary, FallbackStore fallback, Gate gate, Doubts doubts) {
        this.primary = primary;
        this.fallback = fallback;
        this.gate = gate;
        this.doubts = doubts;
    }

    /** There is something to settle. */
    void wake() {
        if (!awake.get() && !ending.get() && awake.compareAndSet(false, true)) {
            later(PAUSE);
        }
    }

    /** Sets the alarm; the one that was set before does not ring any more. */
    private void later(long nanos) {
        long mine = alarms.incrementAndGet();
        Schedulers.parallel()
                .schedule(
                        () -> {
                            if (alarms.get() == mine) {
                                settle();
                            }
                        },
                        nanos,
                        TimeUnit.NANOSECONDS);
    }

    /** Somebody asks for what the store must not decide before it is settled. */
    void hurry() {
        if (!working.get() && Deadlines.now() - restsSince > SHORTEST_REST && hurried.compareAndSet(false, true)) {
            later(0);
        }
    }

    private void settle() {
        if (!working.compareAndSet(false, true)) {
            return;
        }
        hurried.set(false);
        if (fallback.state().toSettle() == 0 || gate.pass() == Gate.Passage.NO) {
            rest();
            return;
        }
        // What is handed over is for the store to decide from then on. So it must be sent at once, and must not be held
        // up there for want of a script.
        Mono.defer(ready ? Mono::empty : primary::prepare)
                .then(Mono.defer(this::send))
                .timeout(LONGEST_TRIP, Mono.error(this::unanswered), Schedulers.parallel())
                .subscribe(new Reply());
    }

    private LimitStoreUnansweredException unanswered() {
        return new LimitStoreUnansweredException(
                primary + " has not answered within " + LONGEST_TRIP.toMillis() + " ms what was to be settled", null);
    }

    private Mono<Decision> send() {
        ready = true;
        List<Settlement> batch = new ArrayList<>(sent);
        batch.removeIf(this::isOver);
        if (batch.isEmpty()) {
            batch = fallback.toSettle(BATCH, doubts::on);
        }
        sent = batch;
        return batch.isEmpty() ? Mono.empty() : primary.settle(batch);
    }

    /** What does not count any more has not to be charged. */
    private boolean isOver(Settlement settlement) {
        if (settlement.counts()) {
            return false;
        }
        fallback.settled(settlement, false);
        return true;
    }

    private void rest() {
        restsSince = Deadlines.now();
        working.set(false);
        if (ending.get()) {
            finish();
        } else if (fallback.state().toSettle() > 0) {
            later(PAUSE);
        } else {
            ready = false;
            awake.set(false);
            if (fallback.state().toSettle() > 0) {
                wake();
            }
        }
    }

    /** Tries once more what is left, and ends. */
    Mono<Void> end() {
        if (ending.compareAndSet(false, true)) {
            Schedulers.parallel().schedule(this::finish, LAST_CHANCE.toNanos(), TimeUnit.NANOSECONDS);
            later(0);
        }
        return ended.asMono();
    }

    private void finish() {
        if (ended.tryEmitEmpty().isSuccess()) {
            long left = fallback.state().toSettle();
            if (left > 0) {
                LOG.warn("{} permits that {} has granted will not be charged in {}", left, fallback, primary);
            }
        }
    }

    /** Hears what has become of a batch. */
    private final class Reply extends BaseSubscriber<Decision> {

        private final long start = Deadlines.now();
        private @Nullable Decision known;

        @Override
        protected void hookOnNext(Decision decision) {
            known = decision;
        }

        @Override
        protected void hookOnComplete() {
            long took = Deadlines.now() - start;
            gate.answered(took);
            gate.leave();
            if (sent.isEmpty()) {
                rest();
            } else {
                settled(known);
                working.set(false);
                later(Math.max(SHORTEST_PAUSE, Math.min(LONGEST_PAUSE, took)));
            }
        }

        @Override
        protected void hookOnError(Throwable error) {
            ready = false;
            gate.failed(Deadlines.now() - start, error);
            gate.leave();
            if (error instanceof LimitStoreException && !(error instanceof LimitStoreUnavailableException)) {
                // To send the same once more does not help, and would hold up all that is to be settled behind it.
                settled(null);
            }
            rest();
        }
    }

    private void settled(@Nullable Decision known) {
        Set<String> charged = new HashSet<>();
        if (known != null) {
            fallback.remember(known);
            known.limits().forEach(usage -> charged.add(usage.claim().identity()));
        }
        for (Settlement one : sent) {
            fallback.settled(one, charged.contains(one.claim().identity()));
        }
        sent = List.of();
    }
}
