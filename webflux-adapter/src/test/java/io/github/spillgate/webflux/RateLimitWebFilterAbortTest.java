package io.github.spillgate.webflux;

import static io.github.spillgate.testkit.AbortedRequest.rawGet;
import static io.github.spillgate.testkit.AbortedRequest.rawPost;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.AbortedRequest;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.Unprotected;
import io.netty.handler.timeout.WriteTimeoutHandler;
import java.nio.file.Path;
import java.time.Duration;
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
        AbortedRequest.writeLargeFile(directory.resolve("large.bin"));
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
        return AbortedRequest.closedAndReset(
                new AbortedRequest("decision", rawGet("/late", ""), false),
                new AbortedRequest("handler", rawGet("/wait", ""), false),
                new AbortedRequest("handler of a route", rawGet("/route", ""), false),
                new AbortedRequest("annotated handler", rawGet("/annotated", ""), false),
                new AbortedRequest("body that is not read", rawPost("/wait", ""), false),
                new AbortedRequest("half a body that is not read", rawPost("/wait", "half"), false),
                new AbortedRequest("body that a route does not read", rawPost("/route", ""), false),
                new AbortedRequest("body that an annotated handler does not read", rawPost("/annotated", ""), false),
                new AbortedRequest("body", rawPost("/upload", ""), false),
                new AbortedRequest("half a body", rawPost("/upload", "half"), false),
                new AbortedRequest("stream", rawGet("/stream", ""), true),
                new AbortedRequest("stream and body", rawPost("/stream", ""), true),
                new AbortedRequest("file", rawGet("/file", ""), true),
                new AbortedRequest("pipelined handlers", rawGet("/wait", "").repeat(2), false),
                new AbortedRequest("pipelined streams", rawGet("/stream", "").repeat(2), true));
    }

    @ParameterizedTest(name = "{0}, reset: {1}")
    @MethodSource("stages")
    void noPermitAndNoHandlerOutlivesItsConnection(AbortedRequest aborted, boolean resets) throws Exception {
        boolean isDecided = !aborted.stage().equals("decision");
        aborted.send(
                service.port(),
                PERMITS,
                resets,
                () -> await().atMost(LONG).until(() -> (isDecided ? begun : asked).get() == PERMITS));
        key.tryEmitEmpty();
        if (isDecided) {
            awaitReleaseWithoutHandlers();
        }
        assertAllFree();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/wait", "/route", "/stream", "/file"})
    void noPermitAndNoHandlerOutlivesItsStream(String path) {
        service.close();
        service = Service.startWithHttp2(this::beans);
        ClientForTests http2 = ClientForTests.ofHttp2(service.port());
        http2.get("/hello");
        if (path.equals("/wait") || path.equals("/route")) {
            CompletableFuture<?> response = http2.sendLater(http2.request(path).GET());
            await().atMost(LONG).until(() -> begun.get() == 1);
            response.cancel(true);
        } else {
            http2.readAndDisconnect(path, 12);
        }
        awaitReleaseWithoutHandlers();
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
        String[] parts = request.split(" ", -1);
        String sent = parts[0].equals("POST") ? rawPost(parts[1], "") : rawGet(parts[1], "");
        new AbortedRequest("slow", sent, false).send(service.port(), 1, false, () -> {
            await().atMost(LONG).until(() -> begun.get() == 1);
            assertAllFree();
        });
    }

    /**
     * Waits for the last release: no handler is running then. Otherwise another request could get a permit while a
     * handler is still running.
     */
    private void awaitReleaseWithoutHandlers() {
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(atRelease)
                        .as("handlers that ran at each release")
                        .contains(0));
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
