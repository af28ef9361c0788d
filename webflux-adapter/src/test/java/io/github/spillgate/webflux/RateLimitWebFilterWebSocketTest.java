package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.http.Rules;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.reactive.socket.WebSocketHandler;
import org.springframework.web.reactive.socket.server.support.HandshakeWebSocketService;
import org.springframework.web.server.WebHandler;

class RateLimitWebFilterWebSocketTest {

    private final Limiters limiters = Limiters.onRedis();
    private final Rules rules = limiters.rules(
            address("socket", 1).paths("/echo"), address("messages", 100).paths("/metered"));
    private final Service service = Service.start(context -> {
        WebSocketHandler echo = session ->
                session.send(session.receive().map(message -> session.textMessage(message.getPayloadAsText())));
        WebHandler metered = exchange -> {
            AtomicInteger messages = new AtomicInteger();
            // It is not the last one, so it has no effect.
            RateLimitResponses.cost(exchange, "messages", 50);
            return new HandshakeWebSocketService()
                    .handleRequest(
                            exchange,
                            session -> session.send(session.receive().map(message -> {
                                RateLimitResponses.cost(exchange, "messages", messages.incrementAndGet());
                                return session.textMessage(message.getPayloadAsText());
                            })));
        };
        context.registerBean(
                HandlerMapping.class,
                () -> new SimpleUrlHandlerMapping(Map.of("/echo", echo, "/metered", metered), -1));
        Service.filter(context, rules);
    });

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void anUpgradeIsDeniedAsARequestIs() {
        connect("/echo", new CompletableFuture<>()).abort();
        assertThatExceptionOfType(CompletionException.class)
                .isThrownBy(() -> connect("/echo", new CompletableFuture<>()))
                .withCauseInstanceOf(WebSocketHandshakeException.class)
                .satisfies(e -> assertThat(((WebSocketHandshakeException) e.getCause())
                                .getResponse()
                                .statusCode())
                        .isEqualTo(429));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theRealCostOfASocketIsSettledWhenItIsClosed(boolean isAborted) {
        CompletableFuture<String> heard = new CompletableFuture<>();
        WebSocket socket = connect("/metered", heard);
        socket.sendText("one", true).join();
        socket.sendText("two", true).join();
        assertThat(heard).succeedsWithin(30, TimeUnit.SECONDS).isEqualTo("onetwo");
        assertThat(used()).isEqualTo(1);
        if (isAborted) {
            socket.abort();
        } else {
            socket.sendClose(WebSocket.NORMAL_CLOSURE, "").join();
        }
        await().untilAsserted(() -> assertThat(used()).isEqualTo(2));
    }

    private long used() {
        return rules.peek("messages", "127.0.0.1").block().limits().get(0).used();
    }

    private WebSocket connect(String path, CompletableFuture<String> twoMessages) {
        URI uri = URI.create(service.uri(path).toString().replace("http:", "ws:"));
        StringBuilder heard = new StringBuilder();
        return HttpClient.newHttpClient()
                .newWebSocketBuilder()
                .buildAsync(uri, new WebSocket.Listener() {
                    @Override
                    public CompletionStage<?> onText(WebSocket webSocket, CharSequence data, boolean last) {
                        heard.append(data);
                        if (heard.length() == 6) {
                            twoMessages.complete(heard.toString());
                        }
                        webSocket.request(1);
                        return null;
                    }
                })
                .join();
    }
}
