package io.github.spillgate.vertx;

import static io.github.spillgate.vertx.HandlerFixture.LONG;
import static io.github.spillgate.vertx.HandlerFixture.done;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.http.HttpServer;
import io.vertx.core.internal.VertxInternal;
import io.vertx.ext.web.Router;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Event loops of Vert.x do not wait for the limiter, whatever Redis does. Vert.x looks for itself. */
class EventLoopsTest {

    private static final int REQUESTS = 200;

    private final Queue<String> blocked = new ConcurrentLinkedQueue<>();
    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    @Test
    void noEventLoopBlocksWhileRedisRepliesHangsAndReturns() throws Exception {
        Vertx vertx = Vertx.vertx(new VertxOptions()
                .setBlockedThreadCheckInterval(10)
                .setBlockedThreadCheckIntervalUnit(TimeUnit.MILLISECONDS)
                .setMaxEventLoopExecuteTime(50)
                .setMaxEventLoopExecuteTimeUnit(TimeUnit.MILLISECONDS));
        ((VertxInternal) vertx).blockedThreadChecker().setThreadBlockedHandler(event -> look(event.thread()));
        try (RedisForTests redis = RedisForTests.startOwn()) {
            RedisStore store = RedisStore.create(redis.uri());
            RateLimiter limiter = RateLimiter.builder("loops").store(store).build();
            HttpServer server = start(vertx, limiter);

            sendRequests(server);
            redis.pause();
            sendRequests(server);
            redis.resume();
            await().atMost(LONG).until(() -> {
                sendRequests(server);
                return !limiter.state().isFallbackActive();
            });

            done(vertx.close());
            limiter.close();
            store.close();
        }
        assertThat(blocked).isEmpty();
    }

    @Test
    void aDecisionOfRedisIsEmittedOnTheEventLoopThatRequestedIt() throws Exception {
        Vertx vertx = Vertx.vertx();
        try (LimiterForTests redis = LimiterForTests.on(RedisForTests.first(), LONG)) {
            Charge charge = Charge.of("user:42", Limit.perMinute(100_000));
            Context context = vertx.getOrCreateContext();
            await().atMost(LONG).until(() -> {
                CompletableFuture<List<Thread>> threads = new CompletableFuture<>();
                context.runOnContext(run -> {
                    Thread requested = Thread.currentThread();
                    redis.limiter()
                            .tryAcquire(charge)
                            .subscribe(decision -> threads.complete(List.of(requested, Thread.currentThread())));
                });
                List<Thread> both = threads.get(30, TimeUnit.SECONDS);
                return both.get(0) == both.get(1);
            });
        }
        done(vertx.close());
    }

    /**
     * A machine that has something else to do may halt a thread anywhere. What blocks has a thread that waits, and
     * frames of ours.
     */
    private void look(Thread thread) {
        Thread.State state = thread.getState();
        StackTraceElement[] stack = thread.getStackTrace();
        if (state != Thread.State.RUNNABLE
                && Arrays.stream(stack).anyMatch(frame -> frame.getClassName().startsWith("io.github.spillgate"))) {
            blocked.add(state + " " + Arrays.toString(stack));
        }
    }

    private static HttpServer start(Vertx vertx, RateLimiter limiter) throws Exception {
        Rule rule = Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofPeer()))
                .limit(Limit.perMinute(100_000))
                .build();
        Router router = Router.router(vertx);
        router.route()
                .handler(RateLimitHandler.create(Rules.of(limiter, RoutePaths.ofVertx(), List.of(rule))))
                .handler(ctx -> {
                    Future<Void> unused = ctx.end("hello");
                });
        return done(vertx.createHttpServer().requestHandler(router).listen(0, "127.0.0.1"));
    }

    private void sendRequests(HttpServer server) {
        URI uri = URI.create("http://127.0.0.1:" + server.actualPort() + "/");
        List<CompletableFuture<HttpResponse<String>>> all = new ArrayList<>();
        for (int i = 0; i < REQUESTS; i++) {
            all.add(client.sendAsync(HttpRequest.newBuilder(uri).timeout(LONG).build(), BodyHandlers.ofString()));
        }
        assertThat(all).allMatch(response -> response.join().statusCode() == 200);
    }
}
