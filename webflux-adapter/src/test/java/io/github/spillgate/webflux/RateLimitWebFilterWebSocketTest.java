package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import io.github.spillgate.http.Rule.Phase;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.reactive.socket.WebSocketHandler;

class RateLimitWebFilterWebSocketTest {

    private final Limiters limiters = Limiters.onRedis();
    private final Service service = Service.start(context -> {
        WebSocketHandler echo = session ->
                session.send(session.receive().map(message -> session.textMessage(message.getPayloadAsText())));
        context.registerBean(HandlerMapping.class, () -> new SimpleUrlHandlerMapping(Map.of("/echo", echo), -1));
        context.registerBean(
                RateLimitWebFilter.class,
                () -> RateLimitWebFilter.of(
                        limiters.rules(address("socket", 1)),
                        Phase.BEFORE_AUTHENTICATION,
                        RateLimitResponses.standard()));
    });

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void anUpgradeIsChargedOnceAndItsMessagesAreNot() {
        CompletableFuture<String> heard = new CompletableFuture<>();
        WebSocket socket = connect(heard);
        socket.sendText("one", true).join();
        socket.sendText("two", true).join();
        assertThat(heard).succeedsWithin(30, TimeUnit.SECONDS).isEqualTo("onetwo");
        socket.abort();
    }

    @Test
    void anUpgradeIsDeniedAsARequestIs() {
        connect(new CompletableFuture<>()).abort();
        assertThatExceptionOfType(CompletionException.class)
                .isThrownBy(() -> connect(new CompletableFuture<>()))
                .withCauseInstanceOf(WebSocketHandshakeException.class)
                .satisfies(e -> assertThat(((WebSocketHandshakeException) e.getCause())
                                .getResponse()
                                .statusCode())
                        .isEqualTo(429));
    }

    private WebSocket connect(CompletableFuture<String> twoMessages) {
        URI uri = URI.create(service.uri("/echo").toString().replace("http:", "ws:"));
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
