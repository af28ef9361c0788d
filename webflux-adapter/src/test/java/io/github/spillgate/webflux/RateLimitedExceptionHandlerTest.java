package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.testkit.RateLimitFields;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpStatus;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.ResponseStatusException;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

/** Denials that leave a handler as an exception, over HTTP. */
class RateLimitedExceptionHandlerTest {

    private final Limiters limiters = Limiters.onRedis();
    private final RateLimitResponses responses = RateLimitResponses.standard();
    private final Service service = Service.start(context -> {
        Service.filters(
                context, responses, limiters.rules(address("address", 100).paths("/ruled/**")));
        context.registerBean(RateLimitedExceptionHandler.class, () -> RateLimitedExceptionHandler.of(responses));
        context.registerBean(Handlers.class, () -> new Handlers(limiters));
        context.registerBean(Catching.class, () -> new Catching(limiters));
        context.registerBean(RouterFunction.class, this::routes);
    });

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void anUncaughtDenialIsAnsweredLikeThatOfARule() {
        for (String path : new String[] {"/free/a", "/thrown/b", "/future/c", "/functional"}) {
            assertThat(service.get(path).body()).as(path).isEqualTo("done");
            HttpResponse<String> denied = service.get(path);
            assertThat(denied.statusCode()).as(path).isEqualTo(429);
            assertThat(denied.headers().firstValue("Content-Type")).hasValue("application/problem+json");
            assertThat(denied.headers().firstValue("Cache-Control")).hasValue("no-store");
            assertThat(denied.headers().firstValue("RateLimit-Policy")).hasValue("\"1h\";q=1;w=3600");
            assertThat(denied.headers().firstValue("RateLimit").orElseThrow()).startsWith("\"1h\";r=0;t=");
            assertThat(denied.headers().firstValue("X-RateLimit-Remaining")).hasValue("0");
            String wait = denied.headers().firstValue("Retry-After").orElseThrow();
            assertThat(Integer.parseInt(wait)).isBetween(3_500, 3_601);
            assertThat(denied.body())
                    .contains("\"status\":429", "\"violated-policies\":[\"1h\"]", "\"retry-after\":" + wait);
        }
    }

    @Test
    void decisionsOfRulesAreReportedBesideTheDenial() {
        assertThat(service.get("/ruled/a").headers().firstValue("RateLimit-Policy"))
                .hasValue("\"address-1m\";q=100;w=60");
        HttpResponse<String> denied = service.get("/ruled/a");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(RateLimitFields.names(denied)).containsExactly("address-1m", "1h");
        assertThat(denied.body()).contains("\"violated-policies\":[\"1h\"]");
    }

    @Test
    void otherFailuresAreLeftToOtherHandlers() {
        assertThat(service.get("/missing/a").statusCode()).isEqualTo(404);
        assertThat(service.get("/broken/a").statusCode()).isEqualTo(500);
        assertThat(RateLimitFields.all(service.get("/broken/a"))).isEmpty();
    }

    @Test
    void aResponseThatHasBegunIsNotChanged() {
        RateLimitedException denied = new RateLimitedException(limiters.limiter()
                .tryAcquire(Charge.of("begun", Limit.perHour(1)).permits(2))
                .block());
        MockServerWebExchange exchange = MockServerWebExchange.from(MockServerHttpRequest.get("/"));
        exchange.getResponse().setComplete().block();
        StepVerifier.create(RateLimitedExceptionHandler.of(responses).handle(exchange, denied))
                .verifyErrorSatisfies(error -> assertThat(error).isSameAs(denied));
        assertThat(exchange.getResponse().getHeaders().headerNames()).isEmpty();
    }

    @Test
    void anExceptionHandlerOfTheApplicationPrecedes() {
        assertThat(service.get("/caught/a").body()).isEqualTo("done");
        HttpResponse<String> caught = service.get("/caught/a");
        assertThat(caught.statusCode()).isEqualTo(503);
        assertThat(caught.body()).isEqualTo("later");
    }

    private RouterFunction<ServerResponse> routes() {
        return RouterFunctions.route()
                .GET(
                        "/functional",
                        request -> ServerResponse.ok()
                                .bodyValue("done")
                                .transform(limiters.limiter().limited(charge("functional"))))
                .build();
    }

    private static Charge charge(String key) {
        return Charge.of(key, Limit.perHour(1));
    }

    @RestController
    static class Handlers {

        private final Limiters limiters;

        Handlers(Limiters limiters) {
            this.limiters = limiters;
        }

        @GetMapping({"/free/{key}", "/ruled/{key}"})
        Mono<String> limited(@PathVariable("key") String key) {
            return Mono.just("done").transform(limiters.limiter().limited(charge(key)));
        }

        @GetMapping("/thrown/{key}")
        Mono<String> thrown(@PathVariable("key") String key) {
            return limiters.limiter().tryAcquire(charge(key)).map(decision -> {
                if (!decision.isAllowed()) {
                    throw new RateLimitedException(decision);
                }
                return "done";
            });
        }

        @GetMapping("/future/{key}")
        CompletableFuture<String> future(@PathVariable("key") String key) {
            return limited(key).toFuture().thenApply(done -> done);
        }

        @GetMapping("/missing/{key}")
        Mono<String> missing(@PathVariable("key") String key) {
            return Mono.error(new ResponseStatusException(HttpStatus.NOT_FOUND));
        }

        @GetMapping("/broken/{key}")
        Mono<String> broken(@PathVariable("key") String key) {
            return Mono.error(new IllegalStateException("broken"));
        }
    }

    @RestController
    static class Catching {

        private final Limiters limiters;

        Catching(Limiters limiters) {
            this.limiters = limiters;
        }

        @GetMapping("/caught/{key}")
        Mono<String> caught(@PathVariable("key") String key) {
            return Mono.just("done").transform(limiters.limiter().limited(charge(key)));
        }

        @ExceptionHandler
        @ResponseStatus(HttpStatus.SERVICE_UNAVAILABLE)
        Mono<String> later(RateLimitedException denied) {
            return Mono.just("later");
        }
    }
}
