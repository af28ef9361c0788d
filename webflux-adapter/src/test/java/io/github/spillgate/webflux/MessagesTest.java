package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.WaitQueueCount;
import io.github.spillgate.testkit.MessagesContract;
import io.github.spillgate.testkit.WebSocketForTests;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.reactive.socket.WebSocketHandler;
import reactor.core.publisher.Flux;

/** The code for WebFlux in docs/websockets-and-grpc.md, with a real server, a real client and a real Redis. */
class MessagesTest extends MessagesContract {

    private final Limiters limiters = closedLater(Limiters.onRedis());
    private final AtomicInteger ended = new AtomicInteger();

    @Override
    protected WebSocketForTests slowed(RateLimiter limiter) {
        return chat(Chat.slowed(limiter));
    }

    @Override
    protected WebSocketForTests closed(RateLimiter limiter) {
        return chat(Chat.closed(limiter));
    }

    @Test
    void aDisconnectedClientEndsItsHandler() {
        RateLimiter limiter = limiter(THREE);
        WebSocketForTests client = slowed(limiter);
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 3 && WaitQueueCount.of(limiter) > 0);
        assertThat(ended).hasValue(0);
        client.close();
        await().atMost(LONG).until(() -> ended.get() == 1);
    }

    @Test
    void aDeniedMessageIsAnsweredInOrder() {
        RateLimiter limiter = limiter(THREE);
        WebSocketForTests client = chat(Chat.answered(limiter));
        IntStream.range(0, 5).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 5);
        assertThat(client.heard()).containsExactly("m0!", "m1!", "m2!", "too many messages", "too many messages");
    }

    @Test
    void twoSocketsOfOneClientShareTheLimit() {
        WebSocketHandler handler = Chat.answered(limiter(THREE));
        WebSocketForTests one = chat(handler);
        one.say("a");
        one.say("b");
        await().atMost(LONG).until(() -> one.heard().size() == 2);
        WebSocketForTests two = chat(handler);
        two.say("c");
        two.say("d");
        await().atMost(LONG).until(() -> two.heard().size() == 2);
        assertThat(two.heard()).containsExactly("c!", "too many messages");
    }

    @Test
    void eventsAreThrottledAndHaveARetryTime() throws Exception {
        RateLimiter limiter = limiter(THREE);
        Service service = events(limiter, Flux.range(0, 7).map(i -> "p" + i));
        HttpResponse<InputStream> response = HttpClient.newHttpClient()
                .send(service.request("/prices?customer=a").build(), BodyHandlers.ofInputStream());
        assertThat(response.statusCode()).isEqualTo(200);
        String three = "retry:5000\ndata:p0\n\nretry:5000\ndata:p1\n\nretry:5000\ndata:p2\n\n";
        try (InputStream body = response.body()) {
            assertThat(new String(body.readNBytes(three.length()), StandardCharsets.UTF_8))
                    .isEqualTo(three);
            await().during(Duration.ofMillis(300)).atMost(LONG).until(() -> body.available() == 0);
        }
        assertThat(limiter.peek("prices:a").block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void aDeniedEventStreamHasAnEventWithTheRetryTime() {
        Service service = events(limiter(THREE), Flux.just("p"));
        String[] accept = {"Accept", "text/event-stream"};
        assertThat(service.get("/prices?customer=a", accept).body()).startsWith("retry:5000\ndata:p");
        assertThat(service.get("/prices?customer=a", accept).statusCode()).isEqualTo(200);
        HttpResponse<String> denied = service.get("/prices?customer=a", accept);
        assertThat(denied.statusCode()).isEqualTo(200);
        assertThat(denied.headers().firstValue("Content-Type"))
                .hasValueSatisfying(type -> assertThat(type).startsWith("text/event-stream"));
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
        assertThat(denied.body()).matches("retry: [345]\\d{4}\n\n");
        assertThat(service.get("/prices?customer=a").statusCode()).isEqualTo(429);
    }

    private WebSocketForTests chat(WebSocketHandler handler) {
        WebSocketHandler watched = session -> handler.handle(session).doFinally(end -> ended.incrementAndGet());
        Service service = closedLater(Service.start(context -> context.registerBean(
                HandlerMapping.class, () -> new SimpleUrlHandlerMapping(Map.of("/chat", watched), -1))));
        return closedLater(WebSocketForTests.open(service.uri("/chat")));
    }

    private Service events(RateLimiter limiter, Flux<String> prices) {
        return closedLater(Service.start(context -> {
            context.registerBean(Prices.class, () -> new Prices(limiter, prices));
            Service.filter(
                    context,
                    RateLimitResponses.standard().denials(Prices.denials()),
                    limiters.rules(address("streams", 2)));
        }));
    }
}
