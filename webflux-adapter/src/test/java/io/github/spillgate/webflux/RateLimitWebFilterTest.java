package io.github.spillgate.webflux;

import static io.github.spillgate.testkit.RateLimitFields.field;
import static io.github.spillgate.testkit.RateLimitFields.names;
import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.HttpContract;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** What only WebFlux has; what clients of both adapters see is in {@link HttpContract}. */
class RateLimitWebFilterTest {

    private final Limiters limiters = Limiters.onRedis();
    private Service service;

    @AfterEach
    void close() {
        if (service != null) {
            service.close();
        }
        limiters.close();
    }

    // What a client sees.

    @Test
    void theDenialResponseIsReplaceable() {
        service = Service.start(context -> beans(
                context,
                RateLimitResponses.standard().denials((exchange, problem) -> {
                    exchange.getResponse().setStatusCode(HttpStatus.LOCKED);
                    return exchange.getResponse().setComplete();
                }),
                limiters.rules(address("address", 1))));
        service.get("/hello");
        HttpResponse<String> denied = service.get("/hello");
        assertThat(denied.statusCode()).isEqualTo(423);
        assertThat(denied.headers().firstValue("RateLimit")).isPresent();
    }

    @Test
    void anErrorResponseHasTheFields() {
        start(address("address", 5));
        HttpResponse<String> response = service.get("/fails");
        assertThat(response.statusCode()).isEqualTo(404);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    // Which requests.

    @Test
    void pathPatternsAreThoseOfSpring() {
        start(
                Rule.named("user")
                        .paths("/users/{id}")
                        .key(KeySource.pathVariable("id"))
                        .limit(Limit.perMinute(1)),
                address("rest", 100).paths("/hello", "/rest/**"));
        assertThat(service.get("/users/1").statusCode()).isEqualTo(200);
        assertThat(service.get("/users/2").statusCode()).isEqualTo(200);
        assertThat(service.get("/users/%31").statusCode()).isEqualTo(429);
        assertThat(service.get("/users/2;x=y").statusCode()).isEqualTo(429);
        assertThat(service.get("/users/2?x=y").statusCode()).isEqualTo(429);
        assertThat(names(service.get("/rest/a/b"))).containsExactly("rest-1m");
        assertThat(names(service.get("/hello"))).containsExactly("rest-1m");
    }

    @Test
    void aRequestThatIsDispatchedAgainIsChargedOnce() {
        Rules rules = limiters.rules(address("address", 5));
        service = Service.start(context -> {
            beans(context, RateLimitResponses.standard(), rules);
            context.registerBean("again", WebFilter.class, () -> (exchange, chain) -> {
                if (exchange.getRequest().getPath().value().equals("/old")) {
                    ServerWebExchange moved = exchange.mutate()
                            .request(request -> request.path("/hello"))
                            .build();
                    return context.getBean("webHandler", org.springframework.web.server.WebHandler.class)
                            .handle(moved);
                }
                return chain.filter(exchange);
            });
            // A second filter of the same rules is the same.
            context.registerBean(
                    "twice",
                    WebFilter.class,
                    () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard()));
        });
        assertThat(field(service.get("/old"), "X-RateLimit-Remaining")).isEqualTo("4");
    }

    // The handler.

    @Test
    void aHandlerNeverRunsOnTheThreadOfRedis() {
        start(address("address", 100));
        assertThat(service.get("/thread").body()).doesNotContain("lettuce");
    }

    @Test
    void aRuleMayCountFailedLoginsOnly() {
        start(address("login", 2).paths("/login").refundWhen("2xx"));
        for (int i = 0; i < 5; i++) {
            assertThat(service.get("/login", "X-Password", "right").statusCode())
                    .isEqualTo(200);
        }
        assertThat(service.get("/login", "X-Password", "wrong").statusCode()).isEqualTo(401);
        assertThat(service.get("/login", "X-Password", "wrong").statusCode()).isEqualTo(401);
        assertThat(service.get("/login", "X-Password", "right").statusCode()).isEqualTo(429);
    }

    @Test
    void serverSentEventsAreChargedOnce() {
        start(address("address", 5));
        HttpResponse<String> response = service.get("/events", "Accept", "text/event-stream");
        assertThat(response.body()).isEqualTo("data:1\n\ndata:2\n\ndata:3\n\n");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    private void start(Rule.Builder... rules) {
        service = Service.start(context -> beans(context, RateLimitResponses.standard(), limiters.rules(rules)));
    }

    private static void beans(AnnotationConfigApplicationContext context, RateLimitResponses responses, Rules rules) {
        Service.filters(context, responses, rules);
        context.registerBean(Handlers.class);
    }

    @RestController
    static class Handlers {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }

        @GetMapping({"/users/{id}", "/rest/a/b"})
        Mono<String> user() {
            return Mono.just("somebody");
        }

        @GetMapping("/fails")
        Mono<String> fails() {
            return Mono.error(new ResponseStatusException(HttpStatus.NOT_FOUND));
        }

        @GetMapping("/thread")
        Mono<String> thread() {
            return Mono.just(Thread.currentThread().getName());
        }

        @GetMapping("/login")
        Mono<String> login(ServerWebExchange exchange) {
            return "right".equals(exchange.getRequest().getHeaders().getFirst("X-Password"))
                    ? Mono.just("welcome")
                    : Mono.error(new ResponseStatusException(HttpStatus.UNAUTHORIZED));
        }

        @GetMapping(value = "/events", produces = MediaType.TEXT_EVENT_STREAM_VALUE)
        Flux<Integer> events() {
            return Flux.just(1, 2, 3);
        }
    }
}
