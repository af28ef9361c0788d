package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.internal.http.HttpServerRequestInternal;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.handler.TimeoutHandler;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Requests that are taken elsewhere, or whose connection or limiter ends, while the limiter is asked. */
class RateLimitHandlerDoubtsTest extends HandlerFixture {

    @Test
    void aRequestThatIsReroutedWhileTheLimiterIsAskedGoesOnOnce() throws Exception {
        Rules rules = rules(local, lateKey());
        CompletableFuture<Promise<String>> page = new CompletableFuture<>();
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.get("/old").handler(RateLimitHandler.create(rules)).handler(ctx -> {
                reached.incrementAndGet();
                end(ctx, "old");
            });
            router.get("/new").handler(ctx -> {
                Promise<String> rendered = Promise.promise();
                rendered.future().onSuccess(text -> end(ctx, text));
                page.complete(rendered);
            });
        });
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/old").build(), BodyHandlers.ofString());
        RoutingContext ctx = done(asked);
        onContext(ctx, () -> ctx.reroute("/new"));
        Promise<String> rendered = done(page);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        ctx.vertx().setTimer(300, now -> rendered.complete("new"));
        assertThat(done(response).body()).isEqualTo("new");
        assertThat(reached).hasValue(0);
    }

    @Test
    void aDenialHoldsForARequestThatIsReroutedWhileTheLimiterIsAsked() throws Exception {
        Rules rules = rules(local, lateKey().cost(11));
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.route().handler(ctx -> {
                reached.incrementAndGet();
                end(ctx, "hello");
            });
        });
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/old").build(), BodyHandlers.ofString());
        RoutingContext ctx = done(asked);
        CompletableFuture<Void> moved = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.reroute("/new");
            moved.complete(null);
        });
        done(moved);
        key.tryEmitValue("a");
        assertThat(done(response).statusCode()).isEqualTo(429);
        assertThat(reached).hasValue(0);
    }

    @Test
    void aFunctionThatIsNotThereDoesNotLetOthersWait() throws Exception {
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
    void whatIsGivenBackIsGivenBackAlsoWhereTheRequestFailsWhileTheLimiterIsAsked() throws Exception {
        Rules rules = rules(local, lateKey().refundWhen("503"));
        CompletableFuture<Promise<String>> page = new CompletableFuture<>();
        Queue<Decision> told = new ConcurrentLinkedQueue<>();
        start(router -> router.route()
                .handler(TimeoutHandler.create(100))
                .handler(RateLimitHandler.create(rules))
                .handler(ctx -> end(ctx, "hello"))
                .failureHandler(ctx -> {
                    Promise<String> rendered = Promise.promise();
                    rendered.future().onSuccess(text -> {
                        told.addAll(RateLimitHandler.decisions(ctx));
                        Future<Void> unused = ctx.response().setStatusCode(503).end(text);
                    });
                    page.complete(rendered);
                }));
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/").build(), BodyHandlers.ofString());
        done(asked);
        Promise<String> rendered = done(page);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        asked.join().vertx().setTimer(300, now -> rendered.complete("we are sorry"));
        assertThat(done(response).statusCode()).isEqualTo(503);
        assertThat(told).hasSize(1);
        await().atMost(Duration.ofSeconds(3)).until(() -> remaining(rules, "tenant", "a") == 10);
    }

    @Test
    void whoHasBegunToAnswerWhileTheLimiterIsAskedIsNotInterrupted() throws Exception {
        Rules rules = rules(local, lateKey());
        AtomicInteger reached = new AtomicInteger();
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> {
            reached.incrementAndGet();
            end(ctx, "hello");
        }));
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/").build(), BodyHandlers.ofString());
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
    void whoHasGoneByHttp2IsNotHandled() throws Exception {
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
    void uploadsByHttp2WithPriorKnowledgeAreNotLost() throws Exception {
        Rules rules = rules(limiter, address("address", 100));
        start(router -> router.route()
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(BodyHandler.create(false))
                .handler(ctx -> end(ctx, String.valueOf(ctx.body().length()))));
        var h2 = vertx.createHttpClient(
                new HttpClientOptions().setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false));
        List<Future<String>> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            int n = 100_000 + i;
            all.add(h2.request(HttpMethod.POST, server.actualPort(), "127.0.0.1", "/")
                    .compose(r -> r.send(Buffer.buffer(new byte[n])))
                    .compose(r -> r.body())
                    .map(b -> b.toString()));
        }
        for (int i = 0; i < 50; i++) {
            assertThat(done(all.get(i))).isEqualTo(String.valueOf(100_000 + i));
        }
    }

    @Test
    void closingTwiceAndWhileRequestsAreDecidedEnds() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, redisOptions()).start();
        start(router -> router.route().handler(limiting.handler()).handler(ctx -> end(ctx, "hello")));
        assertThat(get("/").statusCode()).isEqualTo(200);
        List<CompletableFuture<HttpResponse<String>>> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            all.add(client.sendAsync(request("/").build(), BodyHandlers.ofString()));
        }
        Future<Void> first = limiting.close();
        Future<Void> second = limiting.close();
        done(first);
        done(second);
        for (CompletableFuture<HttpResponse<String>> each : all) {
            assertThat(done(each).statusCode()).isIn(200, 429);
        }
        // A rule that cannot be decided on allows, by itself.
        assertThat(get("/").statusCode()).isEqualTo(200);
    }

    @Test
    void aHandlerThatIsCalledAsOneThatBlocksDecides() throws Exception {
        Rules rules = rules(limiter, address("address", 3));
        start(router -> router.get("/hello")
                .blockingHandler(RateLimitHandler.create(rules), false)
                .handler(ctx -> end(ctx, "hello")));
        for (int i = 0; i < 3; i++) {
            assertThat(get("/hello").body()).isEqualTo("hello");
        }
        assertThat(get("/hello").statusCode()).isEqualTo(429);
    }

    @Test
    void aRequestMayBeReroutedTwiceWhileTheLimiterIsAsked() throws Exception {
        Rules rules = rules(local, lateKey());
        Queue<String> reached = new ConcurrentLinkedQueue<>();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION));
            router.route().handler(BodyHandler.create(false));
            router.route().handler(ctx -> {
                reached.add(ctx.request().path() + " " + ctx.body().length());
                end(ctx, "hello");
            });
        });
        CompletableFuture<HttpResponse<String>> response = client.sendAsync(
                request("/old").POST(BodyPublishers.ofString("12345")).build(), BodyHandlers.ofString());
        RoutingContext ctx = done(asked);
        CompletableFuture<Void> moved = new CompletableFuture<>();
        onContext(ctx, () -> {
            ctx.reroute("/new");
            ctx.reroute("/newest");
            ctx.vertx().setTimer(100, now -> moved.complete(null));
        });
        done(moved);
        key.tryEmitValue("a");
        assertThat(done(response).body()).isEqualTo("hello");
        assertThat(done(response).headers().firstValue("X-RateLimit-Remaining")).contains("9");
        assertThat(reached).containsExactly("/newest 5");
    }

    @Test
    void whatIsGivenBackIsGivenBackAlsoWhereSomebodyHasAnsweredWhileTheLimiterIsAsked() throws Exception {
        Rules rules = rules(local, lateKey().refundWhen("503"));
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> end(ctx, "hello")));
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/").build(), BodyHandlers.ofString());
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

    private static void onContext(RoutingContext ctx, Runnable then) {
        ((HttpServerRequestInternal) ctx.request()).context().runOnContext(now -> then.run());
    }

    private static RateLimitOptions redisOptions() {
        return new RateLimitOptions(new JsonObject()
                .put("name", "test-" + UUID.randomUUID())
                .put(
                        "redis",
                        new JsonObject()
                                .put("uri", RedisForTests.first().uri().toURI().toString()))
                .put(
                        "rules",
                        new JsonArray().add(new JsonObject().put("name", "a").put("limits", "5/1m"))));
    }
}
