package io.github.spillgate.examples.pipeline;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A third-party service with slow responses and a strict limit. It accepts a few calls within any second, by its own
 * clock and time of arrival, and denies the others with 429.
 */
final class Partner implements AutoCloseable {

    static final int CALLS_A_SECOND = 5;

    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration RESPONSE_TIME = Duration.ofMillis(300);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpServer server;
    private final List<Long> arrivals = new ArrayList<>();
    private int denied;

    Partner() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 50);
        server.setExecutor(threads);
        server.createContext("/hello", exchange -> answer(exchange, 200));
        server.createContext("/check", this::check);
        server.start();
    }

    URI uri(String path) {
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort() + path);
    }

    private void check(HttpExchange exchange) throws IOException {
        if (!tryAccept(System.nanoTime())) {
            answer(exchange, 429);
            return;
        }
        try {
            Thread.sleep(RESPONSE_TIME.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        answer(exchange, 200);
    }

    private synchronized boolean tryAccept(long now) {
        long within = arrivals.stream()
                .filter(arrival -> now - arrival < SECOND.toNanos())
                .count();
        if (within >= CALLS_A_SECOND) {
            denied++;
            return false;
        }
        arrivals.add(now);
        return true;
    }

    private static void answer(HttpExchange exchange, int status) throws IOException {
        try (exchange) {
            exchange.sendResponseHeaders(status, -1);
        }
    }

    synchronized int accepted() {
        return arrivals.size();
    }

    synchronized int denied() {
        return denied;
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
