package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;

class RateLimitHandlerFilterTest {

    private final Limiters limiters = Limiters.onRedis();
    private final Service service = Service.start(context -> context.registerBean(RouterFunction.class, this::routes));

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void aRouteIsLimited() {
        HttpResponse<String> first = service.get("/limited/hello");
        assertThat(first.statusCode()).isEqualTo(200);
        assertThat(first.headers().firstValue("RateLimit-Policy")).hasValue("\"route-1m\";q=1;w=60");
        HttpResponse<String> denied = service.get("/limited/hello");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("Content-Type")).hasValue("application/problem+json");
        assertThat(denied.body()).contains("\"violated-policies\":[\"route-1m\"]");
        assertThat(service.get("/free").statusCode()).isEqualTo(200);
    }

    @Test
    void aRuleSeesTheVariablesOfTheRoute() {
        assertThat(service.get("/users/1").statusCode()).isEqualTo(200);
        assertThat(service.get("/users/1").statusCode()).isEqualTo(429);
        assertThat(service.get("/users/2").statusCode()).isEqualTo(200);
    }

    @Test
    void theRealCostOfARouteIsSettledWhenItsResponseEnds() {
        for (int i = 0; i < 4; i++) {
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> service.get("/cost").statusCode() == 200);
        }
    }

    private RouterFunction<ServerResponse> routes() {
        RateLimitHandlerFilter limited =
                RateLimitHandlerFilter.of(limiters.rules(address("route", 1)), RateLimitResponses.standard());
        RateLimitHandlerFilter byUser = RateLimitHandlerFilter.of(
                limiters.rules(
                        Rule.named("user").key(KeySource.pathVariable("id")).limit(Limit.perMinute(1))),
                RateLimitResponses.standard());
        RouterFunction<ServerResponse> free = RouterFunctions.route()
                .GET("/free", request -> ServerResponse.ok().bodyValue("free"))
                .build();
        return RouterFunctions.route()
                .GET("/limited/hello", request -> ServerResponse.ok().bodyValue("hello"))
                .filter(limited)
                .build()
                .and(RouterFunctions.route()
                        .GET("/users/{id}", request -> ServerResponse.ok().bodyValue("user"))
                        .filter(byUser)
                        .build())
                .and(RouterFunctions.route()
                        .GET("/cost", request -> {
                            RateLimitResponses.cost(request.exchange(), "cost", 0);
                            return ServerResponse.ok().bodyValue("cost");
                        })
                        .filter(RateLimitHandlerFilter.of(
                                limiters.rules(address("cost", 1)), RateLimitResponses.standard()))
                        .build())
                .and(free);
    }
}
