package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.internal.Checks;
import io.vertx.core.Context;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.internal.http.HttpServerRequestInternal;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.InputTrustHandler;
import io.vertx.ext.web.handler.SecurityPolicyHandler;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

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
public sealed class RateLimitHandler implements Handler<RoutingContext> {
    // Design notes.
    //
    // The subclasses have the Vert.x Web type that fits their phase: the router orders and validates the handlers of a
    // route by these types.

    private final HandlerSettings settings;

    private RateLimitHandler(HandlerSettings settings) {
        this.settings = settings;
    }

    /**
     * Returns a handler that applies the rules of both phases together. Add it after authentication.
     *
     * @param rules the rules; if they are replaced, the handler applies the new ones
     * @return the handler
     */
    public static RateLimitHandler create(Rules rules) {
        return forPhase(rules, null);
    }

    /**
     * Returns a handler that applies the rules of one phase.
     *
     * @param rules the rules; if they are replaced, the handler applies the new ones
     * @param phase the phase
     * @return the handler
     */
    public static RateLimitHandler create(Rules rules, Phase phase) {
        return forPhase(rules, Checks.present(phase, "phase", "Phase.BEFORE_AUTHENTICATION"));
    }

    private static RateLimitHandler forPhase(Rules rules, @Nullable Phase phase) {
        Checks.some(rules, "rules", "Rules.of(limiter, syntax, rules)");
        return of(new HandlerSettings(rules, phase, RateLimitHeaders.all(), DenialWriter.ofProblem(), true));
    }

    private static RateLimitHandler of(HandlerSettings settings) {
        if (settings.phase == null) {
            return new RateLimitHandler(settings);
        }
        return settings.phase == Phase.BEFORE_AUTHENTICATION
                ? new PreAuthenticationHandler(settings)
                : new PostAuthenticationHandler(settings);
    }

    /**
     * Returns a copy of this handler with other header fields. By default all are written.
     *
     * @param headers the header fields
     * @return the handler
     */
    public final RateLimitHandler headers(RateLimitHeaders headers) {
        Checks.some(headers, "headers", "RateLimitHeaders.all()");
        return of(new HandlerSettings(
                settings.rules, settings.phase, headers, settings.denials, settings.limitsPreflights));
    }

    /**
     * Returns a copy of this handler with another response for denied requests. By default it is a problem as JSON.
     *
     * @param denials the writer of the response, or one that fails the request
     * @return the handler
     */
    public final RateLimitHandler denials(DenialWriter denials) {
        Checks.some(denials, "denials", "DenialWriter.ofProblem()");
        return of(new HandlerSettings(
                settings.rules, settings.phase, settings.headers, denials, settings.limitsPreflights));
    }

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
    public final RateLimitHandler preflights(boolean limited) {
        return of(new HandlerSettings(settings.rules, settings.phase, settings.headers, settings.denials, limited));
    }

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
    public final Handler<RoutingContext> failureHandler() {
        return this::answerFailure;
    }

    /**
     * Returns the decisions on a request so far, for use in a handler.
     *
     * @param ctx the request
     * @return the decisions, in order; empty if no rule applies to the request
     */
    public static List<Decision> decisions(RoutingContext ctx) {
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
    public static void cost(RoutingContext ctx, long actual) {
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
    public static void cost(RoutingContext ctx, String rule, long actual) {
        LimitedRequest.verdicts(ctx).cost(rule, actual);
    }

    @Override
    public final void handle(RoutingContext ctx) {
        RoutingRequest request = new RoutingRequest(ctx);
        if (!settings.limitsPreflights && request.isPreflight()) {
            ctx.next();
            return;
        }
        try {
            ctx.normalizedPath();
        } catch (IllegalArgumentException e) {
            // The router also responds with 400 if it cannot decode the path.
            ctx.fail(400, e);
            return;
        }
        Mono<Verdict> verdict = settings.decide(request);
        if (Rules.isUnmatched(verdict) && !LimitedRequest.isPresent(ctx) && Vertx.currentContext() != null) {
            // There is no state to keep, and no context to return to.
            passOn(ctx);
            return;
        }
        LimitedRequest limited = LimitedRequest.of(ctx);
        if (limited.isDeciding() && defer(ctx, limited)) {
            return;
        }
        decide(ctx, limited, verdict);
    }

    /** Passes on a request that no rule matches. */
    private static void passOn(RoutingContext ctx) {
        if (LimitedRequest.isOver(ctx.response())) {
            return;
        }
        try {
            ctx.next();
        } catch (Throwable e) {
            ctx.fail(e);
        }
    }

    /**
     * Defers a request that was rerouted to this handler during a decision until that decision is made, and returns
     * whether it did so. The rules then apply that decision here as well.
     */
    private boolean defer(RoutingContext ctx, LimitedRequest limited) {
        HttpServerRequest sent = ctx.request();
        Context context = contextOf(sent);
        RoutingSnapshot snapshot = new RoutingSnapshot(ctx);
        limited.pause(sent);
        return limited.defer(() -> context.runOnContext(now -> {
            if (snapshot.hasChanged()) {
                limited.resume(sent);
            } else {
                handle(ctx);
            }
        }));
    }

    private void decide(RoutingContext ctx, LimitedRequest limited, Mono<Verdict> verdict) {
        limited.restoreHeadersEndHandler(ctx);
        limited.startDecision();
        PendingVerdict pending = new PendingVerdict(ctx, limited);
        try {
            ContextDelivery.subscribe(contextOf(ctx.request()), verdict, pending::beforeWaiting, pending::decided);
        } catch (Throwable e) {
            // For example a NoClassDefFoundError in a function of the user: no result will follow.
            limited.endDecision();
            throw e;
        }
    }

    /** Returns the current context; on a thread without one, the context of the request. */
    private static Context contextOf(HttpServerRequest sent) {
        Context current = Vertx.currentContext();
        return current != null ? current : ((HttpServerRequestInternal) sent).context();
    }

    /** Passes on, denies or fails a request after its decision. */
    private void finish(RoutingContext ctx, @Nullable Verdict verdict, @Nullable Throwable error) {
        if (LimitedRequest.isOver(ctx.response())) {
            LimitedRequest.release(ctx);
            return;
        }
        if (verdict == null) {
            ctx.fail(error);
            return;
        }
        try {
            LimitedRequest.apply(ctx, verdict, settings.headers)
                    .ifPresentOrElse(problem -> settings.denials.write(ctx, problem), ctx::next);
        } catch (Throwable e) {
            // For example from a custom writer. In a deferred callback, no caller would handle it.
            ctx.fail(e);
        }
    }

    private void answerFailure(RoutingContext ctx) {
        Optional<Verdict> denial = Verdict.ofFailure(ctx.failure());
        if (denial.isEmpty() || ctx.response().headWritten()) {
            ctx.next();
            return;
        }
        LimitedRequest.of(ctx).restoreHeadersEndHandler(ctx);
        finish(ctx, denial.get(), null);
    }

    @Override
    public String toString() {
        return "RateLimitHandler[" + settings.rules + (settings.phase == null ? "" : ", " + settings.phase) + "]";
    }

    /** The verdict on a request, from the subscription to it until the request goes on. */
    private final class PendingVerdict {

        private final RoutingContext ctx;
        private final LimitedRequest limited;

        /** The routing of the request when it began to wait; null if it has not waited. */
        private @Nullable RoutingSnapshot snapshot;

        PendingVerdict(RoutingContext ctx, LimitedRequest limited) {
            this.ctx = ctx;
            this.limited = limited;
        }

        void beforeWaiting() {
            snapshot = new RoutingSnapshot(ctx);
            limited.pause(ctx.request());
        }

        void decided(@Nullable Verdict verdict, @Nullable Throwable error) {
            boolean hasChanged = snapshot != null && snapshot.hasChanged();
            if (hasChanged && verdict != null) {
                LimitedRequest.applyLate(ctx, verdict, settings.headers);
            }
            Runnable deferred = limited.endDecision();
            if (deferred != null) {
                deferred.run();
                return;
            }
            limited.resume(ctx.request());
            if (!hasChanged) {
                finish(ctx, verdict, error);
            }
        }
    }

    /**
     * A snapshot of a request that starts to wait for a decision. During the wait another handler, such as a timer, may
     * fail, reroute or answer the request. The handler that waits must then not pass the request on.
     */
    private static final class RoutingSnapshot {

        private final RoutingContext ctx;
        private final boolean hadFailed;
        private final boolean wasHeadWritten;
        private final int marker;

        RoutingSnapshot(RoutingContext ctx) {
            this.ctx = ctx;
            this.hadFailed = ctx.failed();
            this.wasHeadWritten = ctx.response().headWritten();
            // A reroute removes this handler. Nothing else reveals a reroute, because it may lead to the same path.
            this.marker = ctx.addHeadersEndHandler(end -> {});
        }

        /** Returns whether the request has failed, was rerouted or answered. Call it once: it removes the marker. */
        boolean hasChanged() {
            boolean wasRerouted = !ctx.removeHeadersEndHandler(marker);
            return wasRerouted || ctx.failed() != hadFailed || ctx.response().headWritten() != wasHeadWritten;
        }
    }

    private static final class PreAuthenticationHandler extends RateLimitHandler implements SecurityPolicyHandler {

        PreAuthenticationHandler(HandlerSettings settings) {
            super(settings);
        }
    }

    private static final class PostAuthenticationHandler extends RateLimitHandler implements InputTrustHandler {

        PostAuthenticationHandler(HandlerSettings settings) {
            super(settings);
        }
    }

    /** The settings of a handler; the phase is null for both phases together. */
    private record HandlerSettings(
            Rules rules,
            @Nullable Phase phase,
            RateLimitHeaders headers,
            DenialWriter denials,
            boolean limitsPreflights) {

        Mono<Verdict> decide(RoutingRequest request) {
            return phase == null ? rules.decide(request) : rules.decide(request, phase);
        }
    }
}
