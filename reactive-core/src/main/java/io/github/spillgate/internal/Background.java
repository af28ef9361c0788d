package io.github.spillgate.internal;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * The thread of deadlines, probes and deliveries. It runs no code of callers, so no caller can hold it: what a caller
 * waits for is emitted on {@code Schedulers.parallel()}.
 */
public final class Background {
    // Design notes.
    //
    // It follows the shared scheduler of Reactor, which is another one as long as an application tests in virtual time,
    // and then the former again. So there is one for each that is not disposed.

    private static final Map<Scheduler, Scheduler> BY_PARALLEL = new ConcurrentHashMap<>();

    private static volatile @Nullable Pair newest;

    private Background() {}

    /**
     * Returns the scheduler, which all stores of this process share.
     *
     * @return the scheduler, with one thread
     */
    public static Scheduler scheduler() {
        Scheduler parallel = Schedulers.parallel();
        Pair known = newest;
        if (known != null && known.parallel == parallel) {
            return known.own;
        }
        BY_PARALLEL.forEach((shared, own) -> {
            if (shared.isDisposed() && BY_PARALLEL.remove(shared, own)) {
                own.dispose();
            }
        });
        Pair next = new Pair(
                parallel,
                BY_PARALLEL.computeIfAbsent(parallel, shared -> Schedulers.newParallel("spillgate", 1, true)));
        newest = next;
        return next.own;
    }

    private record Pair(Scheduler parallel, Scheduler own) {}
}
