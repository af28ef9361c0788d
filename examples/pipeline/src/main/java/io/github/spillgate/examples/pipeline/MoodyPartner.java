package io.github.spillgate.examples.pipeline;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A service that accepts ten requests within a second. Then it refuses all requests for a while, which it announces
 * differently each time. It also restarts and stalls.
 */
final class MoodyPartner implements AutoCloseable {

    private static final int REQUESTS_A_SECOND = 10;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final long[] accepted = new long[REQUESTS_A_SECOND];
    private HttpServer server;
    private int acceptedInAll;
    private int refusals;
    private int refusedInAll;
    private long pausedUntil;

    MoodyPartner() throws IOException {
        server = start(0);
    }

    private HttpServer start(int port) throws IOException {
        HttpServer started = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 50);
        started.setExecutor(threads);
        started.createContext("/", this::answer);
        started.start();
        return started;
    }

    URI uri() {
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/rates");
    }

    synchronized void awaitAccepted(int requests) throws InterruptedException {
        while (acceptedInAll < requests) {
            wait();
        }
    }

    void restart() throws IOException {
        int port = server.getAddress().getPort();
        server.stop(0);
        server = start(port);
    }

    /** Answers nothing for a while, because an answer needs the lock. */
    synchronized void stall() throws InterruptedException {
        Thread.sleep(700);
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            exchange.sendResponseHeaders(isAccepted(exchange) ? 200 : 429, -1);
        }
    }

    private synchronized boolean isAccepted(HttpExchange exchange) {
        long now = System.currentTimeMillis();
        int slot = acceptedInAll % REQUESTS_A_SECOND;
        if (now >= pausedUntil && now - accepted[slot] >= 1_000) {
            accepted[slot] = now;
            acceptedInAll++;
            notifyAll();
            return true;
        }
        refusedInAll++;
        if (now >= pausedUntil) {
            pausedUntil = (now / 1_000 + 2) * 1_000;
            refusals++;
        }
        long seconds = (pausedUntil - now + 999) / 1_000;
        String[] field = switch (refusals % 3) {
            case 0 -> new String[] {"Retry-After", Long.toString(seconds)};
            case 1 -> new String[] {"RateLimit", "\"second\";r=0;t=" + seconds};
            default -> new String[] {"X-RateLimit-Reset", Long.toString(pausedUntil / 1_000)};
        };
        exchange.getResponseHeaders().add(field[0], field[1]);
        if (refusedInAll == 1 || pausedUntil - now > 1_000) {
            System.out.printf("partner    refuses a request: %s: %s%n", field[0], field[1]);
        }
        return false;
    }

    synchronized String report() {
        return "the partner accepted %d requests and refused %d, %d of them during a pause"
                .formatted(acceptedInAll, refusedInAll, refusedInAll - refusals);
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
