package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.testkit.Unprotected;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.core.io.buffer.DataBufferFactory;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.server.WebHandler;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Requests with the header of a WebSocket that get another response. */
class RateLimitWebFilterUpgradeTest {

    private final AtomicBoolean isSettled = new AtomicBoolean();
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(new Unprotected(LocalStore.bounded(100)) {
                @Override
                public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                    return Mono.delay(Duration.ofMillis(200))
                            .then(super.correct(corrections))
                            .doOnTerminate(() -> isSettled.set(true));
                }
            })
            .limit(Limit.perMinute(100))
            .build();
    private final Rules rules = Limiters.rules(limiter, address("units", 100));
    private final Service service = Service.start(context -> {
        WebHandler plain = exchange -> {
            RateLimitResponses.cost(exchange, 7);
            DataBufferFactory buffers = exchange.getResponse().bufferFactory();
            // Two, so that the response has no length, and its end is sent separately.
            return exchange.getResponse()
                    .writeWith(Flux.just("a", "b").map(part -> buffers.wrap(part.getBytes(US_ASCII))));
        };
        context.registerBean(HandlerMapping.class, () -> new SimpleUrlHandlerMapping(Map.of("/plain", plain), -1));
        Service.filter(context, rules);
    });

    @AfterEach
    void close() {
        service.close();
        limiter.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"})
    void theResponseEndsAfterTheSettlement(String upgrade) throws IOException {
        try (Socket socket = new Socket(
                InetAddress.getLoopbackAddress(), service.uri("/plain").getPort())) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream()
                    .write(("GET /plain HTTP/1.1\r\nHost: localhost\r\n" + upgrade + "\r\n").getBytes(US_ASCII));
            String response = readToEnd(socket.getInputStream());
            assertThat(isSettled).isTrue();
            assertThat(response).startsWith("HTTP/1.1 200 ");
        }
        assertThat(rules.peek("units", "127.0.0.1").block().limits().get(0).used())
                .isEqualTo(7);
    }

    /** Reads until the chunk that ends the response. */
    private static String readToEnd(InputStream input) throws IOException {
        StringBuilder response = new StringBuilder();
        while (!response.toString().endsWith("\r\n0\r\n\r\n")) {
            int next = input.read();
            assertThat(next).as("the response so far: %s", response).isNotNegative();
            response.append((char) next);
        }
        return response.toString();
    }
}
