package io.github.spillgate.webflux;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.testkit.ClientForTests;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.server.reactive.HttpHandler;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.http.server.reactive.TomcatHttpHandlerAdapter;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.config.EnableWebFlux;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.netty.DisposableServer;
import reactor.netty.http.HttpProtocol;
import reactor.netty.http.server.HttpServer;

/**
 * A WebFlux service without Spring Boot, on a real server and a random port, and a client of it that is not Spring's.
 */
final class Service implements AutoCloseable {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final AnnotationConfigApplicationContext context;
    private final int port;
    private final Runnable stop;
    private final ClientForTests client;

    private Service(AnnotationConfigApplicationContext context, int port, Runnable stop) {
        this.context = context;
        this.port = port;
        this.stop = stop;
        this.client = ClientForTests.of(port);
    }

    /** Starts a service of these beans. */
    static Service start(Consumer<AnnotationConfigApplicationContext> beans) {
        return start(HttpServer.create(), beans);
    }

    /** Starts a service of these beans that speaks HTTP/2 as well. */
    static Service startWithHttp2(Consumer<AnnotationConfigApplicationContext> beans) {
        return start(HttpServer.create().protocol(HttpProtocol.HTTP11, HttpProtocol.H2C), beans);
    }

    /** Starts a service of these beans on a server that is set up in another way. */
    static Service start(UnaryOperator<HttpServer> how, Consumer<AnnotationConfigApplicationContext> beans) {
        return start(how.apply(HttpServer.create()), beans);
    }

    private static Service start(HttpServer http, Consumer<AnnotationConfigApplicationContext> beans) {
        AnnotationConfigApplicationContext context = context(beans);
        DisposableServer server = http.host("127.0.0.1")
                .port(0)
                .handle(new ReactorHttpHandlerAdapter(handler(context)))
                .bindNow();
        return new Service(context, server.port(), () -> server.disposeNow(LONG));
    }

    /** Starts a service of these beans on Tomcat, with HTTP/2 as well. */
    static Service startOnTomcat(Consumer<AnnotationConfigApplicationContext> beans) {
        AnnotationConfigApplicationContext context = context(beans);
        TomcatForTests tomcat = TomcatForTests.start(new TomcatHttpHandlerAdapter(handler(context)));
        return new Service(context, tomcat.port(), tomcat::close);
    }

    private static AnnotationConfigApplicationContext context(Consumer<AnnotationConfigApplicationContext> beans) {
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        context.register(Web.class);
        beans.accept(context);
        context.refresh();
        return context;
    }

    private static HttpHandler handler(AnnotationConfigApplicationContext context) {
        return WebHttpHandlerBuilder.applicationContext(context).build();
    }

    /** The filters of both phases for these rules, which tell also what pages of other origins may read. */
    static void filters(AnnotationConfigApplicationContext context, RateLimitResponses responses, Rules rules) {
        RateLimitResponses withCors = responses.corsOf(
                () -> context.getBeansOfType(HandlerMapping.class).values());
        for (Phase phase : Phase.values()) {
            context.registerBean(
                    "rateLimit" + phase, RateLimitWebFilter.class, () -> RateLimitWebFilter.of(rules, phase, withCors));
        }
    }

    /** The filter before authentication for these rules. */
    static void filter(AnnotationConfigApplicationContext context, Rules rules) {
        filter(context, RateLimitResponses.standard(), rules);
    }

    static void filter(AnnotationConfigApplicationContext context, RateLimitResponses responses, Rules rules) {
        context.registerBean(
                RateLimitWebFilter.class, () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, responses));
    }

    /** The adapter of annotations, for which a client is the peer of its connection. */
    static void annotations(AnnotationConfigApplicationContext context, RateLimiter limiter) {
        context.registerBean(
                RateLimitedHandlerAdapter.class,
                () -> new RateLimitedHandlerAdapter(
                        limiter,
                        KeySyntax.of(ClientAddress.ofPeer()),
                        RateLimitResponses.standard(),
                        RuleInstrumentation.none(),
                        context.getBean(RequestMappingHandlerAdapter.class)));
    }

    <T> T bean(Class<T> type) {
        return context.getBean(type);
    }

    int port() {
        return port;
    }

    URI uri(String path) {
        return client.uri(path);
    }

    /** A request, to be sent with {@link #send}; header fields are a name and a value each. */
    HttpRequest.Builder request(String path, String... headers) {
        return client.request(path, headers);
    }

    HttpResponse<String> get(String path, String... headers) {
        return client.get(path, headers);
    }

    HttpResponse<String> post(String path, String body, String... headers) {
        return client.post(path, body, headers);
    }

    HttpResponse<String> send(HttpRequest.Builder request) {
        return client.send(request);
    }

    /** Asks for a path that no client would send, and returns how the response begins. */
    String statusLine(String path) {
        return client.statusLine(path);
    }

    /** Sends lines that no client would, and returns how the response begins. */
    String answerTo(String... lines) {
        return client.answerTo(lines);
    }

    CompletableFuture<HttpResponse<String>> sendLater(HttpRequest.Builder request) {
        return client.sendLater(request);
    }

    @Override
    public void close() {
        stop.run();
        context.close();
    }

    @Configuration
    @EnableWebFlux
    static class Web {}
}
