package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.webflux.PathPatterns;
import io.github.spillgate.webflux.RateLimitResponses;
import io.github.spillgate.webflux.RateLimitWebFilter;
import io.lettuce.core.RedisClient;
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
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/**
 * A WebFlux server, and a client of it: each decision is a request. What is before its handler, which says hello, makes the
 * difference.
 */
final class WebFlux implements Contender {

    private static final String KEY = "X-Api-Key";
    private static final byte[] HELLO = "hello".getBytes(StandardCharsets.US_ASCII);
    private static final int CONNECTIONS = 256;
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final DisposableServer server;
    private final ConnectionProvider connections = ConnectionProvider.create("benchmark", CONNECTIONS);
    private final HttpClient client;
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
        client = HttpClient.create(connections).baseUrl("http://127.0.0.1:" + server.port());
    }

    private static Mono<Void> hello(ServerWebExchange exchange) {
        ServerHttpResponse response = exchange.getResponse();
        return response.writeWith(
                Mono.fromSupplier(() -> response.bufferFactory().wrap(HELLO)).cast(DataBuffer.class));
    }

    /** Nothing is before it. */
    static WebFlux unfiltered(Setting setting) {
        return new WebFlux(List.of(), () -> {});
    }

    static WebFlux local(Setting setting) {
        return ours(setting, LocalStore.bounded(100_000), () -> {});
    }

    static WebFlux inRedis(Setting setting) {
        RedisClient redis = RedisClient.create(setting.uri());
        RedisStore store = RedisStore.create(redis);
        store.prepare().block(PATIENCE);
        return ours(setting, store, redis::shutdown);
    }

    private static WebFlux ours(Setting setting, LimitStore store, Runnable close) {
        Rate rate = setting.onlyRate();
        RateLimiter.Builder builder = RateLimiter.builder("benchmark").store(store);
        if (store.deadline().isEmpty()) {
            // So that nothing but Redis decides.
            builder.deadline(PATIENCE);
        }
        RateLimiter limiter = builder.build();
        Rule rule = Rule.named("benchmark")
                .paths("/**")
                .key(KeySource.header(KEY))
                .limit(Limit.of(rate.permits(), rate.window()))
                .build();
        Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(rule));
        WebFilter filter = RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard());
        return new WebFlux(List.of(filter), () -> {
            limiter.closeLater().block(PATIENCE);
            close.run();
        });
    }

    /** Spring Cloud Gateway's limiter, asked as its filter asks it: that cannot be had without a gateway. */
    static WebFlux gateway(Setting setting) {
        SpringGateway gateway = new SpringGateway(setting);
        WebFilter filter = (exchange, chain) -> {
            String key = exchange.getRequest().getHeaders().getFirst(KEY);
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

    @Override
    public void decide(String key, Answer answer) {
        OneAnswer.of(
                client.headers(headers -> headers.set(KEY, key))
                        .get()
                        .uri("/")
                        .responseSingle((response, body) ->
                                body.thenReturn(response.status().code())),
                answer,
                WebFlux::tell);
    }

    private static void tell(int status, Answer told) {
        if (status == HttpStatus.OK.value() || status == HttpStatus.TOO_MANY_REQUESTS.value()) {
            told.decided(status == HttpStatus.OK.value());
        } else {
            told.failed(new IllegalStateException("the server has answered with " + status));
        }
    }

    @Override
    public void close() {
        server.disposeNow(PATIENCE);
        connections.disposeLater().block(PATIENCE);
        close.run();
    }
}
