package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.ADDRESS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Uploads to Tomcat, if clients disconnect in the middle of the body. Neither Tomcat nor Spring reports that if a
 * thread of the handler asks for the next part.
 */
class TomcatUploadTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int LENGTH = 200_000;
    private static final int CLIENTS = 8;
    private static final int UPLOADS = 30;

    private final AtomicInteger running = new AtomicInteger();
    private final AtomicLong received = new AtomicLong();
    private final RateLimiter limiter = Limiters.local();
    private final Rules rules = Rules.of(
            limiter,
            PathPatterns.ofSpring(),
            List.of(
                    rule("uploads", Limit.concurrent(1_000).hold(Duration.ofHours(1)))
                            .paths("/upload/**")
                            .build(),
                    rule("bytes", Limit.perHour(1_000_000_000).counter())
                            .paths("/upload/**")
                            .build()));
    private final Service service = Service.startOnTomcat(this::beans);

    private static Rule.Builder rule(String name, Limit limit) {
        return Rule.named(name).key(ADDRESS).limit(limit.named(name));
    }

    private void beans(AnnotationConfigApplicationContext context) {
        Service.filters(context, RateLimitResponses.standard(), rules);
        Service.annotations(context, limiter);
        context.registerBean(Handlers.class, () -> new Handlers(this));
    }

    @AfterEach
    void close() {
        service.close();
        limiter.close();
    }

    private static long used(Rules some, String rule) {
        return some.peek(rule, "127.0.0.1").block().limits().get(0).used();
    }

    @ParameterizedTest
    @CsvSource({"/upload/fast, false", "/upload/fast, true", "/upload/slow, false", "/upload/slow, true"})
    void aPermitIsReleasedAndTheRealCostIsSettledIfTheClientDisconnects(String path, boolean resets) throws Exception {
        disconnect(path, resets, () -> assertThat(used(rules, "uploads")).isEqualTo(1));
        await().atMost(LONG).until(() -> running.get() == 0);
        await().atMost(LONG).until(() -> used(rules, "uploads") == 0);
        await().atMost(LONG).until(() -> used(rules, "bytes") == received.get());
    }

    @ParameterizedTest
    @CsvSource({"false", "true"})
    void aPermitOfAnAnnotationIsReleasedIfTheClientDisconnects(boolean resets) throws Exception {
        disconnect("/annotated", resets, () -> assertThat(usedByAnnotation()).isEqualTo(1));
        await().atMost(LONG).until(() -> usedByAnnotation() == 0);
    }

    private long usedByAnnotation() {
        Rules own = Rules.of(
                limiter,
                PathPatterns.ofSpring(),
                service.bean(RateLimitedHandlerAdapter.class).rules());
        return used(own, own.list().get(0).name());
    }

    private void disconnect(String path, boolean resets, Runnable before) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), service.port())) {
            socket.setSoLinger(resets, 0);
            upload(socket, path, LENGTH / 2);
            await().atMost(LONG).until(() -> received.get() > 1_000);
            before.run();
        }
    }

    @Test
    void clientsThatDisconnectAtRandomMomentsLeakNoPermit() {
        ClientForTests.inParallel(CLIENTS, this::disconnectAtRandom);
        await().atMost(LONG).until(() -> running.get() == 0);
        await().atMost(LONG).until(() -> used(rules, "uploads") == 0);
    }

    private void disconnectAtRandom(Random random) {
        for (int i = 0; i < UPLOADS; i++) {
            try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), service.port())) {
                socket.setSoLinger(random.nextBoolean(), 0);
                upload(socket, random.nextBoolean() ? "/upload/fast" : "/upload/slow", random.nextInt(LENGTH));
                socket.setSoTimeout(1 + random.nextInt(10));
                int unused = socket.getInputStream().read();
            } catch (IOException e) {
                // Also a timeout: the client disconnects.
            }
        }
    }

    private static void upload(Socket socket, String path, int length) throws IOException {
        String head = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                + "Content-Length: " + LENGTH + "\r\n\r\n";
        socket.getOutputStream().write((head + "x".repeat(length)).getBytes(StandardCharsets.US_ASCII));
    }

    @RestController
    static class Handlers {

        private final TomcatUploadTest test;

        Handlers(TomcatUploadTest test) {
            this.test = test;
        }

        /** Threads of Tomcat read. */
        @PostMapping("/upload/fast")
        Mono<String> fast(ServerWebExchange exchange, @RequestBody Flux<DataBuffer> body) {
            return read(exchange, body);
        }

        @PostMapping("/upload/slow")
        Mono<String> slow(ServerWebExchange exchange, @RequestBody Flux<DataBuffer> body) {
            return read(exchange, slowed(body));
        }

        @RateLimited("10 concurrent hold=1h")
        @PostMapping("/annotated")
        Mono<String> annotated(ServerWebExchange exchange, @RequestBody Flux<DataBuffer> body) {
            return read(exchange, slowed(body));
        }

        private static Flux<DataBuffer> slowed(Flux<DataBuffer> body) {
            return body.limitRate(1).delayElements(Duration.ofMillis(1));
        }

        private Mono<String> read(ServerWebExchange exchange, Flux<DataBuffer> body) {
            test.running.incrementAndGet();
            AtomicLong own = new AtomicLong();
            return body.doOnNext(buffer -> {
                        int length = buffer.readableByteCount();
                        test.received.addAndGet(length);
                        RateLimitResponses.cost(exchange, "bytes", own.addAndGet(length));
                        DataBufferUtils.release(buffer);
                    })
                    .then(Mono.just("uploaded"))
                    .doFinally(end -> test.running.decrementAndGet());
        }
    }
}
