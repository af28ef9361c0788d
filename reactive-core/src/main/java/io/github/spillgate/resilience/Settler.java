package io.github.spillgate.resilience;

import io.github.spillgate.Decision;
import io.github.spillgate.FallbackStore;
import io.github.spillgate.LimitStore;
import io.github.spillgate.Settlement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
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
    private static final Duration LONGEST_TRIP = Duration.ofSeconds(1);
    private static final Duration LAST_CHANCE = Duration.ofSeconds(1);

    private final LimitStore primary;
    private final FallbackStore fallback;
    private final Gate gate;
    private final Doubts doubts;
    private final AtomicBoolean awake = new AtomicBoolean();
    private final AtomicBoolean working = new AtomicBoolean();
    private final Sinks.Empty<Void> ended = Sinks.empty();
    private final AtomicBoolean ending = new AtomicBoolean();

    /** What has been handed over, and has not been settled for all that is known; whoever works has it. */
    private volatile List<Settlement> sent = List.of();

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

    private void later(long nanos) {
        Schedulers.parallel().schedule(this::settle, nanos, TimeUnit.NANOSECONDS);
    }

    private void settle() {
        if (!working.compareAndSet(false, true)) {
            return;
        }
        List<Settlement> batch = next();
        if (batch.isEmpty()) {
            rest();
        } else {
            send(batch);
        }
    }

    /** Returns what is to be sent, for which the gate has let us pass; empty if there is nothing that could be sent now. */
    private List<Settlement> next() {
        if (fallback.state().toSettle() == 0 || gate.pass() == Gate.Passage.NO) {
            return List.of();
        }
        List<Settlement> batch = new ArrayList<>(sent);
        batch.removeIf(this::isOver);
        if (batch.isEmpty()) {
            batch = fallback.toSettle(BATCH, doubts::on);
        }
        if (batch.isEmpty()) {
            gate.turnBack();
        }
        sent = batch;
        return batch;
    }

    /** What does not count any more has not to be charged. */
    private boolean isOver(Settlement settlement) {
        if (settlement.counts()) {
            return false;
        }
        fallback.settled(settlement, false);
        return true;
    }

    private void send(List<Settlement> batch) {
        Mono.defer(() -> primary.settle(batch))
                .timeout(LONGEST_TRIP, Schedulers.parallel())
                .subscribe(new Reply(batch));
    }

    private void rest() {
        working.set(false);
        if (ending.get()) {
            finish();
        } else if (fallback.state().toSettle() > 0) {
            later(PAUSE);
        } else {
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
            Schedulers.parallel().schedule(this::settle);
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

        private final List<Settlement> batch;
        private final long start = Deadlines.now();
        private @Nullable Decision known;

        Reply(List<Settlement> batch) {
            this.batch = batch;
        }

        @Override
        protected void hookOnNext(Decision decision) {
            known = decision;
        }

        @Override
        protected void hookOnComplete() {
            long took = Deadlines.now() - start;
            gate.answered(took);
            gate.leave();
            settled(batch, known);
            sent = List.of();
            working.set(false);
            later(Math.max(SHORTEST_PAUSE, Math.min(LONGEST_PAUSE, took)));
        }

        @Override
        protected void hookOnError(Throwable error) {
            gate.failed(Deadlines.now() - start, error);
            gate.leave();
            rest();
        }
    }

    private void settled(List<Settlement> batch, @Nullable Decision known) {
        Set<String> charged = new HashSet<>();
        if (known != null) {
            fallback.remember(known);
            known.limits().forEach(usage -> charged.add(usage.claim().identity()));
        }
        for (Settlement one : batch) {
            fallback.settled(one, charged.contains(one.claim().identity()));
        }
    }
}
