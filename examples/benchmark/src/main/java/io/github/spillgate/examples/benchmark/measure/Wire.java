package io.github.spillgate.examples.benchmark.measure;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

/** A proxy before a server that delays each message by 0.5 ms, so that a round trip takes a millisecond longer. */
public final class Wire implements AutoCloseable {

    private static final long DELAY_NANOS = TimeUnit.MICROSECONDS.toNanos(500);

    private final ServerSocket front;
    private final LongAdder trips = new LongAdder();

    /**
     * Starts a proxy.
     *
     * @param port the port of the server
     */
    public Wire(int port) {
        try {
            front = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        start(() -> {
            while (true) {
                Socket client = front.accept();
                Socket server = new Socket(InetAddress.getLoopbackAddress(), port);
                start(() -> pass(client, server, trips::increment));
                start(() -> pass(server, client, () -> {}));
            }
        });
    }

    public int port() {
        return front.getLocalPort();
    }

    /** Returns the number of requests, each of which is sent at once. */
    long trips() {
        return trips.sum();
    }

    private static void pass(Socket from, Socket to, Runnable counter) throws IOException {
        try (from;
                to) {
            to.setTcpNoDelay(true);
            byte[] buffer = new byte[1 << 16];
            for (int length = from.getInputStream().read(buffer);
                    length >= 0;
                    length = from.getInputStream().read(buffer)) {
                counter.run();
                LockSupport.parkNanos(DELAY_NANOS);
                to.getOutputStream().write(buffer, 0, length);
            }
        }
    }

    private static void start(Io io) {
        Thread thread = new Thread(
                () -> {
                    try {
                        io.run();
                    } catch (IOException closed) {
                        // One end has closed the connection, and so does the other.
                    }
                },
                "wire");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            front.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private interface Io {
        void run() throws IOException;
    }
}
