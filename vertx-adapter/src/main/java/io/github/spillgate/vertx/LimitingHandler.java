package io.github.spillgate.vertx;

import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.Verdict;
import io.vertx.core.Context;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.internal.http.HttpServerRequestInternal;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.InputTrustHandler;
import io.vertx.ext.web.handler.SecurityPolicyHandler;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** What {@link RateLimitHandler} makes; of which kind, tells Vert.x Web where it may stand. */
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
        Objects.requireNonNull(rules, "rules are null: expected some, for example Rules.of(limiter, syntax, rules)");
        return of(rules, phase, RateLimitHeaders.all(), DenialWriter.ofProblem(), false);
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
                ? new Before(rules, headers, denials, limitsPreflights)
                : new After(rules, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler headers(RateLimitHeaders headers) {
        Objects.requireNonNull(headers, "headers are null: expected some, for example RateLimitHeaders.all()");
        return of(rules, phase, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler denials(DenialWriter denials) {
        Objects.requireNonNull(denials, "denials are null: expected a writer, for example DenialWriter.ofProblem()");
        return of(rules, phase, headers, denials, limitsPreflights);
    }

    @Override
    public final RateLimitHandler preflights(boolean limited) {
        return of(rules, phase, headers, denials, limited);
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
            // As the router says of a path that cannot be decoded.
            ctx.fail(400, e);
            return;
        }
        Limited.tellAgain(ctx);
        HttpServerRequest sent = ctx.request();
        Mono<Verdict> verdict = phase == null ? rules.decide(request) : rules.decide(request, phase);
        boolean[] paused = new boolean[1];
        boolean hadFailed = ctx.failed();
        Runnable pause = () -> {
            if (!sent.isEnded()) {
                sent.pause();
                paused[0] = true;
            }
        };
        Arrival.of(home(sent), verdict, pause, (decided, error) -> {
            // What somebody else has paused is his.
            if (paused[0] && !sent.isEnded()) {
                sent.resume();
            }
            if (ctx.failed() == hadFailed) {
                goOn(ctx, decided, error);
            }
        });
    }

    /** Where we are; the request's own context, if a thread that is none of Vert.x's has passed it on. */
    private static Context home(HttpServerRequest sent) {
        Context here = Vertx.currentContext();
        return here != null ? here : ((HttpServerRequestInternal) sent).context();
    }

    private void goOn(RoutingContext ctx, @Nullable Verdict verdict, @Nullable Throwable error) {
        if (ctx.response().ended() || ctx.response().closed()) {
            // The client has gone, or somebody has lost patience and answered.
            return;
        }
        if (verdict == null) {
            ctx.fail(error);
            return;
        }
        try {
            Limited.note(ctx, verdict, headers).ifPresentOrElse(problem -> denials.write(ctx, problem), ctx::next);
        } catch (Throwable e) {
            // Of a writer of the user's; nobody else would hear it here.
            ctx.fail(e);
        }
    }

    @Override
    public String toString() {
        return "RateLimitHandler[" + rules + (phase == null ? "" : ", " + phase) + "]";
    }

    private static final class Before extends LimitingHandler implements SecurityPolicyHandler {

        Before(Rules rules, RateLimitHeaders headers, DenialWriter denials, boolean limitsPreflights) {
            super(rules, Phase.BEFORE_AUTHENTICATION, headers, denials, limitsPreflights);
        }
    }

    private static final class After extends LimitingHandler implements InputTrustHandler {

        After(Rules rules, RateLimitHeaders headers, DenialWriter denials, boolean limitsPreflights) {
            super(rules, Phase.AFTER_AUTHENTICATION, headers, denials, limitsPreflights);
        }
    }
}
