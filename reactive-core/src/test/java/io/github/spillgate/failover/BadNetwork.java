package io.github.spillgate.failover;

import io.github.spillgate.testkit.ProxyServer;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.util.Arrays;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** A TCP proxy in front of Redis that can delay replies, drop packets and close connections. It starts transparent. */
final class BadNetwork implements AutoCloseable {

    private final ProxyServer server;
    private volatile int behind;
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean losing = new AtomicBoolean();
    private volatile LongSupplier replyDelayMillis = () -> 0;
    private volatile @Nullable Connection newest;
    private boolean dropping;

    BadNetwork(int behind) {
        this.behind = behind;
        this.server = new ProxyServer(this::serve);
    }

    RedisURI uri() {
        return RedisURI.create("127.0.0.1", server.port());
    }

    /** Delays later replies by this time; they stay in order. */
    void delayReplies(LongSupplier millis) {
        replyDelayMillis = millis;
    }

    /** Closes the connection of the next reply instead of forwarding it. */
    void loseNextReply() {
        losing.set(true);
    }

    boolean hasLostReply() {
        return !losing.get();
    }

    /** Closes all connections, and leads later ones to another server, as after a failover behind a fixed address. */
    synchronized void leadTo(int port) {
        behind = port;
        connections.forEach(Connection::hangUp);
    }

    /** Stops forwarding in both directions without closing a connection. */
    synchronized void dropPackets() {
        dropping = true;
    }

    /** Forwards again, including everything held back, as after a route flap. */
    synchronized void restore() {
        dropping = false;
        notifyAll();
    }

    /** Forwards again on new connections. The existing ones stay silently dead. */
    synchronized void restoreNewConnections() {
        connections.forEach(connection -> connection.dead = true);
        restore();
    }

    /** Stops forwarding in both directions on the newest connection only, without closing it. */
    synchronized void stallNewest() {
        Objects.requireNonNull(newest, "there is no connection yet").stalled = true;
    }

    /** Returns whether a request or a reply is held back by a stall. */
    boolean isHoldingBack() {
        return connections.stream().anyMatch(connection -> connection.stalled && connection.waiting);
    }

    /** Returns whether the client has closed all stalled connections. */
    boolean isEachStalledClosedByClient() {
        return connections.stream().allMatch(connection -> !connection.stalled || connection.closedByClient);
    }

    /** Forwards again on all connections, including everything held back. */
    synchronized void endStalls() {
        connections.forEach(connection -> connection.stalled = false);
        notifyAll();
    }

    /** Closes the stalled connections without forwarding what was held back. */
    synchronized void closeStalled() {
        connections.stream().filter(connection -> connection.stalled).forEach(Connection::hangUp);
        notifyAll();
    }

    private synchronized void awaitRoute(Connection connection) throws InterruptedException {
        while ((dropping || connection.stalled) && !connection.dead) {
            connection.waiting = true;
            wait();
        }
    }

    private void serve(Socket front) throws IOException {
        Connection connection = new Connection(front, ProxyServer.connect(behind));
        connections.add(connection);
        newest = connection;
        connection.begin();
    }

    /** Returns the number of connections, including dead ones. */
    int connections() {
        return connections.size();
    }

    @Override
    public void close() {
        server.close();
        connections.forEach(Connection::hangUp);
    }

    /** Bytes read from a socket; empty at the end of the stream. */
    private static final class Chunk {

        private final byte[] bytes;
        private final long due;

        Chunk(byte[] bytes, long due) {
            this.bytes = bytes;
            this.due = due;
        }

        boolean isEnd() {
            return bytes.length == 0;
        }
    }

    private final class Connection {

        private final Socket front;
        private final Socket back;
        private volatile boolean dead;
        private volatile boolean stalled;
        private volatile boolean waiting;
        private volatile boolean closedByClient;

        Connection(Socket front, Socket back) {
            this.front = front;
            this.back = back;
        }

        void begin() {
            pass(front, back, false);
            pass(back, front, true);
        }

        private void pass(Socket from, Socket to, boolean replies) {
            BlockingQueue<Chunk> inTransit = new LinkedBlockingQueue<>();
            ProxyServer.start(() -> read(from, inTransit, replies));
            ProxyServer.start(() -> write(inTransit, to, replies));
        }

        private void read(Socket from, BlockingQueue<Chunk> inTransit, boolean replies) throws IOException {
            try {
                InputStream in = from.getInputStream();
                byte[] buffer = new byte[8_192];
                for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                    long delay = replies ? replyDelayMillis.getAsLong() * 1_000_000 : 0;
                    inTransit.add(new Chunk(Arrays.copyOf(buffer, read), System.nanoTime() + delay));
                }
            } finally {
                closedByClient |= !replies;
                inTransit.add(new Chunk(new byte[0], System.nanoTime()));
            }
        }

        private void write(BlockingQueue<Chunk> inTransit, Socket to, boolean replies)
                throws IOException, InterruptedException {
            try {
                OutputStream out = to.getOutputStream();
                for (Chunk next = inTransit.take(); !next.isEnd(); next = inTransit.take()) {
                    for (long left = next.due - System.nanoTime(); left > 0; left = next.due - System.nanoTime()) {
                        LockSupport.parkNanos(left);
                    }
                    awaitRoute(this);
                    if (replies && losing.compareAndSet(true, false)) {
                        return;
                    }
                    if (!dead) {
                        out.write(next.bytes);
                    }
                }
            } finally {
                hangUp();
            }
        }

        void hangUp() {
            connections.remove(this);
            try (front;
                    back) {
                dead = true;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
