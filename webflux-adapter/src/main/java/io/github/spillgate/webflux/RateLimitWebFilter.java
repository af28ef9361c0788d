package io.github.spillgate.webflux;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import java.util.Objects;
import org.springframework.core.Ordered;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;

/**
 * Limits requests before a handler sees them. An application has two: one before its users are authenticated, for rules by address,
 * and one after that, for rules that need to know who asks.
 *
 * <pre>{@code
 * Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(Rule.named("address")
 *         .paths("/v1/**")
 *         .key(KeySource.clientAddress(ClientAddress.ofPeer()))
 *         .limit(Limit.perMinute(120))
 *         .build()));
 *
 * RateLimitWebFilter filter = RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard());
 * }</pre>
 *
 * Each rule is asked once about a request, also if that is dispatched again inside of the application, and the body is never read.
 * A request goes on where it was: with Reactor Netty on the event loop of its connection. With another server, where that has no such
 * thing, on the thread on which the limiter has answered, which is never that of a Redis connection. Who is denied gets a 429, written by
 * {@link RateLimitResponses}.
 *
 * <p>CORS preflights go on without being asked for: a browser sends them by itself, and without credentials. What has an
 * {@code Authorization} or a {@code Cookie} is none; where the service authenticates by another header, limit them.
 */
public final class RateLimitWebFilter implements WebFilter, Ordered {

    /** Before Spring Security, whose filters are at -100. */
    public static final int ORDER_BEFORE_AUTHENTICATION = -110;

    /** After Spring Security. */
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
     * A filter, at the place that fits its phase.
     *
     * @param rules the rules; also those that are put in their place later
     * @param phase which of them are asked
     * @param responses what clients are told
     * @return the filter
     */
    public static RateLimitWebFilter of(Rules rules, Phase phase, RateLimitResponses responses) {
        Objects.requireNonNull(rules, "rules are null: expected some, for example Rules.of(limiter, syntax, rules)");
        Objects.requireNonNull(phase, "phase is null: expected one, for example Phase.BEFORE_AUTHENTICATION");
        Objects.requireNonNull(
                responses, "responses are null: expected some, for example RateLimitResponses.standard()");
        int order = phase == Phase.BEFORE_AUTHENTICATION ? ORDER_BEFORE_AUTHENTICATION : ORDER_AFTER_AUTHENTICATION;
        return new RateLimitWebFilter(rules, phase, responses, order, false);
    }

    /**
     * The same filter at another place.
     *
     * @param order the place, the lower the earlier
     * @return the filter
     */
    public RateLimitWebFilter order(int order) {
        return new RateLimitWebFilter(rules, phase, responses, order, limitsPreflights);
    }

    /**
     * The same filter with CORS preflights limited as all requests are, or not.
     *
     * @param limited whether they are
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
        if (!limitsPreflights && ExchangeRequest.of(exchange).isPreflight()) {
            return chain.filter(exchange);
        }
        return Limited.decide(
                exchange,
                responses,
                request -> rules.decide(request, phase),
                problem -> responses.deny(exchange, problem),
                () -> chain.filter(exchange));
    }
}
