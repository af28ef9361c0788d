package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.webflux.PathPatterns;
import io.github.spillgate.webflux.RateLimitResponses;
import io.github.spillgate.webflux.RateLimitWebFilter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.http.HttpStatus;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** A WebFlux server with a handler that responds with hello. Servers differ in what runs before the handler. */
final class WebFlux implements WebServer.Opened {

    private static final byte[] HELLO = "hello".getBytes(StandardCharsets.US_ASCII);
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final DisposableServer server;
    private final Runnable close;

    private WebFlux(List<WebFilter> filters, Runnable close) {
        this.close = close;
        server = HttpServer.create()
                .host("127.0.0.1")
                .port(0)
                .handle(new ReactorHttpHandlerAdapter(WebHttpHandlerBuilder.webHandler(WebFlux::hello)
                        .filters(all -> all.addAll(filters))
                        .build()))
                .bindNow();
    }

    private static Mono<Void> hello(ServerWebExchange exchange) {
        ServerHttpResponse response = exchange.getResponse();
        return response.writeWith(
                Mono.fromSupplier(() -> response.bufferFactory().wrap(HELLO)).cast(DataBuffer.class));
    }

    /** Opens a server without a limiter. */
    static WebFlux unfiltered(Setting setting) {
        return new WebFlux(List.of(), () -> {});
    }

    static WebFlux local(Setting setting) {
        return ours(OneRule.local(setting, PathPatterns.ofSpring(), "/**"));
    }

    static WebFlux inRedis(Setting setting) {
        return ours(OneRule.inRedis(setting, PathPatterns.ofSpring(), "/**"));
    }

    static WebFlux inRedisOfClient(Setting setting) {
        return ours(OneRule.inRedisOfClient(setting, PathPatterns.ofSpring(), "/**"));
    }

    private static WebFlux ours(OneRule rule) {
        WebFilter filter =
                RateLimitWebFilter.of(rule.rules(), Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard());
        return new WebFlux(List.of(filter), rule::close);
    }

    /** Calls the limiter of Spring Cloud Gateway like its filter, which needs a gateway. */
    static WebFlux gateway(Setting setting) {
        SpringGateway gateway = new SpringGateway(setting);
        WebFilter filter = (exchange, chain) -> {
            String key = exchange.getRequest().getHeaders().getFirst(WebServer.KEY);
            return gateway.ask(key == null ? "" : key).flatMap(decision -> {
                decision.getHeaders().forEach(exchange.getResponse().getHeaders()::add);
                if (decision.isAllowed()) {
                    return chain.filter(exchange);
                }
                exchange.getResponse().setStatusCode(HttpStatus.TOO_MANY_REQUESTS);
                return exchange.getResponse().setComplete();
            });
        };
        return new WebFlux(List.of(filter), gateway::close);
    }

    /** Calls Bucket4j in a filter. */
    static WebFlux bucket4j(Setting setting) {
        Bucket4j bucket4j = Bucket4j.unbatched(setting);
        WebFilter filter = (exchange, chain) -> {
            String key = exchange.getRequest().getHeaders().getFirst(WebServer.KEY);
            return Mono.fromFuture(bucket4j.ask(key == null ? "" : key)).flatMap(isAllowed -> {
                if (isAllowed) {
                    return chain.filter(exchange);
                }
                exchange.getResponse().setStatusCode(HttpStatus.TOO_MANY_REQUESTS);
                return exchange.getResponse().setComplete();
            });
        };
        return new WebFlux(List.of(filter), bucket4j::close);
    }

    @Override
    public int port() {
        return server.port();
    }

    @Override
    public void close() {
        server.disposeNow(TIMEOUT);
        close.run();
    }
}
