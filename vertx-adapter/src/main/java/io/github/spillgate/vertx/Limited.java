package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Problem;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.ResponseFields;
import io.github.spillgate.http.Verdict;
import io.github.spillgate.http.Verdicts;
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
        limited.verdicts.told();
        if (verdict.decision().isEmpty() && !verdict.dependsOnStatus()) {
            return verdict.problem();
        }
        if (limited.headers == null) {
            limited.headers = headers;
            limited.tells = limited.tell(ctx, headers);
            // This one stays where a request is rerouted past us. What has been given back is not given back again.
            ctx.addEndHandler(sent -> {
                if (sent.succeeded()) {
                    limited.giveBack(ctx.response());
                }
            });
        }
        return limited.verdicts.note(verdict);
    }

    /** A request that has been rerouted has lost those who wait for the end of its headers. */
    static void tellAgain(RoutingContext ctx) {
        Limited limited = ctx.get(KEY);
        if (limited != null && limited.headers != null) {
            ctx.removeHeadersEndHandler(limited.tells);
            limited.tells = limited.tell(ctx, limited.headers);
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

    private static Limited of(RoutingContext ctx) {
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
