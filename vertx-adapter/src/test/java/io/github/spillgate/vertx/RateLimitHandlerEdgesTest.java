package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.WrongSettingException;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.Context;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.ThreadingModel;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.handler.SimpleAuthenticationHandler;
import io.vertx.ext.web.handler.TimeoutHandler;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.http.HttpClient;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** Neighbours of the handler that pause, fail, reroute, come from elsewhere, or have gone; and what is told of wrong settings. */
class RateLimitHandlerEdgesTest extends HandlerFixture {

    private final HttpClient http2 =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();

    @Test
    void closingAfterVertxHasClosedCompletes() throws Exception {
        Vertx other = Vertx.vertx();
        RateLimiting limiting = RateLimiting.of(other, redisOptions()).start();
        done(limiting.rules().peek("a", "x").toFuture());
        done(other.close());
        Future<Void> closed = limiting.close();
        await().atMost(LONG).until(closed::isComplete);
    }

    @Test
    void anAnswerForAVerticleThatHasGoneCompletesAndDoesNotThrowAtWhoAnswers() throws Exception {
        CompletableFuture<Future<Decision>> waiting = new CompletableFuture<>();
        FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);
        // One permit a second: the second call waits.
        Limit slow = Limit.parse("1/1s");
        String id = done(vertx.deployVerticle(
                new AbstractVerticle() {
                    @Override
                    public void start() {
                        limits.tryAcquire(io.github.spillgate.Charge.of("w", slow))
                                .onComplete(one -> waiting.complete(limits.acquire(
                                        io.github.spillgate.Charge.of("w", slow), Duration.ofSeconds(5))));
                    }
                },
                new DeploymentOptions().setThreadingModel(ThreadingModel.WORKER).setWorkerPoolName("own")));
        Future<Decision> decision = done(waiting);
        done(vertx.undeploy(id));
        await().atMost(LONG).until(decision::isComplete);
    }

    @Test
    void whatIsGivenBackIsGivenBackAfterARerouteThatPassesNoHandlerOfOurs() throws Exception {
        Rules rules = rules(local, address("login", 5).refundWhen("2xx"));
        start(router -> {
            router.get("/old").handler(RateLimitHandler.create(rules)).handler(ctx -> ctx.reroute("/new"));
            router.get("/new").handler(ctx -> end(ctx, "hello"));
        });

        assertThat(get("/old").statusCode()).isEqualTo(200);

        assertThat(remaining(rules, "login", "127.0.0.1")).isEqualTo(5);
    }

    @Test
    void aRequestThatSomebodyElseHasPausedStaysPausedWhereTheVerdictIsThereAtOnce() throws Exception {
        Rules rules = rules(local, address("address", 5));
        start(router -> router.post("/files")
                .handler(ctx -> {
                    // Somebody before us holds the body back for somebody after us, who takes his time.
                    ctx.request().pause();
                    ctx.next();
                })
                .handler(RateLimitHandler.create(rules))
                .handler(ctx -> ctx.vertx().setTimer(200, now -> {
                    ctx.request()
                            .body()
                            .onComplete(body -> end(
                                    ctx,
                                    String.valueOf(
                                            body.result() == null
                                                    ? -1
                                                    : body.result().length())));
                    ctx.request().resume();
                })));

        assertThat(post("/files", "12345").body()).isEqualTo("5");
    }

    @Test
    void aVerdictThatComesWhileARequestFailsLeavesItToTheFailureHandler() throws Exception {
        AtomicInteger reached = new AtomicInteger();
        CompletableFuture<Promise<String>> page = new CompletableFuture<>();
        Rules rules = rules(local, lateKey());
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
                        if (!ctx.response().ended()) {
                            Future<Void> unused =
                                    ctx.response().setStatusCode(503).end(text);
                        }
                    });
                }));
        CompletableFuture<HttpResponse<String>> response =
                client.sendAsync(request("/").build(), BodyHandlers.ofString());
        done(asked);
        Promise<String> rendered = done(page);
        key.tryEmitValue("a");
        await().atMost(LONG).until(() -> remaining(rules, "tenant", "a") == 9);
        asked.join().vertx().setTimer(300, now -> rendered.complete("we are sorry"));

        assertThat(done(response).body()).isEqualTo("we are sorry");
        assertThat(done(response).statusCode()).isEqualTo(503);
        assertThat(reached).hasValue(0);
    }

    @Test
    void aRequestGoesBackToItsOwnContextAlsoWhereAStrangeThreadHasPassedItOn() throws Exception {
        aRequestGoesBackToItsOwnContext(limiter);
    }

    @Test
    void aRequestGoesBackToItsOwnContextAlsoWhereTheAnswerIsThereAtOnceOnAStrangeThread() throws Exception {
        aRequestGoesBackToItsOwnContext(local);
    }

    private void aRequestGoesBackToItsOwnContext(RateLimiter limiter) throws Exception {
        Queue<Context> home = new ConcurrentLinkedQueue<>();
        Queue<Context> after = new ConcurrentLinkedQueue<>();
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rules rules = rules(limiter, address("address", 100).phase(Phase.AFTER_AUTHENTICATION));
        start(router -> {
            router.route().handler(ctx -> {
                home.add(Vertx.currentContext());
                ctx.next();
            });
            router.route()
                    .handler(SimpleAuthenticationHandler.create()
                            .authenticate(ctx -> Future.fromCompletionStage(
                                    CompletableFuture.supplyAsync(() -> User.fromName("ann"), ELSEWHERE))))
                    .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                    .handler(ctx -> {
                        after.add(Vertx.currentContext());
                        threads.add(Thread.currentThread().getName());
                        end(ctx, "hello");
                    });
        });

        get("/");

        assertThat(threads).allMatch(name -> name.startsWith("vert.x-eventloop"));
        assertThat(after).containsExactlyElementsOf(home);
    }

    @Test
    void aBodyIsNotStuckWhereTheVerdictOvertakesAStrangeThread() throws Exception {
        Rules rules = rules(local, lateKey());
        RateLimitHandler limited = RateLimitHandler.create(rules);
        CompletableFuture<Void> wentOn = new CompletableFuture<>();
        CompletableFuture<Void> turnedAway = new CompletableFuture<>();
        start(router -> {
            router.post("/files").handler(ctx -> {
                Thread strange = new Thread(() -> {
                    Thread me = Thread.currentThread();
                    var request = (io.vertx.core.internal.http.HttpServerRequestInternal) ctx.request();
                    Object slow = new io.vertx.core.internal.http.HttpServerRequestWrapper(request) {
                        @Override
                        public io.vertx.core.http.HttpServerRequest pause() {
                            if (Thread.currentThread() == me) {
                                // Preempted here, and the answer comes meanwhile.
                                key.tryEmitValue("a");
                                try {
                                    wentOn.get(1, TimeUnit.SECONDS);
                                } catch (Exception e) {
                                    // It waits for us, which is well.
                                }
                            }
                            return super.pause();
                        }
                    };
                    RoutingContext wrapped = (RoutingContext) java.lang.reflect.Proxy.newProxyInstance(
                            RateLimitHandlerEdgesTest.class.getClassLoader(),
                            new Class<?>[] {RoutingContext.class},
                            (self, method, args) -> {
                                if (method.getName().equals("request")) {
                                    return slow;
                                }
                                Object result = method.invoke(ctx, args);
                                if (method.getName().equals("next")) {
                                    wentOn.complete(null);
                                }
                                return result;
                            });
                    try {
                        limited.handle(wrapped);
                        turnedAway.complete(null);
                    } catch (Throwable e) {
                        turnedAway.completeExceptionally(e);
                    }
                });
                strange.start();
            });
            router.post("/files")
                    .handler(BodyHandler.create(false))
                    .handler(ctx -> end(ctx, String.valueOf(ctx.body().length())));
        });
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            OutputStream out = socket.getOutputStream();
            out.write(
                    "POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            done(turnedAway);
            out.write("12345".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            assertThat(head(socket.getInputStream())).startsWith("HTTP/1.1 200");
        }
    }

    @Test
    void aPathThatCannotBeDecodedIsAMistakeOfTheClient() throws Exception {
        Rules rules = rules(local, address("address", 5).paths("/v1/*"));
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.get("/v1/items").handler(ctx -> end(ctx, "hello"));
        });
        assertThat(raw("GET /v1/%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
                .startsWith("HTTP/1.1 400");
    }

    @Test
    void withoutALimiterAPathThatCannotBeDecodedIs400() throws Exception {
        start(router -> {
            router.route().handler(RoutingContext::next);
            router.get("/v1/items").handler(ctx -> end(ctx, "hello"));
        });
        assertThat(raw("GET /v1/%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
                .startsWith("HTTP/1.1 400");
    }

    @Test
    void noWayAroundARuleByHowAPathIsWritten() throws Exception {
        Rules rules = rules(
                local,
                address("login", 1_000).paths("/api/login"),
                address("user", 1_000).paths("/api/users/:id"),
                address("file", 1_000).paths("/api/files/:id.:ext"),
                address("dir", 1_000).paths("/api/dir/*"),
                address("sub", 1_000).paths("/t/:tenant/login"),
                address("plus", 1_000).paths("/api/a+b(c)$.d"));
        AtomicInteger reached = new AtomicInteger();
        Queue<String> around = new ConcurrentLinkedQueue<>();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            Router sub = Router.router(vertx);
            io.vertx.core.Handler<RoutingContext> seen = ctx -> {
                reached.incrementAndGet();
                if (RateLimitHandler.decisions(ctx).isEmpty()) {
                    around.add(ctx.request().uri() + " at " + ctx.currentRoute().getName());
                }
                end(ctx, "hello");
            };
            sub.route("/login").handler(seen);
            sub.route("/users/:id").handler(seen);
            sub.route("/files/:id.:ext").handler(seen);
            sub.route("/dir/*").handler(seen);
            sub.route("/a+b(c)$.d").handler(seen);
            router.route("/api/*").subRouter(sub);
            Router tenants = Router.router(vertx);
            tenants.route("/login").handler(seen);
            router.route("/t/:tenant/*").subRouter(tenants);
        });
        for (String path : List.of(
                "/api/login",
                "/api/login/",
                "/api/login//",
                "/api//login",
                "//api/login",
                "/api/./login",
                "/api/x/../login",
                "/api/%6Cogin",
                "/api/%6cogin",
                "/api/login/.",
                "/api/login/..",
                "/api/login;x=1",
                "/api/login%2F",
                "/api/login%2f",
                "/api/LOGIN",
                "/API/login",
                "/api/%2e/login",
                "/api/x/%2e%2e/login",
                "/api%2Flogin",
                "/api/login?",
                "/api/login?x=/y",
                "/api/login#x",
                "/api/users/1",
                "/api/users/1/",
                "/api/users/1//",
                "/api/users/%2F",
                "/api/users/a%20b",
                "/api/users/%0A",
                "/api/users/a;b",
                "/api/users/..%2f",
                "/api/users/.",
                "/api/users/%C3%A9",
                "/api/users/\u00e9",
                "/api/files/a.b",
                "/api/files/a.b.c",
                "/api/files/a.b/",
                "/api/files/%2E.b",
                "/api/dir",
                "/api/dir/",
                "/api/dir/x/y",
                "/api/dir//",
                "/api/dir%2Fx",
                "/api/dir/%0A/x",
                "/api/dir/..;/x",
                "/t/a/login",
                "/t/a/login/",
                "/t/a//login",
                "/t/%2F/login",
                "/t/a%2Flogin/login",
                "/t//a/login",
                "/t/a;x/login",
                "/api/a+b(c)$.d",
                "/api/a%2Bb(c)$.d",
                "http://x/api/login",
                "http://x//api/login")) {
            try {
                raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            } catch (java.io.IOException e) {
                // refused
            }
        }
        assertThat(around).isEmpty();
    }

    @Test
    void noWayAroundByWhatLooksLikeAPreflight() throws Exception {
        RateLimitHandler limited = RateLimitHandler.create(rules(local, address("address", 1)));
        // A route without a method takes all of them.
        start(router -> router.route("/search").handler(limited).handler(ctx -> end(ctx, "found")));
        String asking = String.join(
                "\r\n",
                "OPTIONS /search HTTP/1.1",
                "Host: x",
                "Origin: http://a.example",
                "Access-Control-Request-Method: GET",
                "Connection: close",
                "",
                "");

        assertThat(raw(asking)).startsWith("HTTP/1.1 200");
        assertThat(raw(asking)).startsWith("HTTP/1.1 429");
    }

    @Test
    void noWayAroundByACharacterThatEndsALine() throws Exception {
        Rules rules = rules(local, address("api", 1_000).paths("/api/*"));
        Queue<String> around = new ConcurrentLinkedQueue<>();
        AtomicInteger reached = new AtomicInteger();
        start(router -> {
            router.route().handler(RateLimitHandler.create(rules));
            router.route("/api/*").handler(ctx -> {
                reached.incrementAndGet();
                if (RateLimitHandler.decisions(ctx).isEmpty()) {
                    around.add(ctx.request().uri());
                }
                end(ctx, "hello");
            });
        });
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            socket.getOutputStream()
                    .write("GET /api/\u0085x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                            .getBytes(StandardCharsets.ISO_8859_1));
            assertThat(new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1))
                    .startsWith("HTTP/1.1 200");
        }
        assertThat(around).isEmpty();
        assertThat(reached).hasValue(1);
    }

    @Test
    void aNumberThatIsTooLargeIsNotAnotherNumber() {
        JsonObject json =
                new JsonObject("{\"name\": \"x\", \"store\": \"local\", \"local\": {\"counts\": 4294967297}}");
        Throwable told = catchThrowable(() -> new RateLimitOptions(json));
        assertThat(told).isInstanceOf(WrongSettingException.class);
    }

    @Test
    void aPasswordThatMakesTheUriInvalidIsNotTold() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "redis://:hunter2^x@localhost:6379")));
        Throwable told = catchThrowable(() -> RateLimiting.of(vertx, options).start());
        assertThat(told).isInstanceOf(WrongSettingException.class);
        java.io.StringWriter log = new java.io.StringWriter();
        told.printStackTrace(new java.io.PrintWriter(log));
        assertThat(log.toString()).doesNotContain("hunter2");
    }

    @Test
    void aPasswordWithAnAtSignIsNotTold() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "http://u:a@hunter2@localhost:6379")));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start())
                .isInstanceOfSatisfying(
                        WrongSettingException.class,
                        e -> assertThat(e.getMessage() + e.value()).doesNotContain("hunter2"));
    }

    @Test
    void aSettingThatCannotBeReadIsToldWithItsValue() {
        assertThatThrownBy(() -> new RateLimitOptions(new JsonObject().put("deadline", "soon")))
                .hasMessageContaining("soon");
    }

    @Test
    void aDeadlineThatIsTooLongIsToldWithItsPlace() {
        RateLimitOptions options = new RateLimitOptions(new JsonObject()
                .put("name", "x")
                .put("redis", new JsonObject().put("uri", "redis://localhost"))
                .put("deadline", Long.MAX_VALUE));
        assertThatThrownBy(() -> RateLimiting.of(vertx, options).start()).isInstanceOf(WrongSettingException.class);
    }

    @Test
    void aPathThatARouteWouldNotTakeIsRefused() {
        assertThatThrownBy(() -> Router.router(vertx).route("/users/:").handler(RoutingContext::next))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> RoutePaths.ofVertx().compile("/users/:")).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aPathInTheMannerOfSpringIsRefused() {
        assertThatThrownBy(() -> RoutePaths.ofVertx().compile("/users/{id}"))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void withoutALimiterARequestThatIsPausedStaysSo() throws Exception {
        start(router -> router.post("/files")
                .handler(ctx -> {
                    ctx.request().pause();
                    ctx.next();
                })
                .handler(RoutingContext::next)
                .handler(ctx -> ctx.vertx().setTimer(200, now -> {
                    ctx.request()
                            .body()
                            .onComplete(body ->
                                    end(ctx, String.valueOf(body.result().length())));
                    ctx.request().resume();
                })));

        assertThat(post("/files", "12345").body()).isEqualTo("5");
    }

    @Test
    void aPageThatSaysSorryIsNotDeniedInItsTurn() throws Exception {
        RateLimitHandler limited =
                RateLimitHandler.create(rules(limiter, address("address", 1))).denials(DenialWriter.failing());
        start(router -> {
            router.get("/sorry").handler(limited).handler(ctx -> {
                Future<Void> unused = ctx.response().setStatusCode(429).end("sorry");
            });
            router.get("/hello")
                    .handler(limited)
                    .handler(ctx -> end(ctx, "hello"))
                    .failureHandler(ctx -> ctx.reroute("/sorry"));
        });
        get("/hello");

        HttpResponse<String> denied = get("/hello");

        assertThat(denied.body()).isEqualTo("sorry");
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
    }

    @Test
    void aPageThatAsksForAKeyIsNotDeniedInItsTurn() throws Exception {
        Rule.Builder keyed = Rule.named("key")
                .key(match -> Mono.justOrEmpty(
                        match.request().headers("X-Key").stream().findFirst()))
                .whenMissing(Rule.WhenMissing.DENY)
                .limit(Limit.perMinute(5));
        RateLimitHandler limited = RateLimitHandler.create(rules(local, keyed)).denials(DenialWriter.failing());
        start(router -> router.route()
                .handler(limited)
                .handler(ctx -> end(ctx, ctx.request().path()))
                .failureHandler(ctx -> ctx.reroute("/sorry")));

        assertThat(get("/hello").body()).isEqualTo("/sorry");
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
    void limitsAreFoundOnTheContextOfTheRequestWhereverTheKeyHasComeFrom() throws Exception {
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rules rules = rules(
                local,
                Rule.named("tenant")
                        .timeout(LONG)
                        .limit(Limit.perMinute(5))
                        .key(FutureSources.key(
                                ctx -> Future.fromCompletionStage(CompletableFuture.supplyAsync(() -> "a", ELSEWHERE))))
                        .limits(FutureSources.limits((ctx, found) -> {
                            threads.add(Thread.currentThread().getName());
                            return Future.succeededFuture(List.of(Limit.perMinute(7)));
                        })));
        start(router -> router.route().handler(RateLimitHandler.create(rules)).handler(ctx -> end(ctx, "hello")));

        assertThat(get("/").statusCode()).isEqualTo(200);

        assertThat(threads).hasSize(1).allMatch(name -> name.startsWith("vert.x-eventloop"));
    }

    @Test
    void aWriterOfDenialsThatThrowsAnErrorIsAnAnswer() throws Exception {
        RateLimitHandler limited = RateLimitHandler.create(rules(limiter, address("address", 1)))
                .denials((ctx, problem) -> {
                    throw new NoClassDefFoundError("of the test");
                });
        start(router -> router.route().handler(limited).handler(ctx -> end(ctx, "hello")));

        get("/");
        assertThat(done(client.sendAsync(request("/").build(), BodyHandlers.ofString()))
                        .statusCode())
                .isEqualTo(500);
    }

    @Test
    void aDeniedUploadLeavesTheConnectionUsable() throws Exception {
        Rules rules = rules(limiter, address("address", 1));
        start(router -> router.route()
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                .handler(BodyHandler.create(false))
                .handler(ctx -> end(ctx, "hello")));
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            OutputStream out = socket.getOutputStream();
            InputStream in = socket.getInputStream();
            for (int round = 0; round < 3; round++) {
                out.write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        .getBytes(StandardCharsets.US_ASCII));
                byte[] chunk = ("10000\r\n" + "x".repeat(0x10000) + "\r\n").getBytes(StandardCharsets.US_ASCII);
                for (int i = 0; i < 20; i++) {
                    out.write(chunk);
                }
                out.write("0\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                out.flush();
                String head = head(in);
                assertThat(head).startsWith(round == 0 ? "HTTP/1.1 200" : "HTTP/1.1 429");
            }
            out.write("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
                    .getBytes(StandardCharsets.US_ASCII));
            out.flush();
            String headOnly = "";
            while (!headOnly.endsWith("\r\n\r\n")) {
                headOnly += (char) in.read();
            }
            assertThat(headOnly).startsWith("HTTP/1.1 429");
            assertThat(head(in)).startsWith("HTTP/1.1 429");
        }
    }

    @Test
    void withoutALimiterHttp2UploadsWithContinueWork() throws Exception {
        byte[] body = new byte[2 * 1024 * 1024];
        start(router -> router.route()
                .handler(BodyHandler.create(false))
                .handler(ctx -> end(ctx, String.valueOf(ctx.body().length()))));
        http2.send(request("/").POST(BodyPublishers.ofString("warm")).build(), BodyHandlers.ofString());
        for (int i = 0; i < 20; i++) {
            HttpResponse<String> continued = http2.send(
                    request("/")
                            .expectContinue(true)
                            .POST(BodyPublishers.ofByteArray(body))
                            .build(),
                    BodyHandlers.ofString());
            assertThat(continued.body()).isEqualTo(String.valueOf(body.length));
        }
    }

    @Test
    void uploadsByHttp2AndOnWorkersAreNotLost() throws Exception {
        Rules rules = rules(limiter, address("address", 60));
        byte[] body = new byte[2 * 1024 * 1024];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i * 31);
        }
        for (ThreadingModel model : List.of(ThreadingModel.EVENT_LOOP, ThreadingModel.WORKER)) {
            CompletableFuture<HttpServer> listening = new CompletableFuture<>();
            done(vertx.deployVerticle(
                    new AbstractVerticle() {
                        @Override
                        public void start() {
                            Router router = Router.router(vertx);
                            router.route()
                                    .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION))
                                    .handler(BodyHandler.create(false))
                                    .handler(SimpleAuthenticationHandler.create()
                                            .authenticate(ctx -> Future.succeededFuture(User.fromName("ann"))))
                                    .handler(RateLimitHandler.create(rules, Phase.AFTER_AUTHENTICATION))
                                    .handler(ctx -> end(
                                            ctx,
                                            String.valueOf(Arrays.hashCode(
                                                    ctx.body().buffer().getBytes()))));
                            vertx.createHttpServer()
                                    .requestHandler(router)
                                    .listen(0, "127.0.0.1")
                                    .onSuccess(listening::complete);
                        }
                    },
                    new DeploymentOptions().setThreadingModel(model)));
            server = done(listening);
            for (HttpClient one : List.of(client, http2)) {
                one.send(request("/").POST(BodyPublishers.ofString("warm")).build(), BodyHandlers.ofString());
                for (int i = 0; i < 5; i++) {
                    HttpResponse<String> response = one.send(
                            request("/").POST(BodyPublishers.ofByteArray(body)).build(), BodyHandlers.ofString());
                    assertThat(response.body())
                            .as(model + " " + response.version())
                            .isEqualTo(String.valueOf(Arrays.hashCode(body)));
                }
                HttpResponse<String> continued = one.send(
                        request("/")
                                .expectContinue(true)
                                .POST(BodyPublishers.ofByteArray(body))
                                .build(),
                        BodyHandlers.ofString());
                assertThat(continued.body()).as(model + " continue").isEqualTo(String.valueOf(Arrays.hashCode(body)));
            }
        }
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

    private static String head(InputStream in) throws Exception {
        StringBuilder text = new StringBuilder();
        while (text.indexOf("\r\n\r\n") < 0) {
            int c = in.read();
            if (c < 0) {
                return text + "<end>";
            }
            text.append((char) c);
        }
        java.util.regex.Matcher length =
                java.util.regex.Pattern.compile("(?i)content-length: (\\d+)").matcher(text);
        if (length.find()) {
            in.readNBytes(Integer.parseInt(length.group(1)));
        }
        return text.toString();
    }

    private String raw(String request) throws Exception {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.actualPort())) {
            socket.setSoTimeout(5_000);
            socket.getOutputStream().write(request.getBytes(StandardCharsets.UTF_8));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
