package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.ADDRESS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import java.net.InetSocketAddress;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.annotation.Order;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;

/** An exchange, or the rest of its chain, to which no filter subscribes holds no permit. */
class RateLimitWebFilterUnsubscribedTest {

    private static final Limit HELD =
            Limit.concurrent(1).hold(Duration.ofHours(1)).named("running");

    private final RateLimiter limiter =
            RateLimiter.builder("local").store(LocalStore.bounded(100)).build();
    private final Rules rules = Rules.of(
            limiter,
            PathPatterns.ofSpring(),
            List.of(Rule.named("running").key(ADDRESS).limit(HELD).build()));

    @AfterEach
    void close() {
        limiter.close();
    }

    private long used(String address) {
        return rules.peek("running", address).block().limits().get(0).used();
    }

    @Test
    void nothingIsHeldBeforeTheSubscriptionOrAfterTheCancellation() {
        AtomicInteger subscriptions = new AtomicInteger();
        Mono<Void> filtered = RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard())
                .filter(exchange(), next -> Mono.<Void>never().doFirst(subscriptions::incrementAndGet));
        assertThat(used("192.0.2.1")).isZero();
        assertThat(limiter.holders()).isZero();
        Disposable running = filtered.subscribe();
        assertThat(subscriptions).hasValue(1);
        assertThat(used("192.0.2.1")).isEqualTo(1);
        running.dispose();
        assertThat(used("192.0.2.1")).isZero();
        assertThat(limiter.holders()).isZero();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFilterThatDropsTheRestOfTheChainLeavesNoPermitHeld(boolean onTomcat) {
        try (Service service = onTomcat ? Service.startOnTomcat(this::beans) : Service.start(this::beans)) {
            for (String path : List.of("/dropped/before", "/dropped/after", "/dropped/before", "/dropped/after")) {
                HttpResponse<String> response = service.get(path);
                assertThat(response.statusCode()).isEqualTo(path.endsWith("before") ? 202 : 203);
                await().atMost(Duration.ofSeconds(60)).until(() -> used("127.0.0.1") == 0);
                assertThat(limiter.holders()).isZero();
            }
        }
    }

    private void beans(AnnotationConfigApplicationContext context) {
        Service.filters(context, RateLimitResponses.standard(), rules);
        context.registerBean(DropsBefore.class);
        context.registerBean(DropsAfter.class);
    }

    private static ServerWebExchange exchange() {
        return MockServerWebExchange.from(
                MockServerHttpRequest.get("/x").remoteAddress(InetSocketAddress.createUnresolved("192.0.2.1", 1)));
    }

    private static Mono<Void> drop(String path, int status, ServerWebExchange exchange, WebFilterChain chain) {
        Mono<Void> rest = chain.filter(exchange);
        if (!exchange.getRequest().getPath().value().equals(path)) {
            return rest;
        }
        exchange.getResponse().setRawStatusCode(status);
        return exchange.getResponse().setComplete();
    }

    @Order(-1_000)
    static class DropsBefore implements WebFilter {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
            return drop("/dropped/before", 202, exchange, chain);
        }
    }

    @Order(1_000)
    static class DropsAfter implements WebFilter {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
            return drop("/dropped/after", 203, exchange, chain);
        }
    }
}
