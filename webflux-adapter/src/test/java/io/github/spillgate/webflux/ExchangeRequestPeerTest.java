package io.github.spillgate.webflux;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.testkit.ClientForTests;
import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.adapter.ForwardedHeaderTransformer;
import reactor.core.publisher.Mono;
import reactor.netty.http.HttpProtocol;
import reactor.netty.http.server.HttpServer;
import reactor.netty.http.server.ProxyProtocolSupportType;

/**
 * The peer is the other end of the connection, whatever the server and Spring read from headers.
 */
class ExchangeRequestPeerTest extends ServiceFixture {

    /** As Spring Boot has it done by itself on Kubernetes and the like. */
    @Test
    void anAddressFromAHeaderReadByTheServerIsNotThePeer() {
        start(http -> http.forwarded(true), address("address", 1));
        assertThat(get("198.51.100.1")).isEqualTo(200);
        assertThat(get("198.51.100.2")).isEqualTo(429);
        assertThat(service.get("/hello", "Forwarded", "for=198.51.100.3").statusCode())
                .isEqualTo(429);
    }

    @Test
    void soItIsWithHttp2() {
        start(http -> http.protocol(HttpProtocol.HTTP11, HttpProtocol.H2C).forwarded(true), address("address", 2));
        ClientForTests client = ClientForTests.ofHttp2(service.port());
        // The first one asks for HTTP/2, and the others are streams.
        assertThat(client.get("/hello", "X-Forwarded-For", "198.51.100.1").statusCode())
                .isEqualTo(200);
        HttpResponse<String> stream = client.get("/hello", "X-Forwarded-For", "198.51.100.2");
        assertThat(stream.version()).isEqualTo(HttpClient.Version.HTTP_2);
        assertThat(stream.statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Forwarded-For", "198.51.100.3").statusCode())
                .isEqualTo(429);
    }

    @Test
    void aTrustedProxyIsBelievedThoughTheServerReadsTheHeaderToo() {
        start(http -> http.forwarded(true), behindAProxy());
        assertThat(get("192.0.2.66, 198.51.100.1")).isEqualTo(200);
        assertThat(get("192.0.2.67, 198.51.100.1"))
                .as("the left end is the client's")
                .isEqualTo(429);
        assertThat(get("192.0.2.67, 198.51.100.2")).isEqualTo(200);
    }

    @Test
    void anAddressFromAHeaderReadBySpringIsNotThePeer() {
        service = Service.start(context -> {
            context.registerBean("forwardedHeaderTransformer", ForwardedHeaderTransformer.class);
            beans(context, address("address", 1));
        });
        assertThat(get("198.51.100.1")).isEqualTo(200);
        assertThat(get("198.51.100.2")).isEqualTo(429);
    }

    @Test
    void theAddressOfTheProxyProtocolIsThePeer() {
        start(http -> http.proxyProtocol(ProxyProtocolSupportType.ON).forwarded(true), address("address", 1));
        assertThat(through("198.51.100.1")).contains(" 200 ");
        assertThat(through("198.51.100.1")).contains(" 429 ");
        assertThat(through("198.51.100.2")).contains(" 200 ");
    }

    private int get(String forwardedFor) {
        return service.get("/hello", "X-Forwarded-For", forwardedFor).statusCode();
    }

    private String through(String client) {
        return service.answerTo(
                "PROXY TCP4 " + client + " 127.0.0.1 40000 80",
                "GET /hello HTTP/1.1",
                "Host: localhost",
                "X-Forwarded-For: 203.0.113.9");
    }

    private static Rule.Builder behindAProxy() {
        return Rule.named("client")
                .key(KeySource.clientAddress(ClientAddress.ofXForwardedFor("127.0.0.0/8")))
                .limit(Limit.perMinute(1));
    }

    private void start(UnaryOperator<HttpServer> how, Rule.Builder rule) {
        service = Service.start(how, context -> beans(context, rule));
    }

    private void beans(AnnotationConfigApplicationContext context, Rule.Builder rule) {
        Service.filter(context, limiters.rules(rule));
        context.registerBean(Handlers.class);
    }

    @RestController
    static class Handlers {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }
    }
}
