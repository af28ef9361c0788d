package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.internal.http.HttpServerRequestInternal;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import reactor.core.Disposable;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/**
 * What a test of the handler works with: a server with routes of the test, a client of it, and limiters on Redis and in
 * this process.
 */
abstract class HandlerFixture {

    static final Duration LONG = Duration.ofSeconds(30);

    /** A thread that is none of Vert.x's, in a moment. */
    static final Executor ELSEWHERE = task -> {
        Disposable unused = Schedulers.boundedElastic().schedule(task, 20, TimeUnit.MILLISECONDS);
    };

    final Vertx vertx = Vertx.vertx();
    final LimiterForTests redis = LimiterForTests.on(RedisForTests.first(), LONG);
    final RateLimiter limiter = redis.limiter();
    final RateLimiter local =
            RateLimiter.builder("local").store(LocalStore.bounded(1_000)).build();
    HttpServer server;
    ClientForTests client;

    /** The key of the rule of {@link #lateKey()}, which the test emits. */
    final Sinks.One<String> key = Sinks.one();

    /** The first request that has come to that rule. */
    final CompletableFuture<RoutingContext> asked = new CompletableFuture<>();

    @AfterEach
    void close() throws Exception {
        done(vertx.close());
        local.close();
        redis.close();
    }

    Rule.Builder lateKey() {
        return Rule.named("tenant").timeout(LONG).limit(Limit.perMinute(10)).key(match -> {
            asked.complete(match.request().as(RoutingContext.class));
            return key.asMono();
        });
    }

    void start(Consumer<Router> routes) throws Exception {
        Router router = Router.router(vertx);
        routes.accept(router);
        server = done(vertx.createHttpServer().requestHandler(router).listen(0, "127.0.0.1"));
        client = ClientForTests.of(server.actualPort());
    }

    HttpResponse<String> get(String path, String... headers) {
        return client.get(path, headers);
    }

    CompletableFuture<HttpResponse<String>> getLater(String path, String... headers) {
        return client.sendLater(client.request(path, headers).GET());
    }

    HttpResponse<String> post(String path, String body, String... headers) {
        return client.post(path, body, headers);
    }

    static void end(RoutingContext ctx, String body) {
        Future<Void> unused = ctx.end(body);
    }

    static void onContext(RoutingContext ctx, Runnable then) {
        ((HttpServerRequestInternal) ctx.request()).context().runOnContext(now -> then.run());
    }

    static Rules rules(RateLimiter limiter, Rule.Builder... rules) {
        return Rules.of(
                limiter,
                RoutePaths.ofVertx(),
                Arrays.stream(rules).map(Rule.Builder::build).toList());
    }

    static Rule.Builder address(String name, long permits) {
        return LimiterForTests.address(name, permits);
    }

    static long remaining(Rules rules, String rule, String key) throws Exception {
        return done(rules.peek(rule, key).toFuture()).remaining();
    }

    static <T> T done(Future<T> future) throws Exception {
        return done(future.toCompletionStage().toCompletableFuture());
    }

    static <T> T done(CompletableFuture<T> future) throws Exception {
        return future.get(LONG.toSeconds(), TimeUnit.SECONDS);
    }
}
