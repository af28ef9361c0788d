package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.testkit.ProxyServer;
import java.io.IOException;
import java.net.Socket;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

/** A proxy before a server that delays each message by 0.5 ms, so that a round trip takes a millisecond longer. */
public final class Wire implements AutoCloseable {

    private static final long DELAY_NANOS = TimeUnit.MICROSECONDS.toNanos(500);

    private final ProxyServer front;
    private final LongAdder trips = new LongAdder();

    /**
     * Starts a proxy.
     *
     * @param port the port of the server
     */
    public Wire(int port) {
        front = new ProxyServer(client -> {
            Socket server = ProxyServer.connect(port);
            ProxyServer.start(() -> pass(client, server, trips::increment));
            ProxyServer.start(() -> pass(server, client, () -> {}));
        });
    }

    public int port() {
        return front.port();
    }

    /** Returns the number of requests, each of which is sent at once. */
    long trips() {
        return trips.sum();
    }

    private static void pass(Socket from, Socket to, Runnable counter) throws IOException {
        try (from;
                to) {
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

    @Override
    public void close() {
        front.close();
    }
}
