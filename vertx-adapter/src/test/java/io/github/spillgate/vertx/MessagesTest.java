package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Waiting;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.WebSocketForTests;
import io.lettuce.core.RedisClient;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.ServerWebSocket;
import io.vertx.ext.web.Router;
import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** What docs/websockets.md shows of Vert.x does what it says: with a real server, a real client and a real Redis. */
class MessagesTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final String ME = "ip:127.0.0.1";
    private static final Limit THREE = Limit.of(3, Duration.ofHours(1));

    private final Vertx vertx = Vertx.vertx();
    private final RedisClient redis = RedisClient.create(RedisForTests.first().uri());
    private final RedisStore store = RedisStore.create(redis);
    private final List<AutoCloseable> open = new CopyOnWriteArrayList<>();

    @AfterEach
    void close() throws Exception {
        for (int i = open.size() - 1; i >= 0; i--) {
            open.get(i).close();
        }
        join(vertx.close());
        store.close();
        redis.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void messagesAreSlowedInOrder() {
        RateLimiter limiter = limiter(Limit.of(2, Duration.ofMillis(300)));
        WebSocketForTests client = chat(socket -> Chat.slowed(vertx, socket, limiter));
        long began = System.nanoTime();
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 7);
        assertThat(client.heard()).containsExactly("m0!", "m1!", "m2!", "m3!", "m4!", "m5!", "m6!");
        assertThat(System.nanoTime() - began)
                .as("nanoseconds for seven, by two")
                .isGreaterThan(900_000_000L);
    }

    @Test
    void whoIsSlowedCannotSendFarAhead() {
        // Ten minutes are waited for at most; who asks for the fourth permit in an hour would be denied.
        RateLimiter limiter = limiter(Limit.of(3, Duration.ofMinutes(5)));
        WebSocketForTests client = chat(socket -> Chat.slowed(vertx, socket, limiter));
        String large = "x".repeat(60_000);
        AtomicInteger sent = new AtomicInteger();
        CompletableFuture<?> last = CompletableFuture.completedFuture(null);
        for (int i = 0; i < 500; i++) {
            last = last.thenCompose(before -> client.sayLater(large).thenRun(sent::incrementAndGet));
        }
        await().atMost(LONG).until(() -> client.heard().size() == 3);
        await().during(Duration.ofMillis(500))
                .atMost(LONG)
                .until(() -> sent.get() < 500 && client.heard().size() == 3);
        assertThat(last).isNotDone();
    }

    @Test
    void whoHangsUpWhileHeIsSlowedLeavesNothingBehind() {
        RateLimiter limiter = limiter(Limit.of(3, Duration.ofMinutes(5)));
        WebSocketForTests client = chat(socket -> Chat.slowed(vertx, socket, limiter));
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 3 && Waiting.in(limiter) == 1);
        client.close();
        await().atMost(LONG).until(() -> Waiting.in(limiter) == 0);
        assertThat(limiter.peek(ME).block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void theFirstMessageTooManyClosesTheSocketAfterTheAnswersBeforeIt() {
        RateLimiter limiter = limiter(THREE);
        FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);
        WebSocketForTests client = chat(socket -> Chat.closed(socket, limits));
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(client.closed()::isDone);
        assertThat(client.heard()).containsExactly("m0!", "m1!", "m2!");
        assertThat(client.closed().join()).matches("1013 retry-after=3[56]\\d\\d");
        assertThat(limiter.peek(ME).block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void whoWouldWaitForTooLongIsDeniedAtOnce() {
        RateLimiter limiter = limiter(THREE);
        WebSocketForTests client = chat(socket -> Chat.slowed(vertx, socket, limiter));
        IntStream.range(0, 4).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(client.closed()::isDone);
        assertThat(client.heard()).hasSize(3);
        assertThat(client.closed().join()).startsWith("1013 ");
    }

    @Test
    void eventsAreSlowedAndWhoHangsUpEndsThem() throws Exception {
        RateLimiter limiter = limiter(THREE);
        AtomicInteger ended = new AtomicInteger();
        ClientForTests client =
                events(limiter, Flux.range(0, 7).map(i -> "p" + i).doOnCancel(ended::incrementAndGet));
        HttpResponse<InputStream> response = HttpClient.newHttpClient()
                .send(client.request("/prices?customer=a").build(), BodyHandlers.ofInputStream());
        assertThat(response.statusCode()).isEqualTo(200);
        String three = "retry: 5000\n\ndata: p0\n\ndata: p1\n\ndata: p2\n\n";
        try (InputStream body = response.body()) {
            assertThat(new String(body.readNBytes(three.length()), StandardCharsets.UTF_8))
                    .isEqualTo(three);
            await().during(Duration.ofMillis(300)).atMost(LONG).until(() -> isSilent(body));
            assertThat(ended).hasValue(0);
        }
        await().atMost(LONG).until(() -> ended.get() == 1);
        assertThat(limiter.peek("prices:a").block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void whoOpensTooManyStreamsOfEventsIsToldWhenToComeBackInTheirOwnLanguage() {
        ClientForTests client = events(limiter(THREE), Flux.just("p"));
        String[] accept = {"Accept", "text/event-stream"};
        assertThat(client.get("/prices?customer=a", accept).body()).isEqualTo("retry: 5000\n\ndata: p\n\n");
        assertThat(client.get("/prices?customer=a", accept).statusCode()).isEqualTo(200);
        HttpResponse<String> denied = client.get("/prices?customer=a", accept);
        assertThat(denied.statusCode()).isEqualTo(200);
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
        assertThat(denied.body()).matches("retry: [345]\\d{4}\n\n");
        assertThat(client.get("/prices?customer=a").statusCode()).isEqualTo(429);
    }

    private static boolean isSilent(InputStream body) {
        try {
            return body.available() == 0;
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private RateLimiter limiter(Limit limit) {
        RateLimiter limiter = RateLimiter.builder("messages-" + UUID.randomUUID())
                .store(store)
                .deadline(Duration.ofSeconds(5))
                .limit(limit)
                .build();
        open.add(limiter);
        return limiter;
    }

    private WebSocketForTests chat(Consumer<ServerWebSocket> handler) {
        HttpServer server =
                join(vertx.createHttpServer().webSocketHandler(handler::accept).listen(0, "127.0.0.1"));
        WebSocketForTests client =
                WebSocketForTests.open(ClientForTests.of(server.actualPort()).uri("/chat"));
        open.add(client);
        return client;
    }

    private ClientForTests events(RateLimiter limiter, Flux<String> prices) {
        Rules rules = Rules.of(
                limiter,
                RoutePaths.ofVertx(),
                List.of(LimiterForTests.address("streams", 2).build()));
        Router router = Router.router(vertx);
        router.route()
                .handler(RateLimitHandler.create(rules, Phase.BEFORE_AUTHENTICATION)
                        .denials(Prices.denials()));
        router.get("/prices").handler(ctx -> Prices.prices(ctx, limiter, prices));
        HttpServer server = join(vertx.createHttpServer().requestHandler(router).listen(0, "127.0.0.1"));
        return ClientForTests.of(server.actualPort());
    }

    private static <T> T join(Future<T> future) {
        return future.toCompletionStage()
                .toCompletableFuture()
                .orTimeout(60, TimeUnit.SECONDS)
                .join();
    }
}
