package io.github.spillgate.vertx;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.ext.web.RoutingContext;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Server-sent events that are limited, as docs/websockets-and-grpc.md shows them. */
final class Prices {

    private Prices() {}

    static void prices(RoutingContext ctx, RateLimiter limiter, Flux<String> prices) {
        Context context = ctx.vertx().getOrCreateContext();
        HttpServerResponse response =
                ctx.response().putHeader("Content-Type", "text/event-stream").setChunked(true);
        response.write("retry: 5000\n\n");
        Disposable sending = prices.transform(
                        limiter.throttle("prices:" + ctx.request().getParam("customer")))
                .concatMap(price -> write(context, response, "data: " + price + "\n\n"), 0)
                .subscribe(written -> {}, error -> response.reset(), response::end);
        response.closeHandler(gone -> sending.dispose());
    }

    /** On the context of the response; done when the client has taken it. */
    static Mono<Void> write(Context context, HttpServerResponse response, String event) {
        return Mono.fromCompletionStage(() -> Future.<Void>future(
                        done -> context.runOnContext(go -> response.write(event).onComplete(done)))
                .toCompletionStage());
    }

    static DenialWriter denials() {
        DenialWriter others = DenialWriter.ofProblem();
        return (ctx, problem) -> {
            if (!"text/event-stream".equals(ctx.request().getHeader("Accept"))) {
                others.write(ctx, problem);
                return;
            }
            Duration wait = RateLimitHandler.decisions(ctx).stream()
                    .map(Decision::retryAfter)
                    .flatMap(Optional::stream)
                    .max(Comparator.naturalOrder())
                    .orElse(Duration.ofMinutes(5));
            ctx.response()
                    .putHeader("Content-Type", "text/event-stream")
                    .putHeader("Cache-Control", "no-store")
                    .end("retry: " + wait.toMillis() + "\n\n");
        };
    }
}
