package io.github.spillgate.testkit;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.LongFunction;

/**
 * A service with a limit of its own: so many requests in any second by its clock. If more arrive, it refuses all
 * requests for some seconds, each time with other header fields.
 */
public final class MoodyPartner implements AutoCloseable {

    private static final long SECOND = 1_000;

    /** More characters than a client receives before it reads them. */
    private static final int REFUSED = 300_000;

    /** The fields of a refusal, by the time at which it ends, in milliseconds since 1970: the name and the value. */
    private static final List<LongFunction<String[]>> KINDS = List.of(
            until -> new String[] {"Retry-After", seconds(until)},
            until -> new String[] {"Retry-After", date(until, "EEE, dd MMM yyyy HH:mm:ss 'GMT'")},
            until -> new String[] {"Retry-After", date(until, "EEEE, dd-MMM-yy HH:mm:ss 'GMT'")},
            until -> new String[] {"RateLimit", "\"second\";r=0;t=" + seconds(until) + ", \"day\";r=70;t=86400"},
            until -> new String[] {"RateLimit", "limit=10, remaining=0, reset=" + seconds(until)},
            until -> new String[] {"RateLimit-Reset", seconds(until)},
            until -> new String[] {"X-RateLimit-Reset", seconds(until)},
            until -> new String[] {"X-RateLimit-Reset", Long.toString(until / SECOND)},
            until -> new String[] {"X-RateLimit-Reset", Long.toString(until)});

    /** What else a service may say. These refusals end after a second. */
    private static final List<String[]> LIES = List.of(
            new String[] {"Retry-After", "soon"},
            new String[] {"Retry-After", "-1"},
            new String[] {"X-RateLimit-Reset", "0"},
            new String[] {"Server", "nothing else"});

    /**
     * A time in which all requests are refused, in milliseconds since 1970.
     *
     * @param from when the first of them was refused
     * @param until the end, as that response says
     * @param fields what it says
     */
    public record Refusal(long from, long until, String fields) {}

    /**
     * A request, by the time of its arrival in milliseconds since 1970.
     *
     * @param body the request body
     */
    public record Arrival(long at, String method, String path, String body, int status) {}

    private final int perSecond;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Arrival> arrivals = new ArrayList<>();
    private final List<Refusal> refusals = new ArrayList<>();
    private volatile HttpServer server;
    private Refusal next;
    private volatile CountDownLatch stall = new CountDownLatch(0);

    /** Starts a service that accepts a number of requests in any second. */
    public MoodyPartner(int perSecond) {
        this.perSecond = perSecond;
        this.server = start(0);
    }

    private HttpServer start(int port) {
        try {
            HttpServer started = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 500);
            started.setExecutor(threads);
            started.createContext("/", this::answer);
            started.start();
            return started;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public URI uri(String path) {
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort() + path);
    }

    /** Breaks all connections, and listens again. */
    public void restart() {
        int port = server.getAddress().getPort();
        server.stop(0);
        server = start(port);
    }

    /** Answers no request until the end of this. */
    public void stall(Duration time) throws InterruptedException {
        CountDownLatch end = new CountDownLatch(1);
        stall = end;
        Thread.sleep(time.toMillis());
        end.countDown();
    }

    public synchronized List<Arrival> arrivals() {
        return List.copyOf(arrivals);
    }

    public synchronized List<Refusal> refusals() {
        return List.copyOf(refusals);
    }

    /** Refuses all requests for a time that begins with the next one, with fields such as {@code Retry-After:1}. */
    public synchronized void refuse(Duration time, String... fields) {
        next = new Refusal(0, time.toMillis(), String.join("\n", fields));
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            stall.await();
            Refusal refusal = decide(exchange, body);
            if (refusal != null) {
                for (String field : refusal.fields.split("\n", -1)) {
                    int colon = field.indexOf(':');
                    exchange.getResponseHeaders().add(field.substring(0, colon), field.substring(colon + 1));
                }
            }
            byte[] answer = "x".repeat(refusal == null ? 2_000 : REFUSED).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(refusal == null ? 200 : 429, answer.length);
            exchange.getResponseBody().write(answer);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized Refusal decide(HttpExchange exchange, String body) {
        long now = System.currentTimeMillis();
        if (next != null) {
            refusals.add(new Refusal(now, now + next.until, next.fields));
            next = null;
        }
        Refusal last = refusals.isEmpty() ? null : refusals.get(refusals.size() - 1);
        if (last == null || last.until <= now) {
            long within = arrivals.stream()
                    .filter(one -> one.status == 200 && one.at > now - SECOND)
                    .count();
            last = within < perSecond ? null : newRefusal(now);
        }
        arrivals.add(new Arrival(
                now, exchange.getRequestMethod(), exchange.getRequestURI().getPath(), body, last == null ? 200 : 429));
        return last;
    }

    private Refusal newRefusal(long now) {
        int number = refusals.size();
        String[] fields;
        long until;
        if (number % 4 == 3) {
            fields = LIES.get(number / 4 % LIES.size());
            until = now + SECOND;
        } else {
            // A whole second, because most fields have no more.
            until = now / SECOND * SECOND + 2 * SECOND;
            fields = KINDS.get(number % KINDS.size()).apply(until);
        }
        Refusal refusal = new Refusal(now, until, fields[0] + ":" + fields[1]);
        refusals.add(refusal);
        return refusal;
    }

    private static String seconds(long until) {
        return Long.toString(-Math.floorDiv(System.currentTimeMillis() - until, SECOND));
    }

    private static String date(long until, String pattern) {
        return DateTimeFormatter.ofPattern(pattern, Locale.US)
                .withZone(ZoneOffset.UTC)
                .format(Instant.ofEpochMilli(until));
    }

    @Override
    public void close() {
        stall.countDown();
        server.stop(0);
        threads.shutdownNow();
    }
}
