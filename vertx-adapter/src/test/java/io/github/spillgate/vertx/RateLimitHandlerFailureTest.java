package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.TimeoutHandler;
import java.net.http.HttpResponse;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Requests that fail, are answered or are cancelled while the limiter decides, and denials that cannot be written. */
class RateLimitHandlerFailureTest extends HandlerFixture {

    @Test
    void aVerdictDuringAFailureDoesNotInterruptTheFailureHandlerAndIsRefunded() throws Exception {
        AtomicInteger reached = new AtomicInteger();
        CompletableFuture<Promise<String>> page = new CompletableFuture<>();
        Queue<Decision> reported = new ConcurrentLinkedQueue<>();
        Rules rules = rules(local, lateKey().refundWhen("503"));
        start(router -> router.route()
                .handler(TimeoutHandler.create(100))
                .handler(RateLimitHandler.create(rules))
                .handler(ctx -> {
                    reached.incrementAndGet();
                    end(ctx, "hello");
                })
                .failureHandler(ctx -> {
                    // As a template that is rendered, or a file that is read.
                    Promise<String> rendered = Promise.promise();
                    page.complete(rendered);
                    rendered.future().onSuccess(text -> {
                        reported.addAll(RateLimitHandler.decisions(ctx));
                        if (!ctx.response().ended()) {
                            Future<Void> unused =
                                    ctx.response().setStatusCode(503).end(text);
                        }
                    });
                }));
        CompletableFuture<HttpResponse<String>> response = getLater("/");
        done(asked);
        Promise<String> rendered = done(page);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        asked.join().vertx().setTimer(300, now -> rendered.complete("we are sorry"));

        assertThat(done(response).body()).isEqualTo("we are sorry");
        assertThat(done(response).statusCode()).isEqualTo(503);
        assertThat(reached).hasValue(0);
        assertThat(reported).hasSize(1);
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 10);
    }

    @Test
    void denialsLeftToErrorHandlersOfRoutersHold() throws Exception {
        RateLimitHandler limited =
                RateLimitHandler.create(rules(limiter, address("address", 1))).denials(DenialWriter.failing());
        start(router -> {
            Router sub = Router.router(vertx);
            sub.route().handler(io.vertx.ext.web.handler.CorsHandler.create().addOrigin("*"));
            sub.route().handler(limited).handler(ctx -> end(ctx, "hello"));
            router.route("/api/*").subRouter(sub);
            router.get("/sorry").handler(ctx -> {
                Future<Void> unused = ctx.response().setStatusCode(429).end("sorry");
            });
            router.route("/again/*")
                    .handler(limited)
                    .handler(ctx -> end(ctx, "hello"))
                    .failureHandler(ctx -> ctx.reroute("/sorry"));
            router.errorHandler(
                    429,
                    ctx -> end(
                            ctx,
                            "slow "
                                    + ((DeniedException) ctx.failure())
                                            .problem()
                                            .status()));
        });
        get("/api/x");
        HttpResponse<String> denied = get("/api/x", "Origin", "http://a.example");
        assertThat(denied.body()).isEqualTo("slow 429");
        assertThat(denied.headers().allValues("Retry-After")).hasSize(1);
        assertThat(denied.headers().firstValue("Access-Control-Expose-Headers").orElse(""))
                .contains("Retry-After");
        HttpResponse<String> sorry = get("/again/x");
        assertThat(sorry.body()).isEqualTo("sorry");
        assertThat(sorry.statusCode()).isEqualTo(429);
        // The page that says sorry is on no route of ours.
        assertThat(sorry.headers().firstValue("Retry-After")).isEmpty();
    }

    @Test
    void anErrorOfTheDenialWriterIsAServerError() throws Exception {
        RateLimitHandler limited = RateLimitHandler.create(rules(limiter, address("address", 1)))
                .denials((ctx, problem) -> {
                    throw new NoClassDefFoundError("of the test");
                });
        start(router -> router.route().handler(limited).handler(ctx -> end(ctx, "hello")));

        get("/");
        assertThat(get("/").statusCode()).isEqualTo(500);
    }

    @Test
    void anErrorOfAKeyFunctionIsHandledByTheFailureHandler() throws Exception {
        Rules rules =
                rules(local, Rule.named("tenant").limit(Limit.perMinute(10)).key(match -> {
                    throw new NoClassDefFoundError("of the test");
                }));
        start(router -> router.route()
                .handler(RateLimitHandler.create(rules))
                .handler(ctx -> end(ctx, ctx.request().path()))
                .failureHandler(ctx -> ctx.reroute("/sorry")));

        assertThat(get("/hello").body()).isEqualTo("/sorry");
    }

    @Test
    void aResponseStartedDuringTheDecisionIsNotInterrupted() throws Exception {
        Rules rules = rules(local, lateKey());
        AtomicInteger reached = new AtomicInteger();
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> {
            reached.incrementAndGet();
            end(ctx, "hello");
        }));
        CompletableFuture<HttpResponse<String>> response = getLater("/");
        RoutingContext ctx = done(asked);
        CompletableFuture<Void> begun = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.response().setChunked(true);
            Future<Void> unused = ctx.response().write("we are ");
            ctx.vertx().setTimer(400, later -> end(ctx, "sorry"));
            begun.complete(null);
        });
        done(begun);
        key.tryEmitValue("a");
        assertThat(done(response).body()).isEqualTo("we are sorry");
        assertThat(reached).hasValue(0);
    }

    @Test
    void anHttp2RequestResetDuringTheDecisionIsNotHandled() throws Exception {
        AtomicInteger reached = new AtomicInteger();
        Rules rules = rules(local, lateKey());
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> {
            reached.incrementAndGet();
            end(ctx, "hello");
        }));
        var h2 = vertx.createHttpClient(
                new HttpClientOptions().setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false));
        CompletableFuture<Void> gone = new CompletableFuture<>();
        var request = done(h2.request(HttpMethod.GET, server.actualPort(), "127.0.0.1", "/"));
        Future<Void> unused = request.end();
        RoutingContext ctx = done(asked);
        ctx.addEndHandler(end -> gone.complete(null));
        request.reset();
        done(gone);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        CompletableFuture<Void> later = new CompletableFuture<>();
        onContext(ctx, () -> later.complete(null));
        done(later);
        assertThat(reached).hasValue(0);
    }

    @Test
    void aRequestAnsweredDuringTheDecisionIsRefunded() throws Exception {
        Rules rules = rules(local, lateKey().refundWhen("503"));
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> end(ctx, "hello")));
        CompletableFuture<HttpResponse<String>> response = getLater("/");
        RoutingContext ctx = done(asked);
        onContext(ctx, () -> {
            Future<Void> unused = ctx.response().setStatusCode(503).end("we are sorry");
        });
        assertThat(done(response).statusCode()).isEqualTo(503);
        key.tryEmitValue("a");
        CompletableFuture<Void> later = new CompletableFuture<>();
        onContext(ctx, () -> ctx.vertx().setTimer(300, now -> later.complete(null)));
        done(later);
        assertThat(RateLimitHandler.decisions(ctx)).hasSize(1);
        assertThat(remaining(rules, "tenant", "a")).isEqualTo(10);
    }
}
