package io.github.spillgate.vertx;

import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.internal.Checks;
import io.vertx.core.Context;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.internal.http.HttpServerRequestInternal;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.InputTrustHandler;
import io.vertx.ext.web.handler.SecurityPolicyHandler;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The implementation of {@link RateLimitHandler}. Its subclasses have the Vert.x Web type that fits their phase: the
 * router orders and validates the handlers of a route by these types.
 */
sealed class LimitingHandler implements RateLimitHandler {

    private final Rules rules;
    private final @Nullable Phase phase;
    private final RateLimitHeaders headers;
    private final DenialWriter denials;
    private final boolean limitsPreflights;

    private LimitingHandler(
            Rules rules,
            @Nullable Phase phase,
            RateLimitHeaders headers,
            DenialWriter denials,
            boolean limitsPreflights) {
        this.rules = rules;
        this.phase = phase;
        this.headers = headers;
        this.denials = denials;
        this.limitsPreflights = limitsPreflights;
    }

    static LimitingHandler of(Rules rules, @Nullable Phase phase) {
        Checks.some(rules, "rules", "Rules.of(limiter, syntax, rules)");
        return of(rules, phase, RateLimitHeaders.all(), DenialWriter.ofProblem(), true);
    }

    private static LimitingHandler of(
            Rules rules,
            @Nullable Phase phase,
            RateLimitHeaders headers,
            DenialWriter denials,
            boolean limitsPreflights) {
        if (phase == null) {
            return new LimitingHandler(rules, null, headers, denials, limitsPreflights);
        }
        return phase == Phase.BEFORE_AUTHENTICATION
                ? new PreAuthenticationHandler(rules, headers, denials, limitsPreflights)
                : new PostAuthenticationHandler(rules, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler headers(RateLimitHeaders headers) {
        Checks.some(headers, "headers", "RateLimitHeaders.all()");
        return of(rules, phase, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler denials(DenialWriter denials) {
        Checks.some(denials, "denials", "DenialWriter.ofProblem()");
        return of(rules, phase, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler preflights(boolean limited) {
        return of(rules, phase, headers, denials, limited);
    }

    @Override
    public final Handler<RoutingContext> failureHandler() {
        return this::answerFailure;
    }

    private void answerFailure(RoutingContext ctx) {
        Optional<Verdict> denial = Verdict.ofFailure(ctx.failure());
        if (denial.isEmpty() || ctx.response().headWritten()) {
            ctx.next();
            return;
        }
        LimitedRequest.of(ctx).restoreHeadersEndHandler(ctx);
        proceed(ctx, denial.get(), null);
    }

    @Override
    public final void handle(RoutingContext ctx) {
        RoutingRequest request = new RoutingRequest(ctx);
        if (!limitsPreflights && request.isPreflight()) {
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
        Mono<Verdict> verdict = phase == null ? rules.decide(request) : rules.decide(request, phase);
        if (Rules.isUnmatched(verdict) && !LimitedRequest.isPresent(ctx) && Vertx.currentContext() != null) {
            // There is no state to keep and no context to return to.
            proceed(ctx);
            return;
        }
        LimitedRequest limited = LimitedRequest.of(ctx);
        if (limited.isDeciding() && defer(ctx, limited)) {
            return;
        }
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

    /**
     * Defers a request that was rerouted to this handler during a decision until that decision is made, and returns
     * whether it did so. The rules then apply that decision here as well.
     */
    private boolean defer(RoutingContext ctx, LimitedRequest limited) {
        HttpServerRequest sent = ctx.request();
        Context context = contextOf(sent);
        RoutingSnapshot snapshot = RoutingSnapshot.of(ctx);
        limited.pause(sent);
        return limited.defer(() -> context.runOnContext(now -> {
            if (snapshot.hasChanged()) {
                limited.resume(sent);
            } else {
                handle(ctx);
            }
        }));
    }

    /** Returns the current context; on a thread without one, the context of the request. */
    private static Context contextOf(HttpServerRequest sent) {
        Context current = Vertx.currentContext();
        return current != null ? current : ((HttpServerRequestInternal) sent).context();
    }

    /** Passes on a request that no rule matches. */
    private static void proceed(RoutingContext ctx) {
        if (LimitedRequest.isOver(ctx.response())) {
            return;
        }
        try {
            ctx.next();
        } catch (Throwable e) {
            ctx.fail(e);
        }
    }

    private void proceed(RoutingContext ctx, @Nullable Verdict verdict, @Nullable Throwable error) {
        if (LimitedRequest.isOver(ctx.response())) {
            LimitedRequest.release(ctx);
            return;
        }
        if (verdict == null) {
            ctx.fail(error);
            return;
        }
        try {
            LimitedRequest.note(ctx, verdict, headers)
                    .ifPresentOrElse(problem -> denials.write(ctx, problem), ctx::next);
        } catch (Throwable e) {
            // For example from a custom writer. In a deferred callback, no caller would handle it.
            ctx.fail(e);
        }
    }

    @Override
    public String toString() {
        return "RateLimitHandler[" + rules + (phase == null ? "" : ", " + phase) + "]";
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
            snapshot = RoutingSnapshot.of(ctx);
            limited.pause(ctx.request());
        }

        void decided(@Nullable Verdict verdict, @Nullable Throwable error) {
            boolean hasChanged = snapshot != null && snapshot.hasChanged();
            if (hasChanged && verdict != null) {
                LimitedRequest.noteLate(ctx, verdict, headers);
            }
            Runnable deferred = limited.endDecision();
            if (deferred != null) {
                deferred.run();
                return;
            }
            limited.resume(ctx.request());
            if (!hasChanged) {
                proceed(ctx, verdict, error);
            }
        }
    }

    private static final class PreAuthenticationHandler extends LimitingHandler implements SecurityPolicyHandler {

        PreAuthenticationHandler(
                Rules rules, RateLimitHeaders headers, DenialWriter denials, boolean limitsPreflights) {
            super(rules, Phase.BEFORE_AUTHENTICATION, headers, denials, limitsPreflights);
        }
    }

    private static final class PostAuthenticationHandler extends LimitingHandler implements InputTrustHandler {

        PostAuthenticationHandler(
                Rules rules, RateLimitHeaders headers, DenialWriter denials, boolean limitsPreflights) {
            super(rules, Phase.AFTER_AUTHENTICATION, headers, denials, limitsPreflights);
        }
    }
}
