package io.github.spillgate.redis.lane;

import static java.util.Objects.requireNonNull;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.internal.Turns;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCredentialsProvider;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Transports;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.concurrent.Future;
import io.netty.util.concurrent.SingleThreadEventExecutor;
import io.netty.util.internal.ThreadExecutorMap;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * The lanes on the event loops of the application. A loop gets a lane to each server when the first decision is
 * requested on it.
 */
public final class LoopLanes {
    // Design notes.
    //
    // Lettuce places connections on the event loops of its client. So each event loop has a client of its own. Which
    // type of channels a loop accepts is tried once, with a channel that does not connect.
    //
    // A loop of the application must not block. Lettuce reads the certificates of TLS on the connection's loop, and a
    // credentials provider of the user runs there. With one of these there are no lanes on loops of the application.
    //
    // A loop may end before the store, when a server stops. Only decisions that were requested on it are sent on it;
    // everything else, such as refunds and reconciliation, uses the lane of the store. A loop without a quiet period
    // may end without closing its channels, and Lettuce would never report the commands in flight. So a hook of the
    // loop closes the connections.

    /** The highest number of event loops with lanes. Each has a connection to each server. */
    static final int MOST_LOOPS = 32;

    /** The highest number of event loops that are remembered because they reject connections of Lettuce. */
    private static final int MOST_INCOMPATIBLE = 256;

    private static final Logger LOG = Loggers.getLogger(LoopLanes.class);
    private final ClientResources resources;
    private final ClientOptions options;
    private final ConcurrentMap<EventLoop, Loop> loops = new ConcurrentHashMap<>();
    private final AtomicBoolean isReported = new AtomicBoolean();

    /** The number of event loops that have a place: those with lanes, and those that are being tried. */
    private final AtomicInteger placesTaken = new AtomicInteger();

    private volatile boolean closed;

    private LoopLanes(ClientResources resources, ClientOptions options) {
        this.resources = resources;
        this.options = options.mutate().autoReconnect(false).build();
    }

    /**
     * Returns the lanes of a store.
     *
     * @param client the client with the resources and options to use
     * @param nodes the servers; none if they are not known
     * @param store the name of the store, for the log
     * @return the lanes; null if the servers are not known, or connections to them might block their event loop
     */
    public static @Nullable LoopLanes of(AbstractRedisClient client, List<RedisURI> nodes, String store) {
        if (nodes.isEmpty()) {
            LOG.info(
                    "{} does not know the URI of its client, so each decision takes a thread switch or two: expected"
                            + " .nodes(List.of(uri)) on its builder, with the URI of the client",
                    store);
        }
        boolean isSuitable = !nodes.isEmpty() && nodes.stream().noneMatch(LoopLanes::mayBlock);
        return isSuitable ? new LoopLanes(client.getResources(), client.getOptions()) : null;
    }

    private static boolean mayBlock(RedisURI uri) {
        RedisCredentialsProvider credentials = uri.getCredentialsProvider();
        return uri.getSocket() != null
                || uri.isSsl()
                || uri.getSentinels().stream().anyMatch(LoopLanes::mayBlock)
                || (credentials != null && !(credentials instanceof StaticCredentialsProvider));
    }

    /** Returns the event loop that runs the current thread; null on any other thread. */
    static @Nullable EventLoop currentLoop() {
        EventExecutor executor = ThreadExecutorMap.currentExecutor();
        return executor instanceof EventLoop loop ? loop : null;
    }

    /**
     * Returns the lane to a server on the event loop that runs the current thread; null if there is none, such as on a
     * loop on which a store decides for callers on any thread.
     */
    @Nullable
    public Lane current(Target server) {
        EventLoop current = Turns.isShared() ? null : currentLoop();
        if (current == null || closed || current.isShuttingDown()) {
            return null;
        }
        Loop loop = loops.get(current);
        if (loop == null) {
            loop = add(current);
        }
        return loop == null ? null : loop.laneTo(server);
    }

    private @Nullable Loop add(EventLoop current) {
        if (loops.size() >= MOST_LOOPS + MOST_INCOMPATIBLE
                || !(current instanceof SingleThreadEventExecutor executor)
                || !takePlace()) {
            return null;
        }
        // Only the loop itself adds it.
        Loop added = new Loop(current);
        loops.put(current, added);
        if (closed) {
            // Perhaps too late for beginClosing() to see it.
            loops.remove(current, added);
            return null;
        }
        executor.addShutdownHook(added);
        added.probe();
        return added;
    }

    private boolean takePlace() {
        // Without a write if all are taken: a loop that gets no place tries again with each decision.
        return placesTaken.get() < MOST_LOOPS
                && placesTaken.getAndUpdate(taken -> Math.min(MOST_LOOPS, taken + 1)) < MOST_LOOPS;
    }

    /** Returns whether a lane to a server has this property. */
    public boolean anyMatch(Target server, Predicate<Lane> property) {
        for (Loop loop : loops.values()) {
            Lane lane = loop.lanes.get(server);
            if (lane != null && property.test(lane)) {
                return true;
            }
        }
        return false;
    }

    /** Closes the lanes to a server that is no longer used. */
    public void close(Target server, Supplier<LimitStoreException> why) {
        loops.values().forEach(loop -> loop.close(server, why));
    }

    /** Begins to close all lanes; the result completes once they are closed. */
    public CompletableFuture<Void> beginClosing() {
        closed = true;
        return CompletableFuture.allOf(
                loops.values().stream().map(Loop::beginClosing).toArray(CompletableFuture[]::new));
    }

    private void reportIncompatible(EventLoop loop, @Nullable Throwable why) {
        if (isReported.compareAndSet(false, true)) {
            LOG.info(
                    "Event loops of {} reject connections of Lettuce; each decision takes a thread switch or two: {}",
                    loop.getClass().getSimpleName(),
                    String.valueOf(why));
        }
    }

    /** A server to which there are lanes. */
    public interface Target {

        /** Returns a lane on the event loop of a client. */
        Lane newLane(Supplier<RedisClient> client);

        /** Returns the error for callers after closing; null as long as the server is not closed. */
        @Nullable
        Supplier<LimitStoreException> whyClosed();
    }

    /** An event loop of the application, and its lanes. */
    private final class Loop implements Runnable {

        private final EventLoop loop;
        private final ConcurrentMap<Target, Lane> lanes = new ConcurrentHashMap<>();

        /** The type of channels that the loop is known to accept; null if none is known. */
        private volatile @Nullable Class<? extends Channel> channelType;

        private final AtomicBoolean hasPlace = new AtomicBoolean(true);

        /** The client with its connections on this loop; null before the first connection. */
        private @Nullable RedisClient client;

        private boolean isClosed;

        Loop(EventLoop loop) {
            this.loop = loop;
        }

        /** Tries which type of channels can be registered: the one that Lettuce prefers, or NIO. */
        void probe() {
            probe(Transports.socketChannelClass());
        }

        private void probe(Class<? extends Channel> type) {
            Bootstrap probe = new Bootstrap().group(loop).channel(type).handler(new ChannelInboundHandlerAdapter());
            probe.register().addListener((ChannelFutureListener) registered -> {
                if (registered.isSuccess()) {
                    Future<Void> unused = registered.channel().close();
                    channelType = type;
                } else if (type != NioSocketChannel.class) {
                    probe(NioSocketChannel.class);
                } else {
                    leavePlace();
                    reportIncompatible(loop, registered.cause());
                }
            });
        }

        private void leavePlace() {
            if (hasPlace.getAndSet(false)) {
                placesTaken.decrementAndGet();
            }
        }

        /** Returns the client. It is created on a thread that connects, which may block. */
        private synchronized RedisClient client() {
            if (isClosed) {
                throw new RedisException("the event loop of this connection has ended");
            }
            RedisClient known = client;
            if (known == null) {
                known = new LoopClient(resources, options, loop, requireNonNull(channelType));
                client = known;
            }
            return known;
        }

        @Nullable
        Lane laneTo(Target server) {
            Lane lane = lanes.get(server);
            if (lane != null || channelType == null || server.whyClosed() != null) {
                return lane;
            }
            lane = lanes.computeIfAbsent(server, missing -> server.newLane(this::client));
            Supplier<LimitStoreException> why = server.whyClosed();
            if (why != null) {
                // Perhaps too late for the thread that closes the server to see it.
                close(server, why);
            }
            return lane;
        }

        void close(Target server, Supplier<LimitStoreException> why) {
            Lane lane = lanes.remove(server);
            if (lane != null) {
                OpenConnection.unobserved(lane.beginClosing(why));
            }
        }

        /** Closes the connections when the loop ends, on the loop. To close the client would need the loop later. */
        @Override
        public synchronized void run() {
            loops.remove(loop, this);
            leavePlace();
            isClosed = true;
            lanes.values().forEach(lane -> OpenConnection.unobserved(lane.beginClosing()));
            if (client != null) {
                Future<Boolean> unused = client.getResources().shutdown();
            }
        }

        synchronized CompletableFuture<Void> beginClosing() {
            isClosed = true;
            try {
                ((SingleThreadEventExecutor) loop).removeShutdownHook(this);
            } catch (RejectedExecutionException e) {
                // The loop has ended, and with it its connections.
                return CompletableFuture.completedFuture(null);
            }
            RedisClient used = client;
            if (used == null) {
                return CompletableFuture.completedFuture(null);
            }
            // In this order: the client closes all open connections, and Lettuce warns if one is closed twice.
            CompletableFuture<Void> closing = used.shutdownAsync(0, 0, TimeUnit.SECONDS)
                    .whenComplete((done, error) -> {
                        Future<Boolean> unused = used.getResources().shutdown();
                    });
            lanes.values().forEach(lane -> OpenConnection.unobserved(lane.beginClosing()));
            return closing;
        }
    }
}
