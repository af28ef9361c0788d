package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.WebSocketForTests;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.handler.SimpleAuthenticationHandler;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/**
 * What is of Vert.x Web alone: contexts, the order of handlers, routers below routers, and requests that become
 * something else.
 */
class RateLimitHandlerTest extends HandlerFixture {

    private final AtomicInteger handled = new AtomicInteger();

    @Test
    void aRequestContinuesOnItsContext() throws Exception {
        Queue<Context> before = new ConcurrentLinkedQueue<>();
        Queue<Context> after = new ConcurrentLinkedQueue<>();
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        start(router -> router.route()
                .handler(ctx -> {
                    before.add(Vertx.currentContext());
                    ctx.next();
                })
                .handler(RateLimitHandler.create(rules(limiter, address("address", 100))))
                .handler(ctx -> {
                    after.add(Vertx.currentContext());
                    threads.add(Thread.currentThread().getName());
                    hello(ctx);
                }));

        get("/");
        get("/");

        assertThat(after).containsExactlyElementsOf(before).doesNotContainNull();
        assertThat(threads).hasSize(2).allMatch(name -> name.startsWith("vert.x-eventloop"));
    }

    @Test
    void functionsOfAShadowRuleRunOnTheContextOfTheRequest() throws Exception {
        Queue<Context> home = new ConcurrentLinkedQueue<>();
        Queue<Context> asked = new ConcurrentLinkedQueue<>();
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rule.Builder tried = Rule.named("tried")
                .timeout(LONG)
                .key(FutureSources.key(ctx -> {
                    asked.add(vertx.getOrCreateContext());
                    threads.add(Thread.currentThread().getName());
                    return elsewhere("k");
                }))
                .limits(FutureSources.limits((ctx, key) -> {
                    asked.add(vertx.getOrCreateContext());
                    threads.add(Thread.currentThread().getName());
                    return elsewhere(List.of(Limit.perMinute(7)));
                }))
                .limit(Limit.perMinute(5))
                .shadow(true);
        Rules rules = rules(limiter, address("address", 100), tried);
        start(router -> router.route()
                .handler(ctx -> {
                    home.add(Vertx.currentContext());
                    home.add(Vertx.currentContext());
                    ctx.next();
                })
                .handler(RateLimitHandler.create(rules))
                .handler(this::hello));

        for (int i = 1; i <= 5; i++) {
            get("/");
            int calls = 2 * i;
            await().atMost(LONG).untilAsserted(() -> assertThat(asked).hasSizeGreaterThanOrEqualTo(calls));
        }

        assertThat(asked).containsExactlyElementsOf(home);
        assertThat(threads).allMatch(name -> name.startsWith("vert.x-eventloop"));
    }

    @Test
    void theHandlerMayRunBeforeOrAfterAuthentication() throws Exception {
        Rule.Builder user = Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(1));
        Rules rules = rules(local, address("address", 3), user);
        start(router -> router.post("/files")
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(BodyHandler.create(false))
                .handler(users())
                .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                .handler(ctx -> end(ctx, String.valueOf(ctx.body().length()))));

        assertThat(post("/files", "12345", "X-User", "ann").body()).isEqualTo("5");
        assertThat(post("/files", "12345", "X-User", "ann").body()).contains("user-1m");
        assertThat(post("/files", "1234", "X-User", "bob").body()).isEqualTo("4");
        assertThat(post("/files", "12345", "X-User", "eve").body()).contains("address-1m");
    }

    /** Such as that of a token without a subject. */
    @Test
    void aUserWithoutASubjectDoesNotBypassALimit() throws Exception {
        Rules rules = rules(local, Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(1)));
        start(router -> router.get("/")
                .handler(SimpleAuthenticationHandler.create()
                        .authenticate(ctx -> Future.succeededFuture(User.create(new JsonObject()))))
                .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                .handler(this::hello));

        assertThat(get("/").statusCode()).isEqualTo(200);
        assertThat(get("/").statusCode()).isEqualTo(429);
    }

    @Test
    void aHandlerInTheWrongOrderIsRejectedByVertxWeb() {
        Rules rules = rules(local, address("address", 2));
        var route = Router.router(vertx).post("/files").handler(BodyHandler.create(false));

        assertThatThrownBy(() -> route.handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION)))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("SECURITY_POLICY");
    }

    @Test
    void aReroutedRequestIsChargedOnceAndHasTheFields() throws Exception {
        Rules rules = rules(limiter, address("address", 5));
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.get("/old").handler(ctx -> ctx.reroute("/new"));
            router.get("/new").handler(this::hello);
        });

        HttpResponse<String> response = get("/old");

        assertThat(response.body()).isEqualTo("hello");
        assertThat(response.headers().firstValue("X-RateLimit-Remaining")).contains("4");
        assertThat(get("/new").headers().firstValue("X-RateLimit-Remaining")).contains("3");
    }

    @Test
    void aSubRouterHasASeparateVerdict() throws Exception {
        Rules all = rules(limiter, address("all", 5));
        Rules some = rules(limiter, address("some", 3).paths("/v1/items/:id"));
        start(router -> {
            Router below = Router.router(vertx);
            below.route().handler(RateLimitHandler.create(some));
            below.get("/items/:id")
                    .handler(ctx -> end(
                            ctx, String.valueOf(RateLimitHandler.decisions(ctx).size())));
            router.route().handler(RateLimitHandler.create(all));
            router.route("/v1/*").subRouter(below);
        });

        HttpResponse<String> response = get("/v1/items/7");

        assertThat(response.body()).isEqualTo("2");
        assertThat(response.headers().allValues("RateLimit-Policy").toString())
                .contains("all-1m")
                .contains("some-1m");
    }

    @Test
    void aDenialMayBePassedToFailureHandlers() throws Exception {
        RateLimitHandler limited =
                RateLimitHandler.create(rules(limiter, address("address", 1))).denials(DenialWriter.failing());
        start(router -> router.route().handler(limited).handler(this::hello).failureHandler(ctx -> {
            DeniedException denied = (DeniedException) ctx.failure();
            Future<Void> unused = ctx.response()
                    .setStatusCode(ctx.statusCode())
                    .end("slow down: " + denied.problem().status());
        }));

        get("/");
        HttpResponse<String> denied = get("/");

        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).isEqualTo("slow down: 429");
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
        assertThat(denied.headers().firstValue("Cache-Control")).contains("no-store");
    }

    @Test
    void theRealCostOfASocketIsSettledWhenItIsClosed() throws Exception {
        Rules rules = rules(local, address("messages", 100));
        start(router -> router.route("/metered")
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(ctx -> ctx.request().toWebSocket().onSuccess(socket -> {
                    AtomicInteger messages = new AtomicInteger();
                    socket.textMessageHandler(text -> {
                        RateLimitHandler.cost(ctx, "messages", messages.incrementAndGet());
                        socket.writeTextMessage(text);
                    });
                })));
        URI uri = URI.create("http://127.0.0.1:" + server.actualPort() + "/metered");
        try (WebSocketForTests socket = WebSocketForTests.open(uri)) {
            socket.say("one");
            socket.say("two");
            await().untilAsserted(() -> assertThat(socket.heard()).containsExactly("one", "two"));
            assertThat(remaining(rules, "messages", "127.0.0.1")).isEqualTo(99);
        }
        await().atMost(LONG).until(() -> remaining(rules, "messages", "127.0.0.1") == 98);
    }

    @Test
    void aDisconnectedRequestIsNotHandled() throws Exception {
        Rules rules = rules(limiter, lateKey());
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(this::hello));
        CompletableFuture<Void> gone = new CompletableFuture<>();

        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.getOutputStream().write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            done(asked).addEndHandler(end -> gone.complete(null));
        }
        done(gone);
        key.tryEmitValue("a");

        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        // What it leads to is said on the same event loop before this.
        CompletableFuture<Void> later = new CompletableFuture<>();
        asked.join().vertx().runOnContext(now -> later.complete(null));
        done(later);
        assertThat(handled).hasValue(0);
    }

    @Test
    void closingTheServerDuringTheDecisionEndsTheRequest() throws Exception {
        Rules rules = rules(limiter, lateKey());
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(this::hello));
        CompletableFuture<HttpResponse<String>> response = getLater("/");
        done(asked);

        done(server.close());
        key.tryEmitValue("a");

        await().atMost(LONG).until(response::isDone);
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
    }

    @Test
    void invalidArgumentsAreRejected() {
        Rules rules = rules(local, address("address", 1));
        RateLimitHandler handler = RateLimitHandler.create(rules);
        assertThatThrownBy(() -> RateLimitHandler.create(null)).hasMessageContaining("rules are null");
        assertThatThrownBy(() -> RateLimitHandler.create(rules, null)).hasMessageContaining("phase is null");
        assertThatThrownBy(() -> handler.headers(null)).hasMessageContaining("headers are null");
        assertThatThrownBy(() -> handler.denials(null)).hasMessageContaining("denials are null");
    }

    @Test
    void keysCostsAndLimitsMayBeFutures() throws Exception {
        Rule.Builder tenant = Rule.named("tenant")
                .timeout(LONG)
                .whenMissing(WhenMissing.DENY)
                .key(FutureSources.key(ctx -> later(ctx.request().getHeader("X-Tenant"))))
                .cost(FutureSources.cost(ctx -> Future.succeededFuture(2L)))
                .limits(FutureSources.limits(
                        (ctx, found) -> later(found.equals("big") ? List.of(Limit.perMinute(6)) : null)))
                .limit(Limit.perMinute(4));
        Rules rules = rules(limiter, tenant);
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(this::hello));

        assertThat(get("/").statusCode()).isEqualTo(429);
        assertThat(get("/", "X-Tenant", "big").headers().firstValue("X-RateLimit-Remaining"))
                .contains("4");
        assertThat(get("/", "X-Tenant", "small").headers().firstValue("X-RateLimit-Remaining"))
                .contains("2");
    }

    private <T> Future<T> later(T value) {
        Promise<T> promise = Promise.promise();
        vertx.runOnContext(now -> promise.complete(value));
        return promise.future();
    }

    /** As from a client that knows nothing of Vert.x. */
    private static <T> Future<T> elsewhere(T value) {
        Promise<T> promise = Promise.promise();
        ELSEWHERE.execute(() -> promise.complete(value));
        return promise.future();
    }

    private static SimpleAuthenticationHandler users() {
        return SimpleAuthenticationHandler.create().authenticate(ctx -> {
            String user = ctx.request().getHeader("X-User");
            return user == null ? Future.failedFuture("no user") : Future.succeededFuture(User.fromName(user));
        });
    }

    private void hello(RoutingContext ctx) {
        handled.incrementAndGet();
        end(ctx, "hello");
    }
}
