package io.github.spillgate.failover;

import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * What lies between a client and a Redis, and does with connections what networks do: it delays, it swallows, it hangs
 * up. At first it only passes on.
 */
final class BadNetwork implements AutoCloseable {

    private final ServerSocket server;
    private final int behind;
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean losing = new AtomicBoolean();
    private volatile LongSupplier replyDelayMillis = () -> 0;
    private boolean swallowing;

    BadNetwork(int behind) {
        this.behind = behind;
        try {
            this.server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        start(this::accept);
    }

    RedisURI uri() {
        return RedisURI.create("127.0.0.1", server.getLocalPort());
    }

    /** From now on a reply takes so much longer; they stay in their order. */
    void delayReplies(LongSupplier millis) {
        replyDelayMillis = millis;
    }

    /** The next that Redis says is lost, and the connection with it. */
    void loseTheNextReply() {
        losing.set(true);
    }

    boolean hasLostIt() {
        return !losing.get();
    }

    /** From now on nothing arrives anywhere, and nobody is told. */
    synchronized void swallow() {
        swallowing = true;
    }

    /** Goes on, with all that has been swallowed, as after a route was lost for a while. */
    synchronized void passOn() {
        swallowing = false;
        notifyAll();
    }

    /** Goes on for new connections. Those that were open are dead for good, and nobody is told. */
    synchronized void passOnWhatIsNew() {
        connections.forEach(connection -> connection.dead = true);
        passOn();
    }

    private synchronized void awaitRoute(Connection connection) throws InterruptedException {
        while (swallowing && !connection.dead) {
            wait();
        }
    }

    private void accept() throws IOException {
        while (true) {
            Socket front = server.accept();
            try {
                Connection connection = new Connection(front, new Socket(InetAddress.getLoopbackAddress(), behind));
                connections.add(connection);
                connection.begin();
            } catch (IOException nobodyListens) {
                front.close();
            }
        }
    }

    /** How many connections there are, dead ones included. */
    int connections() {
        return connections.size();
    }

    private static void start(Task task) {
        Thread thread = new Thread(
                () -> {
                    try {
                        task.run();
                    } catch (IOException | InterruptedException closed) {
                        // One end has hung up, and so do we.
                    }
                },
                "bad-network");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            server.close();
            connections.forEach(Connection::hangUp);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private interface Task {
        void run() throws IOException, InterruptedException;
    }

    /** What has been read; nothing at the end. */
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

        Connection(Socket front, Socket back) {
            this.front = front;
            this.back = back;
        }

        void begin() throws IOException {
            front.setTcpNoDelay(true);
            back.setTcpNoDelay(true);
            pass(front, back, false);
            pass(back, front, true);
        }

        private void pass(Socket from, Socket to, boolean replies) {
            BlockingQueue<Chunk> onTheWay = new LinkedBlockingQueue<>();
            start(() -> read(from, onTheWay, replies));
            start(() -> write(onTheWay, to, replies));
        }

        private void read(Socket from, BlockingQueue<Chunk> onTheWay, boolean replies) throws IOException {
            try {
                InputStream in = from.getInputStream();
                byte[] buffer = new byte[8_192];
                for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                    long delay = replies ? replyDelayMillis.getAsLong() * 1_000_000 : 0;
                    onTheWay.add(new Chunk(Arrays.copyOf(buffer, read), System.nanoTime() + delay));
                }
            } finally {
                onTheWay.add(new Chunk(new byte[0], System.nanoTime()));
            }
        }

        private void write(BlockingQueue<Chunk> onTheWay, Socket to, boolean replies)
                throws IOException, InterruptedException {
            try {
                OutputStream out = to.getOutputStream();
                for (Chunk next = onTheWay.take(); !next.isEnd(); next = onTheWay.take()) {
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
