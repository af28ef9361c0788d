package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.internal.Checks;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import org.springframework.core.annotation.AnnotationAwareOrderComparator;
import org.springframework.http.HttpHeaders;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.web.cors.reactive.CorsUtils;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The rate limit header fields of responses, and the response to denied requests. All filters of an application share
 * one instance. Immutable.
 */
public final class RateLimitResponses {

    private final RateLimitHeaders headers;
    private final DenialWriter denials;
    private final Supplier<? extends Collection<? extends HandlerMapping>> mappings;

    private RateLimitResponses(
            RateLimitHeaders headers,
            DenialWriter denials,
            Supplier<? extends Collection<? extends HandlerMapping>> mappings) {
        this.headers = headers;
        this.denials = denials;
        this.mappings = mappings;
    }

    /**
     * Returns responses with all header fields, and with a problem as JSON for denied requests.
     *
     * @return the responses
     */
    public static RateLimitResponses standard() {
        return new RateLimitResponses(RateLimitHeaders.all(), DenialWriter.ofProblem(), List::of);
    }

    /**
     * Returns a copy with other header fields.
     *
     * @param headers the header fields
     * @return the responses
     */
    public RateLimitResponses headers(RateLimitHeaders headers) {
        return new RateLimitResponses(Checks.some(headers, "headers", "RateLimitHeaders.all()"), denials, mappings);
    }

    /**
     * Returns a copy with another response to denied requests.
     *
     * @param denials the writer of the response
     * @return the responses
     */
    public RateLimitResponses denials(DenialWriter denials) {
        return new RateLimitResponses(headers, Checks.some(denials, "denials", "DenialWriter.ofProblem()"), mappings);
    }

    /**
     * Returns a copy for an application with handler mappings that allow other origins, as with {@code @CrossOrigin}
     * and {@code addCorsMappings}. A filter denies a request before the mappings would allow its origin. With this
     * setting the mappings are called first, so that a browser can read the denial.
     *
     * @param mappings all handler mappings of the application, in any order; looked up whenever a cross-origin request
     *     is denied
     * @return the responses
     */
    public RateLimitResponses corsOf(Supplier<? extends Collection<? extends HandlerMapping>> mappings) {
        return new RateLimitResponses(
                headers,
                denials,
                Objects.requireNonNull(mappings, "mappings are null: expected those of the application"));
    }

    /**
     * Returns the decisions on an exchange so far, for use in a handler.
     *
     * @param exchange the exchange
     * @return the decisions, in order; empty if no rule applies to the exchange
     */
    public static List<Decision> decisions(ServerWebExchange exchange) {
        return LimitedExchange.decisions(exchange);
    }

    /**
     * Sets the real cost of a request, for use in a handler. When the response ends, or the client disconnects, it
     * replaces the cost that the rules have charged; see {@code RateLimiter.settle}. It may be set several times, for
     * example for each part of a stream: the last value counts.
     *
     * @param exchange the exchange
     * @param actual the real cost, 0 or more, for each rule that has charged the request
     * @throws IllegalArgumentException if the cost is negative
     */
    public static void cost(ServerWebExchange exchange, long actual) {
        LimitedExchange.verdicts(exchange).cost(actual);
    }

    /**
     * Sets the real cost of a request under one rule, like {@link #cost(ServerWebExchange, long)}. It has no effect if
     * the rule has charged nothing.
     *
     * @param exchange the exchange
     * @param rule the name of the rule
     * @param actual the real cost, 0 or more
     * @throws IllegalArgumentException if the cost is negative
     */
    public static void cost(ServerWebExchange exchange, String rule, long actual) {
        LimitedExchange.verdicts(exchange).cost(rule, actual);
    }

    RateLimitHeaders headers() {
        return headers;
    }

    /** Denies a request. The decisions on it have been noted before. */
    Mono<Void> deny(ServerWebExchange exchange, Problem problem) {
        Mono<Void> denial = Mono.defer(() -> Objects.requireNonNull(
                denials.write(exchange, problem),
                "the writer of denials returned null: expected a Mono, for example Mono.empty()"));
        return needsCors(exchange) ? Mono.defer(() -> allowOrigin(exchange)).then(denial) : denial;
    }

    private static boolean needsCors(ServerWebExchange exchange) {
        ServerHttpRequest request = exchange.getRequest();
        if (request.getHeaders().getOrigin() == null
                || exchange.getResponse().getHeaders().containsHeader(HttpHeaders.ACCESS_CONTROL_ALLOW_ORIGIN)) {
            return false;
        }
        try {
            return CorsUtils.isCorsRequest(request);
        } catch (IllegalArgumentException e) {
            // A malformed origin or host, which no browser sends.
            return false;
        }
    }

    /** A mapping that looks up the handler also handles the origin of the request. */
    private Mono<Void> allowOrigin(ServerWebExchange exchange) {
        return Flux.defer(() -> Flux.fromIterable(sorted(mappings.get())))
                .concatMap(mapping -> mapping.getHandler(exchange))
                .next()
                .then()
                // The client gets the denial, not the error that there is no handler, or none for this method.
                .onErrorComplete();
    }

    private static List<HandlerMapping> sorted(Collection<? extends HandlerMapping> mappings) {
        List<HandlerMapping> sorted = new ArrayList<>(mappings);
        AnnotationAwareOrderComparator.sort(sorted);
        return sorted;
    }
}
