package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.vertx.core.Handler;
import io.vertx.ext.web.RoutingContext;
import java.util.List;

/**
 * A handler that limits the requests that reach it.
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
 * <p>All rules that match a request are one atomic decision. Each rule is applied once per request, even if the request
 * is rerouted or passes another handler of the same rules. A handler of other rules, on a parent router or on the same
 * one, decides separately.
 *
 * <p>A request continues, or is denied, on the context on which it arrived, never on the thread of a Redis connection.
 * While the request waits for the decision it is paused, so that no part of its body is lost; the body is never read. A
 * denied request gets a 429.
 *
 * <p>The position of the handler within a route follows from its phase. Before authentication it is a {@link
 * io.vertx.ext.web.handler.SecurityPolicyHandler}, which runs before the body is read. After authentication it is an
 * {@link io.vertx.ext.web.handler.InputTrustHandler}, which may run before authorization. A handler for both phases is
 * a user handler.
 *
 * <p>Immutable, and safe for any number of event loops.
 */
public sealed interface RateLimitHandler extends Handler<RoutingContext> permits LimitingHandler {

    /**
     * Returns a handler that applies the rules of both phases together. Add it after authentication.
     *
     * @param rules the rules; if they are replaced, the handler applies the new ones
     * @return the handler
     */
    static RateLimitHandler create(Rules rules) {
        return LimitingHandler.of(rules, null);
    }

    /**
     * Returns a handler that applies the rules of one phase.
     *
     * @param rules the rules; if they are replaced, the handler applies the new ones
     * @param phase the phase
     * @return the handler
     */
    static RateLimitHandler create(Rules rules, Phase phase) {
        return LimitingHandler.of(rules, phase);
    }

    /**
     * Returns a copy of this handler with other header fields. By default all are written.
     *
     * @param headers the header fields
     * @return the handler
     */
    RateLimitHandler headers(RateLimitHeaders headers);

    /**
     * Returns a copy of this handler with another response for denied requests. By default it is a problem as JSON.
     *
     * @param denials the writer of the response, or one that fails the request
     * @return the handler
     */
    RateLimitHandler denials(DenialWriter denials);

    /**
     * Returns a copy of this handler that limits CORS preflights like all other requests, or does not limit them. By
     * default it limits them.
     *
     * <p>A {@code CorsHandler} before this handler answers preflights, so they do not reach this one. Exempt them only
     * if a {@code CorsHandler} is behind this handler and no route accepts {@code OPTIONS}: a route without a method
     * does accept it, and any client can send a request that looks like a preflight. A request with an {@code
     * Authorization} or {@code Cookie} header is not a preflight.
     *
     * @param limited whether preflights are limited
     * @return the handler
     */
    RateLimitHandler preflights(boolean limited);

    /**
     * Returns a failure handler that answers a {@link RateLimitedException} like a request that a rule denies, with the
     * header fields and the response of this handler. Other failures are passed on.
     *
     * <pre>{@code
     * router.route().failureHandler(handler.failureHandler());
     * }</pre>
     *
     * @return the failure handler, for any number of routes and event loops
     */
    Handler<RoutingContext> failureHandler();

    /**
     * Returns the decisions on a request so far, for use in a handler.
     *
     * @param ctx the request
     * @return the decisions, in order; empty if no rule applies to the request
     */
    static List<Decision> decisions(RoutingContext ctx) {
        return LimitedRequest.decisions(ctx);
    }

    /**
     * Sets the real cost of a request, for use in a handler. When the response ends, or the client disconnects, it
     * replaces the cost that the rules have charged; see {@code RateLimiter.settle}. It may be set several times, for
     * example for each part of a stream: the last value counts.
     *
     * @param ctx the request
     * @param actual the real cost, 0 or more, for each rule that has charged the request
     * @throws IllegalArgumentException if the cost is negative
     */
    static void cost(RoutingContext ctx, long actual) {
        LimitedRequest.verdicts(ctx).cost(actual);
    }

    /**
     * Sets the real cost of a request under one rule, like {@link #cost(RoutingContext, long)}. It has no effect if the
     * rule has charged nothing.
     *
     * @param ctx the request
     * @param rule the name of the rule
     * @param actual the real cost, 0 or more
     * @throws IllegalArgumentException if the cost is negative
     */
    static void cost(RoutingContext ctx, String rule, long actual) {
        LimitedRequest.verdicts(ctx).cost(rule, actual);
    }
}
