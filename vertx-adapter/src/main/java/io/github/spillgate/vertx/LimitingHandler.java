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
import java.util.function.BiConsumer;
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
        Limited limited = Limited.of(ctx);
        if (limited.isAsking() && waits(ctx, limited)) {
            return;
        }
        limited.tellAgain(ctx);
        limited.asks();
        HttpServerRequest sent = ctx.request();
        Mono<Verdict> verdict = phase == null ? rules.decide(request) : rules.decide(request, phase);
        Place[] place = new Place[1];
        Runnable turning = () -> {
            place[0] = Place.of(ctx);
            limited.pause(sent);
        };
        BiConsumer<@Nullable Verdict, @Nullable Throwable> then = (decided, error) -> {
            boolean isLeft = place[0] != null && place[0].isLeft();
            if (isLeft && decided != null) {
                Limited.noteLate(ctx, decided, headers);
            }
            Runnable waiting = limited.isAnswered();
            if (waiting != null) {
                waiting.run();
                return;
            }
            limited.resume(sent);
            if (!isLeft) {
                goOn(ctx, decided, error);
            }
        };
        try {
            Arrival.of(home(sent), verdict, turning, then);
        } catch (Throwable e) {
            // Of a class that a function of the user's does not find: there will be no answer to wait for.
            limited.isAnswered();
            throw e;
        }
    }

    /** Somebody has rerouted the request while the limiter was asked about it: what it says then holds here as well. */
    private boolean waits(RoutingContext ctx, Limited limited) {
        HttpServerRequest sent = ctx.request();
        Context home = home(sent);
        Place place = Place.of(ctx);
        limited.pause(sent);
        return limited.waits(() -> home.runOnContext(now -> {
            if (place.isLeft()) {
                limited.resume(sent);
            } else {
                handle(ctx);
            }
        }));
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
