package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.ThreadingModel;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Limiters and verticles that close while decisions are pending. */
class RateLimitingCloseTest extends HandlerFixture {

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
    void aClosedLimiterIsNotReady() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, redisOptions()).start();
        done(limiting.close());
        Future<Void> ready = limiting.ready();
        await().atMost(LONG).until(ready::isComplete);
        assertThat(ready.cause()).isInstanceOf(IllegalStateException.class).hasMessageContaining("is closed: expected");
    }

    @Test
    void aFutureCompletesAfterItsVerticleIsUndeployed() throws Exception {
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
                                        List.of(io.github.spillgate.Charge.of("w", slow)), Duration.ofSeconds(5))));
                    }
                },
                new DeploymentOptions().setThreadingModel(ThreadingModel.WORKER).setWorkerPoolName("own")));
        Future<Decision> decision = done(waiting);
        done(vertx.undeploy(id));
        await().atMost(LONG).until(decision::isComplete);
    }

    @Test
    void closingTwiceDuringRequestsCompletes() throws Exception {
        RateLimiting limiting = RateLimiting.of(vertx, redisOptions()).start();
        start(router -> router.route().handler(limiting.handler()).handler(ctx -> end(ctx, "hello")));
        assertThat(get("/").statusCode()).isEqualTo(200);
        List<CompletableFuture<HttpResponse<String>>> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            all.add(getLater("/"));
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
