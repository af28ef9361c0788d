package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.ResponseFields;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.Verdicts;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.ext.web.RoutingContext;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** A request that is limited, by whichever handlers it passes. */
final class Limited {

    private static final String KEY = Limited.class.getName();

    private final Verdicts verdicts = new Verdicts();
    private @Nullable RateLimitHeaders headers;
    private int tells;
    private volatile boolean isPaused;
    private boolean isAsking;
    private @Nullable Runnable waiting;

    private Limited() {}

    static List<Decision> decisions(RoutingContext ctx) {
        Limited limited = ctx.get(KEY);
        return limited == null ? List.of() : limited.verdicts.decisions();
    }

    static Verdicts verdicts(RoutingContext ctx) {
        return of(ctx).verdicts;
    }

    /** Notes a verdict, which the response will tell of, and returns why the request is denied, if it is. */
    static Optional<Problem> note(RoutingContext ctx, Verdict verdict, RateLimitHeaders headers) {
        Limited limited = of(ctx);
        // A failure handler may reroute to a page that says so, and which the same rules are for.
        limited.verdicts.denialSent();
        return limited.keep(ctx, verdict, headers);
    }

    /**
     * Notes a verdict that has come when the request had been taken elsewhere: it is told, and depends on the status,
     * all the same.
     */
    static void noteLate(RoutingContext ctx, Verdict verdict, RateLimitHeaders headers) {
        Limited limited = of(ctx);
        HttpServerResponse response = ctx.response();
        if (response.ended()) {
            Optional<Problem> unused = limited.verdicts.note(verdict);
            limited.giveBack(response);
        } else if (!response.closed()) {
            Optional<Problem> unused = limited.keep(ctx, verdict, headers);
        }
    }

    private Optional<Problem> keep(RoutingContext ctx, Verdict verdict, RateLimitHeaders fields) {
        if (verdict.decision().isEmpty() && !verdict.dependsOnStatus()) {
            return verdict.problem();
        }
        if (headers == null) {
            headers = fields;
            tells = tell(ctx, fields);
            // This one stays where a request is rerouted past us. What has been given back is not given back again.
            ctx.addEndHandler(sent -> {
                if (sent.succeeded()) {
                    giveBack(ctx.response());
                }
            });
        }
        return verdicts.note(verdict);
    }

    /** A request that has been rerouted has lost those who wait for the end of its headers. */
    void tellAgain(RoutingContext ctx) {
        if (headers != null) {
            ctx.removeHeadersEndHandler(tells);
            tells = tell(ctx, headers);
        }
    }

    synchronized void asks() {
        isAsking = true;
    }

    synchronized boolean isAsking() {
        return isAsking;
    }

    /**
     * Puts off what is to be done until the limiter has answered; whoever has waited for that until now has been left.
     */
    synchronized boolean waits(Runnable then) {
        if (isAsking) {
            waiting = then;
        }
        return isAsking;
    }

    /** Returns what has been put off, if anything has. */
    synchronized @Nullable Runnable isAnswered() {
        Runnable then = waiting;
        isAsking = false;
        waiting = null;
        return then;
    }

    void pause(HttpServerRequest sent) {
        if (!sent.isEnded()) {
            isPaused = true;
            sent.pause();
        }
    }

    /** What somebody else has paused is his. */
    void resume(HttpServerRequest sent) {
        if (isPaused) {
            isPaused = false;
            if (!sent.isEnded()) {
                sent.resume();
            }
        }
    }

    private int tell(RoutingContext ctx, RateLimitHeaders fields) {
        HttpServerResponse response = ctx.response();
        return ctx.addHeadersEndHandler(end -> {
            verdicts.write(fields, new Fields(response));
            giveBack(response);
        });
    }

    /** The response cannot wait for it. */
    private void giveBack(HttpServerResponse response) {
        verdicts.completed(response.getStatusCode()).subscribe();
    }

    static Limited of(RoutingContext ctx) {
        Limited limited = ctx.get(KEY);
        if (limited == null) {
            limited = new Limited();
            ctx.put(KEY, limited);
        }
        return limited;
    }

    /** The fields of a response, as Vert.x keeps them. */
    private record Fields(HttpServerResponse response) implements ResponseFields {

        @Override
        public List<String> get(String name) {
            return response.headers().getAll(name);
        }

        @Override
        public void set(String name, String value) {
            response.putHeader(name, value);
        }
    }
}
