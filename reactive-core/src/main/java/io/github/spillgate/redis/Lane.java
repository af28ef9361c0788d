package io.github.spillgate.redis;

import io.lettuce.core.api.StatefulRedisConnection;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * A connection to one server, and the decisions that are sent on it.
 *
 * <p>Each server has a lane of the store, for callers on any thread. It also has a lane on each event loop of the
 * application: a decision that is requested on an event loop is sent, answered and continued on that loop.
 */
final class Lane {

    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final Server server;
    private final BatchBounds bounds;
    private final CountKeys keys;
    private final @Nullable Scheduler deliverOn;
    private final Connection connection;

    /** Whether and when an event loop of the application began to open the connection; only that loop uses them. */
    private boolean hasTried;

    private long triedAt;

    /**
     * A lane.
     *
     * @param connector connects to the server; may block
     * @param deliverOn emits the answers; null if all callers are on the event loop of the connection
     */
    Lane(
            Server server,
            Supplier<StatefulRedisConnection<byte[], byte[]>> connector,
            Server.Settings settings,
            @Nullable Scheduler deliverOn) {
        this.server = server;
        this.bounds = settings.bounds();
        this.keys = settings.keys();
        this.deliverOn = deliverOn;
        this.connection = new Connection(
                connector,
                server.script(Script.Purpose.DECIDE)::sendIdle,
                Lane::nanoTime,
                settings.longestSilence(),
                this::newQueue);
    }

    private BatchQueue newQueue(OpenConnection open) {
        return new BatchQueue(
                open, batch -> server.decide(batch, open), keys, bounds, deliverOn, server::hasAnsweredSince);
    }

    Connection connection() {
        return connection;
    }

    /** Returns whether the server has replied on this lane to a command that was sent after this time. */
    boolean hasAnsweredSince(long time) {
        OpenConnection open = connection.ifResponsive();
        return open != null && open.hasAnsweredSince(time);
    }

    /**
     * Returns the connection if it is open; otherwise begins to open it. On an event loop of the application it begins
     * at most once a second: other lanes may work, so no breaker would stop the attempts. Nor does one there return a
     * connection that has stalled alone: until a reply arrives or it is replaced, the lane of the store is used.
     */
    @Nullable
    OpenConnection ifOpen() {
        if (deliverOn != null) {
            return connection.ifOpen();
        }
        OpenConnection open = connection.ifResponsive();
        if (open == null && isTimeToTry()) {
            open = connection.ifOpen();
        }
        return open == null || open.isStalled() ? null : open;
    }

    private boolean isTimeToTry() {
        long now = nanoTime();
        boolean isTime = !hasTried || now - triedAt >= PAUSE;
        if (isTime) {
            hasTried = true;
            triedAt = now;
        }
        return isTime;
    }

    static long nanoTime() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }
}
