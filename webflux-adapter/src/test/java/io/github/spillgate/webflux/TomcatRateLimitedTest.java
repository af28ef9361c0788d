package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.ADDRESS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Annotations and functional routes on a servlet container, without a rule of a filter. */
class TomcatRateLimitedTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int CLIENTS = 8;
    private static final int HANDLERS = 100;

    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicInteger running = new AtomicInteger();
    private final RateLimiter limiter = Limiters.local();
    private final Rules ofRoute = Rules.of(
            limiter,
            PathPatterns.ofSpring(),
            List.of(Rule.named("route")
                    .key(ADDRESS)
                    .limit(Limit.concurrent(1).hold(Duration.ofHours(1)).named("route"))
                    .build()));
    private final Service service = Service.startOnTomcat(this::beans);
    private final ClientForTests client = ClientForTests.of(service.port());

    private void beans(AnnotationConfigApplicationContext context) {
        Service.annotations(context, limiter);
        context.registerBean(Handlers.class, () -> new Handlers(this));
        context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.route()
                        .GET("/route", request -> stream(ticks()))
                        .GET("/route/failing", request -> stream(failing()))
                        .filter(RateLimitHandlerFilter.of(ofRoute, RateLimitResponses.standard()))
                        .build());
    }

    private static Mono<ServerResponse> stream(Flux<String> body) {
        return ServerResponse.ok().contentType(MediaType.TEXT_EVENT_STREAM).body(body, String.class);
    }

    private Flux<String> ticks() {
        return Flux.interval(Duration.ofMillis(1))
                .doFirst(this::begin)
                .doFinally(end -> running.decrementAndGet())
                .onBackpressureDrop()
                .map(tick -> "tick");
    }

    private void begin() {
        begun.incrementAndGet();
        running.incrementAndGet();
    }

    private static Flux<String> failing() {
        return Flux.just("tick", "tick")
                .delayElements(Duration.ofMillis(1))
                .concatWith(Flux.error(new IllegalStateException("told to fail")));
    }

    @AfterEach
    void close() {
        service.close();
        limiter.close();
    }

    /** Asks the store: the limiter forgets a hold shortly before the store has released its permits. */
    private void awaitNoHolder() {
        List<Limit> limits = Stream.of(annotated(), ofRoute.list())
                .flatMap(List::stream)
                .flatMap(rule -> rule.limits().stream())
                .filter(limit -> limit.holdsPermits())
                .toList();
        await().atMost(LONG).until(() -> limits.stream().allMatch(limit -> used(limit) == 0));
    }

    private List<Rule> annotated() {
        return service.bean(RateLimitedHandlerAdapter.class).rules();
    }

    private long used(Limit limit) {
        return limiter.peek(Charge.of("127.0.0.1", limit))
                .block()
                .limits()
                .get(0)
                .used();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/annotated", "/route"})
    void aPermitIsHeldUntilTheClientOfAStreamDisconnects(String path) {
        for (int i = 0; i < 2; i++) {
            int status = client.readAndDisconnect(
                    path, 4, () -> assertThat(client.readAndDisconnect(path, 4)).isEqualTo(429));
            assertThat(status).isEqualTo(200);
            // Otherwise the next stream may be denied, and the permit be free for the request within it.
            awaitNoHolder();
            await().atMost(LONG).until(() -> running.get() == 0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"/annotated/failing", "/route/failing"})
    void aPermitIsReleasedIfAStreamFails(String path) {
        for (int i = 0; i < 2; i++) {
            assertThat(readAll(path)).isEqualTo(200);
            awaitNoHolder();
        }
    }

    private int readAll(String path) {
        try {
            return client.read(path, body -> body.readAllBytes());
        } catch (UncheckedIOException e) {
            assertThat(e).hasCauseInstanceOf(IOException.class);
            return 200;
        }
    }

    @Test
    void clientsThatDisconnectAtRandomMomentsLeakNoPermit() {
        ClientForTests.inParallel(CLIENTS, this::disconnect);
        awaitNoHolder();
        await().atMost(LONG).until(() -> running.get() == 0);
    }

    private void disconnect(Random random) {
        while (begun.get() < HANDLERS && !Thread.currentThread().isInterrupted()) {
            client.disconnectAtRandom(random, false);
        }
    }

    @Test
    void theRealCostThatIsSetWhileTheResponseRunsIsSettled() {
        assertThat(client.get("/cost").statusCode()).isEqualTo(200);
        Limit limit = annotated().stream()
                .flatMap(rule -> rule.limits().stream())
                .filter(one -> one.permits() == 50)
                .findFirst()
                .orElseThrow();
        await().atMost(LONG).until(() -> used(limit) == 20);
    }

    @RestController
    static class Handlers {

        private final TomcatRateLimitedTest test;

        Handlers(TomcatRateLimitedTest test) {
            this.test = test;
        }

        @RateLimited("1 concurrent hold=1h")
        @GetMapping(path = "/annotated", produces = "text/event-stream")
        Flux<String> annotated() {
            return test.ticks();
        }

        @RateLimited("1 concurrent hold=1h")
        @GetMapping(path = "/annotated/failing", produces = "text/event-stream")
        Flux<String> failing() {
            return TomcatRateLimitedTest.failing();
        }

        @RateLimited("3 concurrent hold=1h")
        @GetMapping(path = "/hold/stream", produces = "text/event-stream")
        Flux<String> holdStream() {
            return test.ticks();
        }

        @RateLimited("3 concurrent hold=1h")
        @GetMapping("/hold/{millis}")
        Mono<String> hold(@PathVariable long millis) {
            return Mono.delay(Duration.ofMillis(millis)).thenReturn("held");
        }

        @RateLimited("50/1h")
        @GetMapping(path = "/cost", produces = "text/event-stream")
        Flux<Integer> cost(ServerWebExchange exchange) {
            return Flux.range(1, 20)
                    .delayElements(Duration.ofMillis(1))
                    .doOnNext(part -> RateLimitResponses.cost(exchange, part));
        }
    }
}
