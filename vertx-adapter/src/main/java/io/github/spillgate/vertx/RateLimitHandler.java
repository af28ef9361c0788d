package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.vertx.core.Handler;
import io.vertx.ext.web.RoutingContext;
import java.util.List;

/**
 * Limits the requests that reach it.
 *
 * <pre>{@code
 * Rules rules = Rules.of(limiter, RoutePaths.ofVertx(), List.of(Rule.named("address")
 *         .paths("/v1/*")
 *         .key(KeySource.clientAddress(ClientAddress.ofPeer()))
 *         .limit(Limit.perMinute(120))
 *         .build()));
 *
 * router.route().handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION));
 * }</pre>
 *
 * <p>All rules that match a request are one atomic verdict. Each is asked once about a request, also where that is rerouted, or passes
 * another handler of the same rules. A handler of other rules, on a parent router or on this one, is a verdict of its own.
 *
 * <p>A request goes on, or is denied, on the context on which it has come, whoever has answered meanwhile, and never on the thread of a
 * Redis connection. While it waits it is paused, so that nothing of its body is lost; the body is never read. Who is denied gets a 429.
 *
 * <p>Where it stands among the handlers of one route follows from its phase: before authentication it is a
 * {@link io.vertx.ext.web.handler.SecurityPolicyHandler}, which comes before the body is read; after it, an
 * {@link io.vertx.ext.web.handler.InputTrustHandler}, which may come before authorization; for both phases, one of the user's own.
 * Immutable, and safe for any number of event loops.
 */
public sealed interface RateLimitHandler extends Handler<RoutingContext> permits LimitingHandler {

    /**
     * A handler that asks all rules at once, where it is known who asks.
     *
     * @param rules the rules; also those that are put in their place later
     * @return the handler
     */
    static RateLimitHandler create(Rules rules) {
        return LimitingHandler.of(rules, null);
    }

    /**
     * A handler that asks the rules of one phase.
     *
     * @param rules the rules; also those that are put in their place later
     * @param phase which of them are asked
     * @return the handler
     */
    static RateLimitHandler create(Rules rules, Phase phase) {
        return LimitingHandler.of(rules, phase);
    }

    /**
     * The same handler with other header fields; all are written by default.
     *
     * @param headers which are written
     * @return the handler
     */
    RateLimitHandler headers(RateLimitHeaders headers);

    /**
     * The same handler with another response for those who are denied; a problem as JSON by default.
     *
     * @param denials writes it, or fails the request
     * @return the handler
     */
    RateLimitHandler denials(DenialWriter denials);

    /**
     * The same handler with CORS preflights limited as all requests are, as by default, or not. A {@code CorsHandler} before this one
     * answers them, so that they do not come here. Leave them out only where one stands behind it and no route takes {@code OPTIONS}: a
     * route without a method does, and anybody can send what looks like a preflight. What has an {@code Authorization} or a
     * {@code Cookie} is none.
     *
     * @param limited whether they are
     * @return the handler
     */
    RateLimitHandler preflights(boolean limited);

    /**
     * Returns what was decided on a request until now, for a handler that wants to know.
     *
     * @param ctx the request
     * @return the decisions, in their order; empty if no rule applies to it
     */
    static List<Decision> decisions(RoutingContext ctx) {
        return Limited.decisions(ctx);
    }
}
