package io.github.spillgate.webflux;

import io.github.spillgate.http.Rules;
import io.github.spillgate.internal.Checks;
import org.springframework.web.reactive.function.server.HandlerFilterFunction;
import org.springframework.web.reactive.function.server.HandlerFunction;
import org.springframework.web.reactive.function.server.ServerRequest;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.publisher.Mono;

/**
 * A filter that limits the requests of functional routes.
 *
 * <pre>{@code
 * RouterFunctions.route()
 *         .POST("/urls", handler::create)
 *         .filter(RateLimitHandlerFilter.of(rules, RateLimitResponses.standard()))
 *         .build();
 * }</pre>
 *
 * <p>Routing happens after authentication, so the filter applies the matching rules of both phases together. Rules need
 * no paths here; a rule without paths sees the path variables of the route.
 */
public final class RateLimitHandlerFilter implements HandlerFilterFunction<ServerResponse, ServerResponse> {

    private final Rules rules;
    private final RateLimitResponses responses;

    private RateLimitHandlerFilter(Rules rules, RateLimitResponses responses) {
        this.rules = rules;
        this.responses = responses;
    }

    /**
     * Returns a filter.
     *
     * @param rules the rules
     * @param responses the header fields, and the response to denied requests
     * @return the filter
     */
    public static RateLimitHandlerFilter of(Rules rules, RateLimitResponses responses) {
        Checks.some(rules, "rules", "Rules.of(limiter, syntax, rules)");
        Checks.some(responses, "responses", "RateLimitResponses.standard()");
        return new RateLimitHandlerFilter(rules, responses);
    }

    @Override
    public Mono<ServerResponse> filter(ServerRequest request, HandlerFunction<ServerResponse> next) {
        return LimitedExchange.decide(
                request.exchange(),
                responses,
                rules.decide(ExchangeRequest.of(request.exchange())),
                problem -> ServerResponse.status(problem.status())
                        .build((exchange, context) -> responses.deny(exchange, problem)),
                () -> {
                    LimitedExchange.settleAfterHandler(request.exchange());
                    return next.handle(request);
                });
    }
}
