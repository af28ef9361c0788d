package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.annotation.Order;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.HandlerFilterFunction;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Requests that are retried, refunded by several filters, or sent while rules are replaced. */
class RateLimitWebFilterRetryTest extends ServiceFixture {

    @Test
    void aRouteThatIsTriedAgainIsChargedOnce() {
        HandlerFilterFunction<ServerResponse, ServerResponse> limited =
                RateLimitHandlerFilter.of(limiters.rules(address("address", 10)), RateLimitResponses.standard());
        HandlerFilterFunction<ServerResponse, ServerResponse> again =
                (request, next) -> next.handle(request).retry(3);
        String inner = leftAfterTwoFailures(again, limited);
        service.close();
        String outer = leftAfterTwoFailures(limited, again);
        assertThat(List.of(inner, outer)).containsExactly("9", "8");
    }

    /**
     * What is left of ten after one request to a route that answers the third time only; the last filter is the
     * outermost.
     */
    private String leftAfterTwoFailures(
            HandlerFilterFunction<ServerResponse, ServerResponse> inner,
            HandlerFilterFunction<ServerResponse, ServerResponse> outer) {
        AtomicInteger calls = new AtomicInteger();
        service = Service.start(context -> context.registerBean(
                RouterFunction.class,
                () -> RouterFunctions.route()
                        .GET(
                                "/flaky",
                                request -> calls.incrementAndGet() % 3 != 0
                                        ? Mono.error(new IllegalStateException("flaky"))
                                        : ServerResponse.ok().bodyValue("ok"))
                        .filter(inner)
                        .filter(outer)
                        .build()));
        return service.get("/flaky")
                .headers()
                .firstValue("X-RateLimit-Remaining")
                .orElse("none");
    }

    @Test
    void aRetryAfterATimeoutLooksTheKeyUpAgain() {
        AtomicInteger asked = new AtomicInteger();
        Sinks.Empty<Void> hangs = Sinks.empty();
        Mono<String> first =
                Mono.<String>never().doFirst(() -> Schedulers.parallel().schedule(hangs::tryEmitEmpty));
        try (LimiterForTests patient = LimiterForTests.on(RedisForTests.first(), Duration.ofSeconds(40))) {
            Rules rules = Rules.of(
                    patient.limiter(),
                    PathPatterns.ofSpring(),
                    List.of(Rule.named("slow")
                            .key(match -> asked.incrementAndGet() == 1 ? first : Mono.just("k"))
                            .timeout(Duration.ofSeconds(20))
                            .limit(Limit.perMinute(10))
                            .build()));
            service = Service.start(context -> {
                context.registerBean("retrying", WebFilter.class, () -> new RetryingOnce(asked, hangs.asMono()));
                beans(context, rules);
            });
            assertThat(service.get("/hello").headers().firstValue("X-RateLimit-Remaining"))
                    .hasValue("9");
        }
    }

    @ParameterizedTest
    @CsvSource({"false, failing", "false, hanging", "true, failing", "true, hanging"})
    void aRequestThatIsTriedAgainHoldsItsPermit(boolean isOnTomcat, String firstTry) {
        Rules rules = Rules.of(
                Limiters.local(),
                PathPatterns.ofSpring(),
                List.of(Rule.named("running")
                        .key(LimiterForTests.ADDRESS)
                        .limit(Limit.concurrent(1).hold(Duration.ofHours(1)))
                        .build()));
        AtomicInteger calls = new AtomicInteger();
        Sinks.Empty<Void> hangs = Sinks.empty();
        Mono<String> first = firstTry.equals("failing")
                ? Mono.error(new IllegalStateException("flaky"))
                : Mono.<String>never().doFirst(() -> Schedulers.parallel().schedule(hangs::tryEmitEmpty));
        Consumer<AnnotationConfigApplicationContext> beans = context -> {
            context.registerBean("retrying", WebFilter.class, () -> new RetryingOnce(calls, hangs.asMono()));
            beans(context, rules);
            context.registerBean(
                    RouterFunction.class,
                    () -> RouterFunctions.route()
                            .GET(
                                    "/flaky",
                                    request -> (calls.incrementAndGet() == 1 ? first : used(rules))
                                            .flatMap(used -> ServerResponse.ok().bodyValue(used)))
                            .build());
        };
        service = isOnTomcat ? Service.startOnTomcat(beans) : Service.start(beans);
        assertThat(service.get("/flaky").body()).isEqualTo("1 used");
        await().atMost(Duration.ofSeconds(60)).until(() -> used(rules).block().equals("0 used"));
    }

    /** Ends the first try if it hangs, and tries again. */
    @Order(-200)
    record RetryingOnce(AtomicInteger calls, Mono<Void> hangs) implements WebFilter {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
            return Mono.defer(() -> calls.get() == 0 ? chain.filter(exchange).timeout(hangs) : chain.filter(exchange))
                    .retry(1);
        }
    }

    private static Mono<String> used(Rules rules) {
        return rules.peek("running", "127.0.0.1")
                .map(decision -> decision.limits().get(0).used() + " used");
    }

    @Test
    void neverMoreThanTheLimitWhileRulesAreReplaced() {
        Rules rules = limiters.rules(address("address", 50));
        service = Service.start(context -> beans(context, rules));
        List<CompletableFuture<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            all.add(service.sendLater(service.request("/hello").GET()).thenApply(response -> response.statusCode()));
            if (i % 10 == 0) {
                rules.replace(List.of(address("address", 50).build()));
            }
        }
        Map<Integer, Integer> statuses = new TreeMap<>();
        all.forEach(one -> statuses.merge(one.join(), 1, Integer::sum));
        assertThat(statuses).isEqualTo(Map.of(200, 50, 429, 250));
    }

    @Test
    void everyPhaseIsRefundedOnce() {
        Rules rules = limiters.rules(
                address("before", 10).refundWhen("5xx"),
                address("after", 10).phase(Phase.AFTER_AUTHENTICATION).refundWhen("5xx"));
        service = Service.start(context -> {
            beans(context, rules);
            Service.annotations(context, limiters.limiter());
        });
        service.get("/ok");
        assertThat(service.get("/boom").statusCode()).isEqualTo(500);
        assertThat(service.get("/boom").statusCode()).isEqualTo(500);
        String told = service.get("/ok").headers().firstValue("RateLimit").orElseThrow();
        assertThat(told).contains("\"before-1m\";r=8").contains("\"after-1m\";r=8");
    }

    private static void beans(AnnotationConfigApplicationContext context, Rules rules) {
        Service.filters(context, RateLimitResponses.standard(), rules);
        context.registerBean(Handlers.class);
    }

    @RestController
    static class Handlers {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }

        @RateLimited(value = "10/1m", refundWhen = "5xx")
        @GetMapping("/boom")
        Flux<String> boom() {
            return Flux.error(new IllegalStateException("boom"));
        }

        @GetMapping("/ok")
        Mono<String> ok() {
            return Mono.just("ok");
        }
    }
}
