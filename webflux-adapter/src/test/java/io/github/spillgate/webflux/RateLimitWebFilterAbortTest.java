package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.Unprotected;
import io.netty.handler.timeout.WriteTimeoutHandler;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.Resource;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * Clients that abort a request at each of its stages. Their handlers end, and none of them holds a permit any longer;
 * the hold time is so long that none expires.
 */
class RateLimitWebFilterAbortTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int PERMITS = 3;

    /** More than the buffers of a connection hold. */
    private static final int FILE_SIZE = 64 * 1024 * 1024;

    private static final String PART = "part".repeat(10_000);

    @TempDir
    Path directory;

    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicInteger running = new AtomicInteger();

    /** How many handlers were running at each release. */
    private final Queue<Integer> atRelease = new ConcurrentLinkedQueue<>();

    private final RateLimiter limiter = RateLimiter.builder("local")
            .store(new Unprotected(LocalStore.bounded(100)) {
                @Override
                public Mono<Void> release(List<Claim> holds) {
                    atRelease.add(running.get());
                    return super.release(holds);
                }
            })
            .build();
    private final Sinks.Empty<Void> key = Sinks.empty();
    private final AtomicInteger asked = new AtomicInteger();
    private final Rules rules = Rules.of(
            limiter,
            PathPatterns.ofSpring(),
            List.of(Rule.named("running")
                    .key(match -> match.request().path().equals("/late")
                            ? Mono.defer(() -> {
                                asked.incrementAndGet();
                                return key.asMono().thenReturn("all");
                            })
                            : Mono.just("all"))
                    .timeout(LONG)
                    .limit(Limit.concurrent(PERMITS).hold(Duration.ofHours(1)).named("c"))
                    .build()));
    private Service service;

    @BeforeEach
    void start() throws Exception {
        try (RandomAccessFile file =
                new RandomAccessFile(directory.resolve("large.bin").toFile(), "rw")) {
            file.setLength(FILE_SIZE);
        }
        service = Service.start(this::beans);
    }

    private void beans(AnnotationConfigApplicationContext context) {
        // Routes and annotated methods have limits of their own.
        RateLimitWebFilter filter =
                RateLimitWebFilter.of(rules, Rule.Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard());
        context.registerBean(
                WebFilter.class,
                () -> (exchange, chain) -> List.of("/route", "/annotated")
                                .contains(exchange.getRequest().getPath().value())
                        ? chain.filter(exchange)
                        : filter.filter(exchange, chain));
        Service.annotations(context, limiter);
        context.registerBean(Handlers.class, () -> new Handlers(this));
        context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.route()
                        .path(
                                "/route",
                                routes -> routes.route(
                                        all -> true,
                                        request -> run(Mono.never())
                                                .then(ServerResponse.ok().build())))
                        .filter(RateLimitHandlerFilter.of(rules, RateLimitResponses.standard()))
                        .build());
    }

    @AfterEach
    void close() {
        service.close();
        limiter.close();
    }

    private <T> Mono<T> run(Mono<T> work) {
        return work.doFirst(() -> {
                    begun.incrementAndGet();
                    running.incrementAndGet();
                })
                .doFinally(end -> running.decrementAndGet());
    }

    static Stream<Arguments> stages() {
        return Stream.of(
                        new Stage("decision", get("/late"), false),
                        new Stage("handler", get("/wait"), false),
                        new Stage("handler of a route", get("/route"), false),
                        new Stage("annotated handler", get("/annotated"), false),
                        new Stage("body that is not read", post("/wait", ""), false),
                        new Stage("half a body that is not read", post("/wait", "half"), false),
                        new Stage("body that a route does not read", post("/route", ""), false),
                        new Stage("body that an annotated handler does not read", post("/annotated", ""), false),
                        new Stage("body", post("/upload", ""), false),
                        new Stage("half a body", post("/upload", "half"), false),
                        new Stage("stream", get("/stream"), true),
                        new Stage("stream and body", post("/stream", ""), true),
                        new Stage("file", get("/file"), true),
                        new Stage("pipelined handlers", get("/wait").repeat(2), false),
                        new Stage("pipelined streams", get("/stream").repeat(2), true))
                .flatMap(stage -> Stream.of(Arguments.of(stage, false), Arguments.of(stage, true)));
    }

    private static String get(String path) {
        return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }

    private static String post(String path, String body) {
        return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                + "Content-Length: 1000\r\n\r\n" + body;
    }

    @ParameterizedTest(name = "{0}, reset: {1}")
    @MethodSource("stages")
    void noPermitAndNoHandlerOutlivesItsConnection(Stage stage, boolean resets) throws Exception {
        List<Socket> clients = new ArrayList<>();
        for (int i = 0; i < PERMITS; i++) {
            Socket client = new Socket(InetAddress.getLoopbackAddress(), service.port());
            clients.add(client);
            client.setSoTimeout((int) LONG.toMillis());
            client.setSoLinger(resets, 0);
            client.getOutputStream().write(stage.request.getBytes(StandardCharsets.US_ASCII));
            if (stage.answers) {
                assertThat(client.getInputStream().readNBytes(12)).hasSize(12);
            }
        }
        await().atMost(LONG).until(() -> (stage.name.equals("decision") ? asked : begun).get() == PERMITS);
        for (Socket client : clients) {
            client.close();
        }
        key.tryEmitEmpty();
        assertAllFree();
        if (!stage.name.equals("decision")) {
            assertThat(atRelease).as("handlers that ran at each release").contains(0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"/wait", "/stream", "/file"})
    void noPermitAndNoHandlerOutlivesItsStream(String path) {
        service.close();
        service = Service.startWithHttp2(this::beans);
        ClientForTests http2 = ClientForTests.ofHttp2(service.port());
        http2.get("/hello");
        if (path.equals("/wait")) {
            CompletableFuture<?> response = http2.sendLater(http2.request(path).GET());
            await().atMost(LONG).until(() -> begun.get() == 1);
            response.cancel(true);
        } else {
            http2.readAndDisconnect(path, 12);
        }
        assertAllFree();
    }

    /** These clients stay connected, and neither send nor read on. See docs/webflux.md. */
    @ParameterizedTest
    @CsvSource({"read, POST /upload", "write, GET /stream", "write, GET /file"})
    void timeoutsEndRequestsOfSlowClients(String kind, String request) throws Exception {
        service.close();
        service = Service.start(
                server -> switch (kind) {
                    case "read" -> server.readTimeout(Duration.ofSeconds(1));
                    default ->
                        server.doOnConnection(connection -> connection.addHandlerFirst(new WriteTimeoutHandler(1)));
                },
                this::beans);
        try (Socket slow = new Socket(InetAddress.getLoopbackAddress(), service.port())) {
            String head = request + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                    + (request.startsWith("POST") ? "Content-Length: 9\r\n\r\n" : "\r\n");
            slow.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
            await().atMost(LONG).until(() -> begun.get() == 1);
            assertAllFree();
        }
    }

    private void assertAllFree() {
        await().atMost(LONG).untilAsserted(() -> assertThat(running).hasValue(0));
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(rules.peek("running", "all")
                                .block(LONG)
                                .limits()
                                .get(0)
                                .used())
                        .isZero());
        // A decision may be made only now.
        await().atMost(LONG).until(() -> service.get("/hello").statusCode() == 200);
    }

    /**
     * A stage of a request, at which its client aborts it.
     *
     * @param request what the client sends
     * @param answers whether the client waits for the first bytes of the response
     */
    private record Stage(String name, String request, boolean answers) {

        @Override
        public String toString() {
            return name;
        }
    }

    @RestController
    static class Handlers {

        private final RateLimitWebFilterAbortTest test;

        Handlers(RateLimitWebFilterAbortTest test) {
            this.test = test;
        }

        @RequestMapping({"/wait", "/late"})
        Mono<String> handle() {
            return test.run(Mono.never());
        }

        @RateLimited(value = "3 concurrent hold=1h", key = "constant:all")
        @RequestMapping("/annotated")
        Mono<String> annotated() {
            return test.run(Mono.never());
        }

        @PostMapping("/upload")
        Mono<String> upload(@RequestBody Flux<DataBuffer> body) {
            return test.run(body.doOnNext(DataBufferUtils::release).then(Mono.just("uploaded")));
        }

        @RequestMapping(path = "/stream", produces = "text/event-stream")
        Flux<String> stream() {
            return Flux.interval(Duration.ofMillis(1))
                    .onBackpressureDrop()
                    .map(tick -> PART)
                    .doFirst(() -> {
                        test.begun.incrementAndGet();
                        test.running.incrementAndGet();
                    })
                    .doFinally(end -> test.running.decrementAndGet());
        }

        @GetMapping("/file")
        Mono<Resource> file() {
            test.begun.incrementAndGet();
            return Mono.just(new FileSystemResource(test.directory.resolve("large.bin")));
        }

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }
    }
}
