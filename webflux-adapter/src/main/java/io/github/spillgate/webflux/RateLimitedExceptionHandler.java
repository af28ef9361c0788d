package io.github.spillgate.webflux;

import io.github.spillgate.RateLimitedException;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.internal.Checks;
import java.util.Optional;
import org.springframework.core.Ordered;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebExceptionHandler;
import reactor.core.publisher.Mono;

/**
 * An exception handler that answers a {@link RateLimitedException}, which no handler has caught, like a request that a
 * rule denies: with status 429, the header fields and a problem as body.
 *
 * <pre>{@code
 * @GetMapping("/report")
 * Mono<Report> report(Principal user) {
 *     return create().transform(limiter.limited(user.getName()));
 * }
 * }</pre>
 *
 * <p>{@code @ExceptionHandler} methods precede it, and it precedes the handlers of Spring Boot.
 */
public final class RateLimitedExceptionHandler implements WebExceptionHandler, Ordered {

    /** Before the handler of Spring Boot, which has -1. */
    private static final int ORDER = -2;

    private final RateLimitResponses responses;

    private RateLimitedExceptionHandler(RateLimitResponses responses) {
        this.responses = responses;
    }

    /**
     * Returns a handler.
     *
     * @param responses the header fields, and the response to denied requests
     * @return the handler
     */
    public static RateLimitedExceptionHandler of(RateLimitResponses responses) {
        return new RateLimitedExceptionHandler(Checks.some(responses, "responses", "RateLimitResponses.standard()"));
    }

    @Override
    public int getOrder() {
        return ORDER;
    }

    @Override
    public Mono<Void> handle(ServerWebExchange exchange, Throwable failure) {
        Optional<Verdict> denial = Verdict.ofFailure(failure);
        if (denial.isEmpty() || exchange.getResponse().isCommitted()) {
            return Mono.error(failure);
        }
        return LimitedExchange.apply(exchange, Mono.just(denial.get()), responses)
                .flatMap(problem -> responses.deny(exchange, problem.orElseThrow()));
    }
}
