package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.ADDRESS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.http.KeySyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ClientForTests;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;

/** Annotations and functional routes on a servlet container, without a rule of a filter. */
class TomcatRateLimitedTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    private final RateLimiter limiter =
            RateLimiter.builder("local").store(LocalStore.bounded(100)).build();
    private final Rules ofRoute = Rules.of(
            limiter,
            PathPatterns.ofSpring(),
            List.of(Rule.named("route")
                    .key(ADDRESS)
                    .limit(Limit.concurrent(1).hold(Duration.ofHours(1)).named("route"))
                    .build()));
    private final Service service = Service.startOnTomcat(this::beans);
    private final ClientForTests client = ClientForTests.of(service.port());
    private RateLimitedHandlerAdapter annotations;

    private void beans(AnnotationConfigApplicationContext context) {
        context.registerBean(RateLimitedHandlerAdapter.class, () -> {
            annotations = new RateLimitedHandlerAdapter(
                    limiter,
                    KeySyntax.of(ClientAddress.ofPeer()),
                    RateLimitResponses.standard(),
                    RuleInstrumentation.none(),
                    context.getBean(RequestMappingHandlerAdapter.class));
            return annotations;
        });
        context.registerBean(Handlers.class);
        context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.route()
                        .GET(
                                "/route",
                                request -> ServerResponse.ok()
                                        .contentType(MediaType.TEXT_EVENT_STREAM)
                                        .body(ticks(), String.class))
                        .filter(RateLimitHandlerFilter.of(ofRoute, RateLimitResponses.standard()))
                        .build());
    }

    private static Flux<String> ticks() {
        return Flux.interval(Duration.ofMillis(1)).onBackpressureDrop().map(tick -> "tick");
    }

    @AfterEach
    void close() {
        service.close();
        limiter.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/annotated", "/route"})
    void aPermitIsHeldUntilTheStreamHasEnded(String path) {
        for (int i = 0; i < 2; i++) {
            await().atMost(LONG)
                    .until(() -> client.readAndDisconnect(
                                    path,
                                    4,
                                    () -> assertThat(client.readAndDisconnect(path, 4))
                                            .isEqualTo(429))
                            == 200);
        }
    }

    @Test
    void theRealCostThatIsSetWhileTheResponseRunsIsSettled() {
        assertThat(client.get("/cost").statusCode()).isEqualTo(200);
        Limit limit = annotations.rules().stream()
                .flatMap(rule -> rule.limits().stream())
                .filter(one -> one.permits() == 50)
                .findFirst()
                .orElseThrow();
        await().atMost(LONG)
                .until(() -> limiter.peek(Charge.of("127.0.0.1", limit))
                                .block()
                                .limits()
                                .get(0)
                                .used()
                        == 20);
    }

    @RestController
    static class Handlers {

        @RateLimited("1 concurrent hold=1h")
        @GetMapping(path = "/annotated", produces = "text/event-stream")
        Flux<String> annotated() {
            return ticks();
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
