package io.github.spillgate.webflux;

import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.internal.Checks;
import org.springframework.web.reactive.function.server.HandlerFilterFunction;
import org.springframework.web.reactive.function.server.HandlerFunction;
import org.springframework.web.reactive.function.server.ServerRequest;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.ServerWebExchange;
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
        ServerWebExchange exchange = request.exchange();
        Mono<Verdict> verdict = rules.decide(ExchangeRequest.of(exchange));
        return LimitedExchange.apply(exchange, verdict, responses).flatMap(denial -> {
            if (denial.isPresent()) {
                Problem problem = denial.get();
                return ServerResponse.status(problem.status())
                        .build((denied, context) -> responses.deny(denied, problem));
            }
            LimitedExchange.settleAfterHandler(exchange);
            return LimitedExchange.cancelAtEnd(exchange, next.handle(request));
        });
    }
}
