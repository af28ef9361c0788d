package io.github.spillgate.postgres;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiFunction;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Deletes expired rows: now and then those in some pages of the table, so that each page has its turn in a minute. */
final class Sweeper implements Disposable {
    // Design notes.
    //
    // An index on the expiry would find these rows at once, but each write of a row would then write the index too. So
    // the rows are found by reading all pages, a part of them each second. Each instance does that, because one that
    // stops must not stop the others; but a lock lets only one of them sweep at a time.

    private static final Logger LOG = Loggers.getLogger(PostgresStore.class);

    private static final Duration PAUSE = Duration.ofSeconds(1);
    private static final long FEWEST_PAGES = 128;
    private static final long ROUNDS = 60;

    private final String store;
    private final BiFunction<String, String, Mono<Long>> sweep;
    private final AtomicBoolean isStarted = new AtomicBoolean();
    private final Disposable.Swap timer = Disposables.swap();

    // Used by one sweep at a time.
    private volatile long next;
    private volatile long size;
    private volatile boolean isRefused;

    /**
     * Creates the sweeper; it does nothing until it is started.
     *
     * @param store the description of the store, for logs
     * @param sweep deletes the expired rows between two places of the table, and emits its number of pages
     */
    Sweeper(String store, BiFunction<String, String, Mono<Long>> sweep) {
        this.store = store;
        this.sweep = sweep;
    }

    /** Starts the timer, unless it was started before. */
    void start() {
        if (isStarted.compareAndSet(false, true)) {
            timer.update(Flux.interval(PAUSE, Background.scheduler())
                    .onBackpressureDrop()
                    .concatMap(tick -> sweep(), 1)
                    .subscribe());
        }
    }

    /** Deletes expired rows of the next pages. It never fails: an outage is reported by those that decide. */
    private Mono<Void> sweep() {
        long first = next > size ? 0 : next;
        long end = first + Math.max(FEWEST_PAGES, size / ROUNDS);
        return sweep.apply("(" + first + ",0)", "(" + end + ",0)")
                .doOnNext(pages -> {
                    size = pages;
                    next = end;
                    isRefused = false;
                })
                .doOnError(Kind.REFUSED::isOf, this::report)
                .onErrorComplete()
                .then();
    }

    private void report(Throwable error) {
        if (!isRefused) {
            isRefused = true;
            LOG.warn("{} cannot delete expired rows, and the table grows: {}", store, Text.line(error.getMessage()));
        }
    }

    @Override
    public void dispose() {
        timer.dispose();
    }
}
