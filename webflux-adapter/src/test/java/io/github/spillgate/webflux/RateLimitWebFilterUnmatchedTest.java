package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** A filter adds nothing to a request that no rule matches: no operator, no attribute and no wrapper. */
class RateLimitWebFilterUnmatchedTest {

    private final RateLimiter limiter = Limiters.local();
    private final Rules rules = rules(address("address", 100).paths("/limited"));
    private final Mono<Void> rest = Mono.never();
    private final List<ServerWebExchange> received = new ArrayList<>();

    @AfterEach
    void close() {
        limiter.close();
    }

    @Test
    void unmatchedPathGoesStraightToTheChain() {
        assertGoesStraightToTheChain(rules, Phase.BEFORE_AUTHENTICATION, "/free");
    }

    @Test
    void ruleOfTheOtherPhaseDoesNotMatch() {
        assertGoesStraightToTheChain(rules, Phase.AFTER_AUTHENTICATION, "/limited");
    }

    @Test
    void excludedPathDoesNotMatch() {
        Rules excluding = rules(address("address", 100).excludePaths("/limited"));
        assertGoesStraightToTheChain(excluding, Phase.BEFORE_AUTHENTICATION, "/limited");
    }

    @Test
    void otherMethodDoesNotMatch() {
        Rules posts = rules(address("address", 100).methods("POST"));
        assertGoesStraightToTheChain(posts, Phase.BEFORE_AUTHENTICATION, "/limited");
    }

    @Test
    void disabledRulesMatchNothing() {
        Rules off = Rules.off(limiter, PathPatterns.ofSpring());
        off.replace(rules.list());
        assertGoesStraightToTheChain(off, Phase.BEFORE_AUTHENTICATION, "/limited");
    }

    @Test
    void matchedRequestWaitsForItsVerdict() {
        ServerWebExchange exchange = exchange("/limited");
        Mono<Void> result = filter(rules, Phase.BEFORE_AUTHENTICATION, exchange);
        assertThat(result).isNotSameAs(rest);
        assertThat(received).isEmpty();
        result.subscribe().dispose();
        assertThat(received).singleElement().isSameAs(exchange);
        assertThat(RateLimitResponses.decisions(exchange)).hasSize(1);
    }

    private void assertGoesStraightToTheChain(Rules rules, Phase phase, String path) {
        ServerWebExchange exchange = exchange(path);
        List<String> attributes = List.copyOf(exchange.getAttributes().keySet());
        assertThat(filter(rules, phase, exchange)).isSameAs(rest);
        assertThat(received).singleElement().isSameAs(exchange);
        assertThat(exchange.getAttributes().keySet()).containsExactlyInAnyOrderElementsOf(attributes);
    }

    private Mono<Void> filter(Rules rules, Phase phase, ServerWebExchange exchange) {
        return RateLimitWebFilter.of(rules, phase, RateLimitResponses.standard())
                .filter(exchange, next -> {
                    received.add(next);
                    return rest;
                });
    }

    private Rules rules(Rule.Builder rule) {
        return Rules.of(limiter, PathPatterns.ofSpring(), List.of(rule.build()));
    }

    private static ServerWebExchange exchange(String path) {
        return MockServerWebExchange.from(
                MockServerHttpRequest.get(path).remoteAddress(InetSocketAddress.createUnresolved("192.0.2.1", 1)));
    }
}
