package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.metrics.DecisionMetrics;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisURI;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.healthchecks.HealthChecks;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** An application with a limiter by its settings, on a Redis of its own. */
class RateLimitingTest extends HandlerFixture {

    @Test
    void settingsAreAllThatAServiceNeeds() throws Exception {
        SimpleMeterRegistry meters = new SimpleMeterRegistry();
        try (RedisForTests redis = RedisForTests.startOwn()) {
            RateLimiting limiting = RateLimiting.of(vertx, options(redis))
                    .listener(RuleMetrics.of(meters))
                    .start();
            awaitRedis(limiting);
            serve(limiting.handler(Phase.BEFORE_AUTHENTICATION));

            assertThat(get("/hello").statusCode()).isEqualTo(200);
            assertThat(get("/hello").statusCode()).isEqualTo(200);
            HttpResponse<String> denied = get("/hello");
            assertThat(denied.statusCode()).isEqualTo(429);
            assertThat(denied.headers().firstValue("X-RateLimit-Limit")).isEmpty();
            assertThat(denied.headers().firstValue("RateLimit")).isPresent();
            // One timer per source: on a busy machine, the local store may have decided.
            assertThat(meters.get("spillgate.decisions").tag("outcome", "allowed").timers().stream()
                            .mapToLong(Timer::count)
                            .sum())
                    .isEqualTo(2);
            done(limiting.close());
        }
    }

    @Test
    void aRealCostLeavesAtMostTheConfiguredDebt() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx,
                        new RateLimitOptions(new JsonObject("{\"name\": \"a\", \"store\": \"local\", \"debt\": 0.5}")))
                .start();
        RateLimiter limiter = limiting.limiter();
        Charge charge = Charge.of("a", Limit.perHour(10));
        limiter.settle(limiter.tryAcquire(charge).block(LONG), 100).block(LONG);
        assertThat(limiter.peek(charge).block(LONG).limits().get(0).used()).isEqualTo(15);
        done(limiting.close());
    }

    @Test
    void theStartIsLoggedWithWhatIsInForce() throws Exception {
        try (LogForTests log = LogForTests.listen()) {
            done(RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                    {"name": "orders-start", "store": "local", "rules": [
                                      {"name": "address", "limits": "100/1m, 5 concurrent"},
                                      {"name": "login", "paths": "/login", "limits": "5/15m", "shadow": true}
                                    ]}
                                    """)))
                    .start()
                    .close());
            assertThat(log.lines("orders-start"))
                    .singleElement()
                    .asString()
                    .endsWith("Rules [address: 100/1m, 5 concurrent; login (shadow): 5/15m] use"
                            + " RateLimiter[orders-start, store=LocalStore]");
        }
    }

    @Test
    void aCostAboveALimitIsForRulesThatLookItUp() throws Exception {
        JsonObject options = new JsonObject("""
            {"name": "a", "store": "local", "rules": [
                {"name": "export", "limits": "5/1m", "cost": 6, "cost-from": "size"}]}
            """);
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(options))
                .cost("size", FutureSources.cost(ctx -> Future.succeededFuture(1L)))
                .start();
        serve(limiting.handler());
        assertThat(get("/hello").statusCode()).isEqualTo(200);
        done(limiting.close());
    }

    @Test
    void permitsAreHeldForTheConfiguredTimeAtMost() throws Exception {
        RateLimiting limiting = RateLimiting.of(
                        vertx,
                        new RateLimitOptions(
                                new JsonObject("{\"name\": \"a\", \"store\": \"local\", \"longest-hold\": \"1ms\"}")))
                .start();
        RateLimiter limiter = limiting.limiter();
        Charge charge = Charge.of("a", Limit.concurrent(1).hold(Limit.SHORTEST_HOLD));
        CompletableFuture<String> expired = new CompletableFuture<>();
        limiter.keepHolding(limiter.tryAcquire(charge).block(LONG), why -> expired.complete(why.getMessage()));
        assertThat(done(expired)).endsWith("the longest hold time has passed");
        done(limiting.close());
    }

    @Test
    void aForwardingHeaderWithoutATrustedProxyIsLoggedOnce() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "direct", "store": "local", "rules": [{"name": "all", "limits": "100/1m"}]}
                                """)))
                .start();
        serve(limiting.handler(Phase.BEFORE_AUTHENTICATION));
        try (LogForTests log = LogForTests.listen()) {
            List<CompletableFuture<HttpResponse<String>>> many = IntStream.range(0, 20)
                    .mapToObj(i -> getLater("/hello", "X-Forwarded-For", "203.0.113.7"))
                    .toList();
            for (CompletableFuture<HttpResponse<String>> one : many) {
                assertThat(done(one).statusCode()).isEqualTo(200);
            }
            assertThat(log.lines("no proxy is trusted"))
                    .singleElement()
                    .asString()
                    .contains("expected client-address.header and trusted-proxies if there is a proxy");
        }
        done(limiting.close());
    }

    @Test
    void aHeaderOfTrustedProxiesHasTheAddressOfTheClient() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "proxied", "store": "local", "rules": [{"name": "all", "limits": "1/1h"}],
                                 "client-address": {"header": "x-forwarded-for", "trusted-proxies": "127.0.0.0/8"}}
                                """)))
                .start();
        serve(limiting.handler(Phase.BEFORE_AUTHENTICATION));
        try (LogForTests log = LogForTests.listen()) {
            assertThat(get("/hello", "X-Forwarded-For", "203.0.113.7").statusCode())
                    .isEqualTo(200);
            assertThat(get("/hello", "X-Forwarded-For", "203.0.113.8").statusCode())
                    .isEqualTo(200);
            assertThat(get("/hello", "X-Forwarded-For", "203.0.113.7").statusCode())
                    .isEqualTo(429);
            assertThat(log.lines("no proxy is trusted")).isEmpty();
        }
        done(limiting.close());
    }

    @Test
    void listenersGetTheDecisionsForRulesAndThoseInCode() throws Exception {
        SimpleMeterRegistry meters = new SimpleMeterRegistry();
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "heard", "store": "local", "rules": [{"name": "all", "limits": "1/1h"}]}
                                """)))
                .listener(DecisionMetrics.of(meters))
                .start();
        serve(limiting.handler());
        assertThat(get("/hello").statusCode()).isEqualTo(200);
        assertThat(get("/hello").statusCode()).isEqualTo(429);
        done(limiting.futures().tryAcquire(Charge.of("me", Limit.perHour(1))));
        assertThat(meters.get("spillgate.decisions")
                        .tags("rule", "limiter:heard", "outcome", "allowed")
                        .timer()
                        .count())
                .isEqualTo(2);
        assertThat(meters.get("spillgate.decisions")
                        .tags("rule", "limiter:heard", "outcome", "denied")
                        .timer()
                        .count())
                .isEqualTo(1);
        done(limiting.close());
    }

    @Test
    void aDisabledLimiterOpensNoConnectionAndAllowsEveryRequest() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "off", "enabled": false, "redis": {"uri": "http://nowhere"}, "rules": [
                                  {"name": "all", "key": "bean:notThere", "when-missing": "deny", "limits": "1/1h"}]}
                                """)))
                .start();
        serve(limiting.handler(Phase.BEFORE_AUTHENTICATION), limiting.handler());

        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(response.headers().firstValue("RateLimit")).isEmpty();
            assertThat(done(limiting.futures().tryAcquire(Charge.of("me", Limit.perHour(1))))
                            .isAllowed())
                    .isTrue();
        }
        done(limiting.close());
    }

    @Test
    void everySpellingOfAnExcludedPathIsUnlimited() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "excluded", "store": "local", "rules": [
                                  {"name": "all", "exclude-paths": ["/health/*", "/static/:file"], "limits": "1/1h"}]}
                                """)))
                .start();
        start(router -> {
            router.route().handler(limiting.handler(Phase.BEFORE_AUTHENTICATION));
            router.get("/health/*").handler(ctx -> end(ctx, "well"));
            router.get("/static/:file").handler(ctx -> end(ctx, "file"));
            router.get("/*").handler(ctx -> end(ctx, "mine"));
        });

        assertThat(get("/x", "X-Api-Key", "x").body()).isEqualTo("mine");
        for (String path : List.of("/health", "/health/live", "/%68ealth", "//health", "/static/a.css")) {
            assertThat(get(path, "X-Api-Key", "x").statusCode()).as(path).isEqualTo(200);
        }
        for (String path :
                List.of("/health/../x", "/health/%2e%2e/x", "/healthy", "/static/a/b", "/HEALTH", "/x;/health")) {
            assertThat(get(path, "X-Api-Key", "x").body()).as(path).doesNotContain("mine");
        }
        done(limiting.close());
    }

    @Test
    void theUsageOfEachLimitIsReportedWithoutACharge() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(new JsonObject("""
                                {"name": "usage", "store": "local", "rules": [
                                  {"name": "address", "paths": "/v1/*", "limits": "120/1m"},
                                  {"name": "key", "paths": "/v1/*", "key": "header:X-Api-Key", "when-missing": "skip",
                                   "limits": "10/1h, 3000/24h"}]}
                                """)))
                .start();
        start(router -> {
            router.get("/usage").handler(ctx -> {
                Context home = Vertx.currentContext();
                limiting.peek(ctx)
                        .onSuccess(usage -> ctx.json(new JsonObject()
                                .put("isHome", Vertx.currentContext() == home)
                                .put("remaining", remaining(usage))));
            });
            router.route().handler(limiting.handler()).handler(ctx -> ctx.json("hello"));
        });

        assertThat(get("/v1/orders", "X-Api-Key", "ann").statusCode()).isEqualTo(200);
        for (int i = 0; i < 3; i++) {
            assertThat(get("/usage", "X-Api-Key", "ann").body())
                    .isEqualTo("{\"isHome\":true,\"remaining\":{\"address-1m\":119,\"key-1h\":9,\"key-24h\":2999}}");
        }
        assertThat(get("/usage", "X-Api-Key", "bob").body()).contains("\"key-1h\":10");
        done(limiting.close());
    }

    private static JsonObject remaining(@Nullable Decision usage) {
        JsonObject remaining = new JsonObject();
        usage.limits().forEach(tier -> remaining.put(tier.limit().name(), tier.remaining()));
        return remaining;
    }

    @Test
    @Thorough
    void aClusterNeedsOneSettingMore() throws Exception {
        try (RedisClusterForTests cluster = RedisClusterForTests.start(3, 0)) {
            RateLimiting limiting = RateLimiting.of(vertx, options(cluster)).start();
            awaitRedis(limiting);
            await().atMost(LONG).until(() -> ask(limiting).source() == Source.REDIS);
            done(limiting.close());
        }
    }

    @Test
    void closeReconcilesWhatWasGrantedLocally() throws Exception {
        try (RedisForTests redis = RedisForTests.startOwn()) {
            RateLimitOptions options = options(redis);
            RateLimiting limiting = RateLimiting.of(vertx, options).start();
            awaitRedis(limiting);
            redis.pause();
            await().atMost(LONG).until(() -> ask(limiting).source() == Source.LOCAL);
            redis.resume();
            done(limiting.close());

            RateLimiting next = RateLimiting.of(vertx, options).start();
            awaitRedis(next);
            assertThat(done(next.rules().peek("hello", "a").toFuture()).remaining())
                    .isLessThan(2);
            done(next.close());
        }
    }

    @Test
    void theHealthCheckReportsTheSource() throws Exception {
        try (RedisForTests redis = RedisForTests.startOwn()) {
            RateLimiting limiting = RateLimiting.of(vertx, options(redis)).start();
            awaitRedis(limiting);
            HealthChecks checks = HealthChecks.create(vertx)
                    .register("well", RateLimitHealth.of(limiting.limiter()))
                    .register("strict", RateLimitHealth.of(limiting.limiter()).failsDuringFallback(true));
            assertThat(done(checks.checkStatus("strict")).getUp()).isTrue();
            assertThat(done(checks.checkStatus("well")).toJson().toString()).contains("\"degraded\":false");

            redis.kill();
            await().atMost(LONG).until(() -> {
                ask(limiting);
                return !done(checks.checkStatus("strict")).getUp();
            });
            assertThat(done(checks.checkStatus("well")).getUp()).isTrue();
            assertThat(done(checks.checkStatus("well")).toJson().toString())
                    .contains("\"degraded\":true", "LOCAL", "problem");

            redis.restart();
            await().atMost(LONG).until(() -> {
                ask(limiting);
                return done(checks.checkStatus("strict")).getUp();
            });
            done(limiting.close());
        }
    }

    /** Serves {@code /hello} behind these handlers. */
    private void serve(RateLimitHandler... handlers) throws Exception {
        start(router -> {
            for (RateLimitHandler handler : handlers) {
                router.route().handler(handler);
            }
            router.get("/hello").handler(ctx -> end(ctx, "hello"));
        });
    }

    private static RateLimitOptions options(RedisForTests redis) {
        return options("redis://" + place(redis.uri()));
    }

    private static RateLimitOptions options(RedisClusterForTests cluster) {
        return options("redis://"
                        + cluster.uris().stream().map(RateLimitingTest::place).collect(Collectors.joining(",")))
                .setRedisCluster(true);
    }

    private static String place(RedisURI uri) {
        return uri.getHost() + ":" + uri.getPort();
    }

    private static RateLimitOptions options(String redis) {
        return new RateLimitOptions()
                .setName("test-" + UUID.randomUUID())
                .setRedisUri(redis)
                .setDeadline(Duration.ofSeconds(5))
                .setXRateLimitFields(false)
                .addRule(new RuleOptions().setName("hello").setPaths("/hello").setLimits(Limit.perHour(2)));
    }

    private static Decision ask(RateLimiting limiting) throws Exception {
        return done(limiting.limiter()
                .tryAcquire(Charge.of("a", limiting.rules().list().get(0).limits()))
                .toFuture());
    }

    /** The first decisions may come before the connection does. */
    private static void awaitRedis(RateLimiting limiting) {
        await().atMost(LONG)
                .until(() ->
                        done(limiting.rules().peek("hello", "none").toFuture()).source() == Source.REDIS);
    }
}
