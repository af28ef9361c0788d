package io.github.spillgate.webflux;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.internal.Checks;
import org.springframework.core.Ordered;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;

/**
 * A web filter that limits requests before they reach a handler. An application has two: one before authentication, for
 * rules by address, and one after it, for rules that need the authenticated user.
 *
 * <pre>{@code
 * Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(Rule.named("address")
 *         .paths("/v1/**")
 *         .key(KeySource.clientAddress(ClientAddress.ofPeer()))
 *         .limit(Limit.perMinute(120))
 *         .build()));
 *
 * RateLimitWebFilter filter =
 *         RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard());
 * }</pre>
 *
 * <p>Each rule is applied once per request, even if the request is dispatched again within the application. The body is
 * never read. A request that no rule matches goes straight to the chain, on its current thread. With Reactor Netty all
 * other requests continue on the event loop of their connection. With another server they continue on the thread that
 * emits the decision, which is never the thread of a Redis connection. A denied request gets a 429, written by {@link
 * RateLimitResponses}.
 *
 * <p>By default CORS preflights are not limited: browsers send them automatically and without credentials. A request
 * with an {@code Authorization} or {@code Cookie} header is not a preflight. If the service authenticates by another
 * header, limit preflights too; see {@link #preflights(boolean)}.
 */
public final class RateLimitWebFilter implements WebFilter, Ordered {

    /** The default order of the filter before Spring Security, which has order -100. */
    public static final int ORDER_BEFORE_AUTHENTICATION = -110;

    /** The default order of the filter after Spring Security. */
    public static final int ORDER_AFTER_AUTHENTICATION = -90;

    private final Rules rules;
    private final Phase phase;
    private final RateLimitResponses responses;
    private final int order;
    private final boolean limitsPreflights;

    private RateLimitWebFilter(
            Rules rules, Phase phase, RateLimitResponses responses, int order, boolean limitsPreflights) {
        this.rules = rules;
        this.phase = phase;
        this.responses = responses;
        this.order = order;
        this.limitsPreflights = limitsPreflights;
    }

    /**
     * Returns a filter with the default order of its phase.
     *
     * @param rules the rules; if they are replaced, the filter applies the new ones
     * @param phase the phase of the rules that the filter applies
     * @param responses the header fields, and the response to denied requests
     * @return the filter
     */
    public static RateLimitWebFilter of(Rules rules, Phase phase, RateLimitResponses responses) {
        Checks.some(rules, "rules", "Rules.of(limiter, syntax, rules)");
        Checks.present(phase, "phase", "Phase.BEFORE_AUTHENTICATION");
        Checks.some(responses, "responses", "RateLimitResponses.standard()");
        int order = phase == Phase.BEFORE_AUTHENTICATION ? ORDER_BEFORE_AUTHENTICATION : ORDER_AFTER_AUTHENTICATION;
        return new RateLimitWebFilter(rules, phase, responses, order, false);
    }

    /**
     * Returns a copy of this filter with another order.
     *
     * @param order the order; a lower one runs earlier
     * @return the filter
     */
    public RateLimitWebFilter order(int order) {
        return new RateLimitWebFilter(rules, phase, responses, order, limitsPreflights);
    }

    /**
     * Returns a copy of this filter that limits CORS preflights like all other requests, or does not limit them.
     *
     * @param limited whether preflights are limited
     * @return the filter
     */
    public RateLimitWebFilter preflights(boolean limited) {
        return new RateLimitWebFilter(rules, phase, responses, order, limited);
    }

    @Override
    public int getOrder() {
        return order;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        ExchangeRequest request = ExchangeRequest.of(exchange);
        if (!limitsPreflights && request.isPreflight()) {
            return chain.filter(exchange);
        }
        Mono<Verdict> verdict = rules.decide(request, phase);
        if (Rules.isUnmatched(verdict)) {
            return chain.filter(exchange);
        }
        Mono<Void> limited = LimitedExchange.apply(exchange, verdict, responses)
                .flatMap(denial ->
                        denial.isPresent() ? responses.deny(exchange, denial.get()) : passOn(exchange, chain));
        // Around the decision as well: a client may disconnect while permits are being taken.
        return LimitedExchange.releaseAtEnd(exchange, limited);
    }

    private static Mono<Void> passOn(ServerWebExchange exchange, WebFilterChain chain) {
        Mono<Void> work = LimitedExchange.cancelAtEnd(exchange, chain.filter(exchange));
        return LimitedExchange.settleAtEnd(exchange, work);
    }
}
