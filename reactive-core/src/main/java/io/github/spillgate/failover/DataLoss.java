package io.github.spillgate.failover;

import io.github.spillgate.internal.Background;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.concurrent.Queues;
import reactor.util.retry.Retry;

/**
 * Restores counts of which the primary store knows less than it has confirmed to this instance, because it has lost
 * data.
 */
final class DataLoss {

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    private static final Duration TIMEOUT = Duration.ofSeconds(1);
    private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
    private static final int RETRIES = 5;
    private static final int CONCURRENT = 16;
    private static final int MOST_WAITING = 10_000;

    private final LimitStore primary;
    private final DoubleSupplier random;
    private final Sinks.Many<Restoration> waiting = Sinks.many()
            .unicast()
            .onBackpressureBuffer(Queues.<Restoration>get(MOST_WAITING).get());
    private final SummaryLog restoredCounts = new SummaryLog(this::log);

    DataLoss(LimitStore primary, DoubleSupplier random) {
        this.primary = primary;
        this.random = random;
        // Not on the thread that finds the loss, which holds the monitor of a count.
        waiting.asFlux()
                .publishOn(Background.scheduler())
                .flatMap(this::restore, CONCURRENT)
                .subscribe();
    }

    /**
     * Restores permits.
     *
     * @param restored called when the primary store has them again, or knows why not, with the usage then; null if the
     *     store does not say. Not called if it cannot be asked for a while
     */
    void restore(LostPermits permits, Consumer<@Nullable StoreDecision> restored) {
        synchronized (waiting) {
            // If the queue is full, the permits count in this process until they expire.
            waiting.tryEmitNext(new Restoration(permits, Deadlines.now(), restored));
        }
    }

    private Mono<Void> restore(Restoration one) {
        return Mono.defer(() -> primary.correct(List.of(one.present())))
                .timeout(TIMEOUT, Background.scheduler())
                .retryWhen(Retry.from(failures -> failures.concatMap(this::pause)))
                .singleOptional()
                .doOnNext(results -> finish(
                        one, results.isEmpty() ? null : reply(results.get().get(0))))
                .then()
                .onErrorResume(error -> {
                    LOG.debug("{} cannot restore lost permits: {}", primary, error.toString());
                    return Mono.empty();
                });
    }

    /** Waits twice as long after each failure, and up to half as long again: instances must not retry all at once. */
    private Mono<Long> pause(Retry.RetrySignal failed) {
        if (failed.totalRetries() == RETRIES) {
            return Mono.error(failed.failure());
        }
        long pause = FIRST_PAUSE.toMillis() << failed.totalRetries();
        return Mono.delay(Duration.ofMillis(pause + (long) (random.getAsDouble() * pause / 2)), Background.scheduler());
    }

    private static @Nullable StoreDecision reply(Corrected result) {
        return result.outcome() == CorrectionOutcome.UNSUPPORTED ? null : Ledger.reply(result);
    }

    private void finish(Restoration one, @Nullable StoreDecision reply) {
        if (reply != null && reply.stamp() > 0) {
            restoredCounts.count();
        }
        one.restored.accept(reply);
    }

    private void log(long counts) {
        LOG.warn("{} has lost data; {} counts were restored to what this instance knows", primary, counts);
    }

    private record Restoration(LostPermits permits, long noticedAt, Consumer<@Nullable StoreDecision> restored) {

        /** Returns the permits with their present ages. */
        LostPermits present() {
            return permits.after(TimeUnit.NANOSECONDS.toMillis(Deadlines.now() - noticedAt));
        }
    }
}
