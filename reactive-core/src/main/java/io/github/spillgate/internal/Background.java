package io.github.spillgate.internal;

import java.util.Objects;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * The thread of deadlines, probes and deliveries. It runs no code of callers, so no caller can hold it: what a caller
 * waits for is emitted on {@code Schedulers.parallel()}.
 */
public final class Background {

    private static volatile @Nullable Background current;

    /** The shared scheduler of Reactor when this was created. Reactor replaces it together with its factory. */
    private final Scheduler parallel;

    private final Scheduler own = Schedulers.newParallel("spillgate", 1, true);

    private Background(Scheduler parallel) {
        this.parallel = parallel;
    }

    /**
     * Returns the scheduler, which all stores of this process share.
     *
     * @return the scheduler, with one thread
     */
    public static Scheduler scheduler() {
        Scheduler parallel = Schedulers.parallel();
        Background known = current;
        return known != null && known.parallel == parallel ? known.own : renewed(parallel);
    }

    private static synchronized Scheduler renewed(Scheduler parallel) {
        Background known = current;
        if (known == null || known.parallel != parallel) {
            if (known != null) {
                known.own.dispose();
            }
            known = new Background(parallel);
            current = known;
        }
        return Objects.requireNonNull(known).own;
    }
}
