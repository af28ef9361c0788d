package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.MessagesContract;
import io.github.spillgate.testkit.WebSocketForTests;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** The code for Vert.x in docs/websockets-and-grpc.md, with a real server, a real client and a real Redis. */
class MessagesTest extends MessagesContract {

    /** A server that is closed waits 1 s for the close frame of a client, and by default 10 s. */
    private static final HttpServerOptions CLOSING_SOON = new HttpServerOptions().setWebSocketClosingTimeout(1);

    private final Vertx vertx = Vertx.vertx();

    /** Closes Vert.x last, after the clients: the server waits for the close frame of a client that is slowed. */
    MessagesTest() {
        closedLater(() -> join(vertx.close()));
    }

    @Override
    protected WebSocketForTests slowed(RateLimiter limiter) {
        return chat(socket -> Chat.slowed(vertx, socket, limiter));
    }

    @Override
    protected WebSocketForTests closed(RateLimiter limiter) {
        FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);
        return chat(socket -> Chat.closed(socket, limits));
    }

    @Test
    void aMessageThatWouldWaitTooLongIsDenied() {
        RateLimiter limiter = limiter(THREE);
        WebSocketForTests client = slowed(limiter);
        IntStream.range(0, 4).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(client.closed()::isDone);
        assertThat(client.heard()).hasSize(3);
        assertThat(client.closed().join()).startsWith("1013 ");
    }

    @Test
    void eventsAreThrottledUntilTheClientDisconnects() throws Exception {
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
    void aDeniedEventStreamHasAnEventWithTheRetryTime() {
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

    private WebSocketForTests chat(Consumer<ServerWebSocket> handler) {
        HttpServer server = join(vertx.createHttpServer(CLOSING_SOON)
                .webSocketHandler(handler::accept)
                .listen(0, "127.0.0.1"));
        return closedLater(
                WebSocketForTests.open(ClientForTests.of(server.actualPort()).uri("/chat")));
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
