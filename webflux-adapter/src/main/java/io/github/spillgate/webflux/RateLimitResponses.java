package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.RateLimitHeaders;
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
 * What responses tell of limits, and what those get who are denied. All filters of an application share one. Immutable.
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
     * All header fields, and a problem as JSON for those who are denied.
     *
     * @return the responses
     */
    public static RateLimitResponses standard() {
        return new RateLimitResponses(RateLimitHeaders.all(), DenialWriter.ofProblem(), List::of);
    }

    /**
     * The same with other header fields.
     *
     * @param headers which are written
     * @return the responses
     */
    public RateLimitResponses headers(RateLimitHeaders headers) {
        return new RateLimitResponses(
                Objects.requireNonNull(headers, "headers are null: expected some, for example RateLimitHeaders.all()"),
                denials,
                mappings);
    }

    /**
     * The same with another response for those who are denied.
     *
     * @param denials writes it
     * @return the responses
     */
    public RateLimitResponses denials(DenialWriter denials) {
        return new RateLimitResponses(
                headers,
                Objects.requireNonNull(
                        denials, "denials are null: expected a writer, for example DenialWriter.ofProblem()"),
                mappings);
    }

    /**
     * The same for an application whose handler mappings allow other origins, as {@code @CrossOrigin} and {@code addCorsMappings} do.
     * They would do so after a filter has denied a request; asked first, they let a browser read the denial.
     *
     * @param mappings all handler mappings of the application, in any order; looked up whenever such a request is denied
     * @return the responses
     */
    public RateLimitResponses corsOf(Supplier<? extends Collection<? extends HandlerMapping>> mappings) {
        return new RateLimitResponses(
                headers,
                denials,
                Objects.requireNonNull(mappings, "mappings are null: expected those of the application"));
    }

    /**
     * Returns what was decided on an exchange until now, for a handler that wants to know.
     *
     * @param exchange the exchange
     * @return the decisions, in their order; empty if no rule applies to it
     */
    public static List<Decision> decisions(ServerWebExchange exchange) {
        return Limited.decisions(exchange);
    }

    RateLimitHeaders headers() {
        return headers;
    }

    /** Denies a request; what has been decided on it is known already. */
    Mono<Void> deny(ServerWebExchange exchange, Problem problem) {
        return needsCors(exchange)
                ? Mono.defer(() -> allowOrigin(exchange)).then(Mono.defer(() -> denials.write(exchange, problem)))
                : denials.write(exchange, problem);
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
            // Of an origin or a host that is none, which no browser sends.
            return false;
        }
    }

    /** A mapping that looks for the handler also does what is to be done for the request's origin. */
    private Mono<Void> allowOrigin(ServerWebExchange exchange) {
        return Flux.defer(() -> Flux.fromIterable(sorted(mappings.get())))
                .concatMap(mapping -> mapping.getHandler(exchange))
                .next()
                .then()
                // That there is no handler, or none for this method, is not what the client is to hear.
                .onErrorComplete();
    }

    private static List<HandlerMapping> sorted(Collection<? extends HandlerMapping> mappings) {
        List<HandlerMapping> sorted = new ArrayList<>(mappings);
        AnnotationAwareOrderComparator.sort(sorted);
        return sorted;
    }
}
