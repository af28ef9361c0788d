package io.github.spillgate.failover;

import static io.github.spillgate.testkit.LoopRequests.isEmittedOnLoop;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Schedulers;

/** The threads on which the callers of a test request decisions, and the store for them. */
final class CallerThreads implements AutoCloseable {

    /** Which threads. */
    enum Kind {
        /** Those of Reactor's parallel scheduler, which share the lane of the store. */
        PARALLEL,

        /** Event loops of an application, each with a lane of its own. */
        EVENT_LOOPS
    }

    private static final int LOOPS = 3;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Charge FIRST = Charge.of("first", Limit.perHour(1));

    private final @Nullable EventLoopGroup loops;

    CallerThreads(Kind kind) {
        loops = kind == Kind.EVENT_LOOPS ? new MultiThreadIoEventLoopGroup(LOOPS, NioIoHandler.newFactory()) : null;
    }

    /** Creates a store that has lanes for these threads. */
    RedisStore store(RedisClient client, RedisURI uri) {
        RedisStore.Builder store = RedisStore.builder(client);
        return loops == null ? store.build() : store.nodes(List.of(uri)).build();
    }

    /** Runs a task on one of the threads, on each in turn. */
    void execute(Runnable task) {
        if (loops == null) {
            Schedulers.parallel().schedule(task);
        } else {
            loops.execute(task);
        }
    }

    /** Runs a task on one of the threads, on each in turn. */
    void schedule(Runnable task, int millis) {
        if (loops == null) {
            Schedulers.parallel().schedule(task, millis, TimeUnit.MILLISECONDS);
        } else {
            Future<?> unused = loops.schedule(task, millis, TimeUnit.MILLISECONDS);
        }
    }

    /** Waits until each event loop has a lane that works. */
    void awaitLanes(RateLimiter limiter) {
        if (loops != null) {
            loops.forEach(loop ->
                    await().atMost(PATIENCE).until(() -> isEmittedOnLoop((EventLoop) loop, limiter.peek(FIRST))));
        }
    }

    @Override
    public void close() {
        if (loops != null) {
            Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        }
    }
}
