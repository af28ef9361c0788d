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
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.Unprotected;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Mono;

/** The client disconnects while the handler runs, which Reactor Netty cancels. */
class RateLimitWebFilterDisconnectTest {

    private static final Duration LONG = Duration.ofSeconds(60);

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

    @AfterEach
    void close() {
        limiter.close();
    }

    /** Otherwise another request could get the permit while the handler is still running. */
    @ParameterizedTest
    @CsvSource({"/method, false", "/method, true", "/route, false", "/route, true"})
    void aPermitIsReleasedAfterTheHandlerWasCancelled(String path, boolean isHttp2) {
        disconnect(Limit.concurrent(1), path, isHttp2);
        await().atMost(LONG).until(() -> !atRelease.isEmpty());
        assertThat(atRelease).containsExactly(0);
    }

    @ParameterizedTest
    @CsvSource({"/method, false", "/method, true", "/route, false", "/route, true"})
    void aRealCostThatTheHandlerSetsWhenItIsCancelledIsSettled(String path, boolean isHttp2) {
        awaitUsed(disconnect(Limit.perHour(100), path, isHttp2), 7);
    }

    /** The handler fails because it cannot read on, or is cancelled. */
    @ParameterizedTest
    @ValueSource(strings = {"/upload", "/route"})
    void theRealCostOfAnUploadThatTheClientCutsIsSettled(String path) throws IOException {
        Rules rules = rules(Limit.perHour(100));
        try (Service service = Service.startWithHttp2(context -> beans(context, rules))) {
            try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), service.port())) {
                String head = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\npart";
                socket.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
                await().atMost(LONG).until(() -> running.get() == 1);
            }
            awaitUsed(rules, 7);
        }
    }

    private static void awaitUsed(Rules rules, long used) {
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(rules.peek("running", "127.0.0.1")
                                .block(LONG)
                                .limits()
                                .get(0)
                                .used())
                        .isEqualTo(used));
    }

    private Rules rules(Limit limit) {
        Rule rule =
                Rule.named("running").key(LimiterForTests.ADDRESS).limit(limit).build();
        return Rules.of(limiter, PathPatterns.ofSpring(), List.of(rule));
    }

    private Rules disconnect(Limit limit, String path, boolean isHttp2) {
        Rules rules = rules(limit);
        try (Service service = Service.startWithHttp2(context -> beans(context, rules))) {
            ClientForTests client =
                    isHttp2 ? ClientForTests.ofHttp2(service.port()) : ClientForTests.of(service.port());
            client.get("/open");
            CompletableFuture<HttpResponse<String>> response =
                    client.sendLater(client.request(path).GET());
            await().atMost(LONG).until(() -> running.get() == 1);
            response.cancel(true);
            await().atMost(LONG).until(() -> running.get() == 0);
        }
        return rules;
    }

    private void beans(AnnotationConfigApplicationContext context, Rules rules) {
        RateLimitResponses responses = RateLimitResponses.standard();
        // The route has a filter of its own.
        RateLimitWebFilter filter = RateLimitWebFilter.of(rules, Rule.Phase.BEFORE_AUTHENTICATION, responses);
        context.registerBean(
                WebFilter.class,
                () -> (exchange, chain) -> List.of("/method", "/upload")
                                .contains(exchange.getRequest().getPath().value())
                        ? filter.filter(exchange, chain)
                        : chain.filter(exchange));
        context.registerBean(Handlers.class, () -> new Handlers(this));
        context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.route()
                        .GET(
                                "/route",
                                request -> run(request.exchange())
                                        .flatMap(none -> ServerResponse.ok().build()))
                        .POST(
                                "/route",
                                request -> upload(request.exchange())
                                        .flatMap(none -> ServerResponse.ok().build()))
                        .filter(RateLimitHandlerFilter.of(rules, responses))
                        .build());
    }

    private Mono<String> run(ServerWebExchange exchange) {
        return Mono.<String>never().doFirst(running::incrementAndGet).doOnCancel(() -> {
            RateLimitResponses.cost(exchange, 7);
            running.decrementAndGet();
        });
    }

    private Mono<String> upload(ServerWebExchange exchange) {
        return exchange.getRequest()
                .getBody()
                .doOnNext(part -> {
                    DataBufferUtils.release(part);
                    RateLimitResponses.cost(exchange, 7);
                    running.incrementAndGet();
                })
                .then(Mono.just("uploaded"));
    }

    @RestController
    static class Handlers {

        private final RateLimitWebFilterDisconnectTest test;

        Handlers(RateLimitWebFilterDisconnectTest test) {
            this.test = test;
        }

        @GetMapping("/method")
        Mono<String> method(ServerWebExchange exchange) {
            return test.run(exchange);
        }

        @PostMapping("/upload")
        Mono<String> upload(ServerWebExchange exchange) {
            return test.upload(exchange);
        }

        @GetMapping("/open")
        Mono<String> open() {
            return Mono.just("open");
        }
    }
}
