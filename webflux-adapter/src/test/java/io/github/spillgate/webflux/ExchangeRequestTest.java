package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Request;
import java.net.InetSocketAddress;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;

class ExchangeRequestTest {

    /** Both happen on Tomcat: the connection is closed, or Tomcat has recycled the request. */
    @ParameterizedTest
    @ValueSource(classes = {IllegalArgumentException.class, IllegalStateException.class})
    void aRequestHasNoPeerIfItsServerHasNoAddress(Class<? extends RuntimeException> failure) {
        assertThat(requestWithoutAddress(failure).peer()).isNull();
    }

    private static Request requestWithoutAddress(Class<? extends RuntimeException> failure) {
        MockServerHttpRequest request = MockServerHttpRequest.get("/").build();
        return ExchangeRequest.of(MockServerWebExchange.from(request)
                .mutate()
                .request(new ServerHttpRequestDecorator(request) {
                    @Override
                    public InetSocketAddress getRemoteAddress() {
                        throw failure == IllegalArgumentException.class
                                ? new IllegalArgumentException("hostname can't be null")
                                : new IllegalStateException("recycled");
                    }
                })
                .build());
    }
}
