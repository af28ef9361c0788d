package io.github.spillgate.redis.lane;

import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Logs that the event loop of a connection is blocked, and where: once a minute for each thread. */
final class BlockedLoopLog {
    // Design notes.
    //
    // After a decision has missed its deadline, a task is added to the loop. If it has not run within a second, and not
    // a little later either, the loop is blocked: the thread that looks has run twice in between, so the process is not
    // stalled as a whole.

    /** In milliseconds. */
    private static final long BLOCKED = 1_000;

    private static final long A_LITTLE_LATER = 100;

    private static final Logger LOG = Loggers.getLogger(BlockedLoopLog.class);
    private static final LoggedCauses LOGGED = new LoggedCauses(Time::nanos);

    private final OpenConnection connection;
    private final AtomicBoolean isLooking = new AtomicBoolean();
    private volatile @Nullable Thread thread;

    BlockedLoopLog(OpenConnection connection) {
        this.connection = connection;
    }

    /** Notes that the current thread is that of the loop. */
    void noteThread() {
        thread = Thread.currentThread();
    }

    /** Begins to look whether the loop runs. */
    void look() {
        Thread watched = thread;
        if (watched == null || !isLooking.compareAndSet(false, true)) {
            return;
        }
        AtomicBoolean hasRun = new AtomicBoolean();
        if (connection.runLater(0, () -> hasRun.set(true))) {
            later(
                    BLOCKED,
                    () -> later(A_LITTLE_LATER, () -> {
                        isLooking.set(false);
                        if (!hasRun.get() && LOGGED.add(watched.getName())) {
                            report(watched);
                        }
                    }));
        }
    }

    private static void later(long millis, Runnable task) {
        Background.scheduler().schedule(task, millis, TimeUnit.MILLISECONDS);
    }

    private static void report(Thread blocked) {
        String place = Arrays.stream(blocked.getStackTrace())
                .filter(frame -> !frame.getClassName().matches("(java|javax|jdk|sun)\\..*"))
                .findFirst()
                .map(frame -> frame.toString().replaceFirst(".*/", ""))
                .orElse("an unknown place");
        LOG.warn(
                "Event loop {} has read no reply of Redis for a second, because a caller blocks it: expected none that"
                        + " does, for example with publishOn(Schedulers.boundedElastic()); it is at {}",
                Text.line(blocked.getName()),
                place);
    }
}
