package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.testkit.RateLimitFields;
import io.vertx.core.Future;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import java.net.http.HttpResponse;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;

/** Denials that leave a handler as an exception, over HTTP. */
class RateLimitFailureHandlerTest extends HandlerFixture {

    private RateLimitHandler handler() {
        return RateLimitHandler.create(rules(limiter, address("address", 100).paths("/ruled/*")));
    }

    private void routes(Router router, RateLimitHandler handler) {
        router.route().handler(handler);
        router.get("/free/:key")
                .respond(ctx -> Future.fromCompletionStage(work(ctx).toFuture()));
        router.get("/ruled/:key")
                .respond(ctx -> Future.fromCompletionStage(work(ctx).toFuture().thenApply(done -> done)));
        router.get("/thrown/:key").handler(ctx -> {
            Disposable unused = work(ctx)
                    .subscribe(
                            done -> ctx.vertx().runOnContext(now -> end(ctx, done)),
                            error -> ctx.vertx().runOnContext(now -> ctx.fail(error)));
        });
        router.get("/missing").handler(ctx -> ctx.fail(404));
        router.get("/broken").handler(ctx -> {
            throw new IllegalStateException("broken");
        });
    }

    private Mono<String> work(RoutingContext ctx) {
        return Mono.just("done").transform(limiter.limited(Charge.of(ctx.pathParam("key"), Limit.perHour(1))));
    }

    @Test
    void anUncaughtDenialIsAnsweredLikeThatOfARule() throws Exception {
        RateLimitHandler handler = handler();
        start(router -> {
            routes(router, handler);
            router.route().failureHandler(handler.failureHandler());
        });
        for (String path : new String[] {"/free/a", "/thrown/b"}) {
            assertThat(get(path).body()).as(path).isEqualTo("done");
            HttpResponse<String> denied = get(path);
            assertThat(denied.statusCode()).as(path).isEqualTo(429);
            assertThat(denied.headers().firstValue("Content-Type")).hasValue("application/problem+json");
            assertThat(denied.headers().firstValue("Cache-Control")).hasValue("no-store");
            assertThat(denied.headers().firstValue("RateLimit-Policy")).hasValue("\"1h\";q=1;w=3600");
            assertThat(denied.headers().firstValue("X-RateLimit-Remaining")).hasValue("0");
            String wait = denied.headers().firstValue("Retry-After").orElseThrow();
            assertThat(Integer.parseInt(wait)).isBetween(3_500, 3_601);
            assertThat(denied.body())
                    .contains("\"status\":429", "\"violated-policies\":[\"1h\"]", "\"retry-after\":" + wait);
        }
    }

    @Test
    void decisionsOfRulesAreReportedBesideTheDenial() throws Exception {
        RateLimitHandler handler = handler();
        start(router -> {
            routes(router, handler);
            router.route().failureHandler(handler.failureHandler());
        });
        assertThat(get("/ruled/a").body()).isEqualTo("done");
        HttpResponse<String> denied = get("/ruled/a");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(RateLimitFields.names(denied)).containsExactly("address-1m", "1h");
        assertThat(denied.body()).contains("\"violated-policies\":[\"1h\"]");
    }

    @Test
    void otherFailuresArePassedOn() throws Exception {
        RateLimitHandler handler = handler();
        start(router -> {
            routes(router, handler);
            router.route().failureHandler(handler.failureHandler());
            router.route("/broken").failureHandler(ctx -> {
                ctx.response().setStatusCode(502);
                end(ctx, ctx.failure().getMessage());
            });
        });
        assertThat(get("/missing").statusCode()).isEqualTo(404);
        HttpResponse<String> broken = get("/broken");
        assertThat(broken.statusCode()).isEqualTo(502);
        assertThat(broken.body()).isEqualTo("broken");
        assertThat(RateLimitFields.all(broken)).isEmpty();
    }

    /** The failure reaches the next handler, which can only close the connection. */
    @Test
    void aResponseThatHasBegunIsNotChanged() throws Exception {
        RateLimitHandler handler = handler();
        AtomicReference<Throwable> passedOn = new AtomicReference<>();
        start(router -> {
            router.get("/begun/:key").handler(ctx -> {
                ctx.response().setChunked(true);
                Future<Void> begun = ctx.response().write("begun ");
                Disposable unused = work(ctx)
                        .subscribe(
                                done -> ctx.vertx().runOnContext(now -> end(ctx, done)),
                                error -> begun.onComplete(sent -> ctx.fail(error)));
            });
            router.route().failureHandler(handler.failureHandler());
            router.route().failureHandler(ctx -> {
                passedOn.set(ctx.failure());
                end(ctx, "and failed");
            });
        });
        assertThat(get("/begun/a").body()).isEqualTo("begun done");
        HttpResponse<String> failed = get("/begun/a");
        assertThat(failed.statusCode()).isEqualTo(200);
        assertThat(failed.body()).isEqualTo("begun and failed");
        assertThat(passedOn.get()).isInstanceOf(RateLimitedException.class);
    }

    @Test
    void theResponseIsThatOfTheHandler() throws Exception {
        RateLimitHandler handler = handler().denials(DenialWriter.failing());
        start(router -> {
            routes(router, handler);
            router.route().failureHandler(handler.failureHandler());
            router.errorHandler(429, ctx -> {
                ctx.response().setStatusCode(429);
                end(ctx, "page: " + ((DeniedException) ctx.failure()).problem().status());
            });
        });
        get("/free/a");
        HttpResponse<String> denied = get("/free/a");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).isEqualTo("page: 429");
        assertThat(denied.headers().firstValue("RateLimit-Policy")).hasValue("\"1h\";q=1;w=3600");
    }
}
