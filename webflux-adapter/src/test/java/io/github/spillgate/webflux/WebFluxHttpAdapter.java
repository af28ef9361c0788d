package io.github.spillgate.webflux;

import io.github.spillgate.Decision;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.testkit.HttpAdapter;
import io.github.spillgate.testkit.RunningWork;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.annotation.Order;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferFactory;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.CrossOrigin;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestMethod;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.reactive.socket.WebSocketHandler;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** WebFlux for the HTTP contract. */
final class WebFluxHttpAdapter implements HttpAdapter {

    private final Function<Consumer<AnnotationConfigApplicationContext>, Service> start;
    private final boolean isReactorNetty;

    /** Creates an adapter on Reactor Netty. */
    WebFluxHttpAdapter() {
        this(Service::startWithHttp2, true);
    }

    private WebFluxHttpAdapter(
            Function<Consumer<AnnotationConfigApplicationContext>, Service> start, boolean isReactorNetty) {
        this.start = start;
        this.isReactorNetty = isReactorNetty;
    }

    static WebFluxHttpAdapter onTomcat() {
        return new WebFluxHttpAdapter(Service::startOnTomcat, false);
    }

    @Override
    public boolean hasWebSockets() {
        return isReactorNetty;
    }

    @Override
    public boolean cancelsOnOneThread() {
        return isReactorNetty;
    }

    @Override
    public PathSyntax syntax() {
        return PathPatterns.ofSpring();
    }

    @Override
    public String pattern(String pattern) {
        return pattern;
    }

    @Override
    public Server start(Setup setup) {
        Service service = start.apply(context -> beans(context, setup));
        return new Server() {

            @Override
            public int port() {
                return service.port();
            }

            @Override
            public void close() {
                service.close();
            }
        };
    }

    private static void beans(AnnotationConfigApplicationContext context, Setup setup) {
        Service.filters(context, RateLimitResponses.standard().headers(setup.headers()), setup.rules());
        context.registerBean(Authentication.class);
        context.registerBean(Handlers.class, () -> new Handlers(setup.handled(), setup.work()));
        WebSocketHandler echo = session -> session.send(
                        session.receive().map(message -> session.textMessage(message.getPayloadAsText())))
                .doFirst(setup.work()::begin)
                .doFinally(end -> setup.work().end());
        context.registerBean(HandlerMapping.class, () -> new SimpleUrlHandlerMapping(Map.of("/socket", echo), -1));
    }

    @Order(-100)
    static class Authentication implements WebFilter {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
            String user = exchange.getRequest().getHeaders().getFirst("X-User");
            return chain.filter(
                    user == null
                            ? exchange
                            : exchange.mutate().principal(Mono.just(() -> user)).build());
        }
    }

    @RestController
    static class Handlers {

        private final Runnable handled;
        private final RunningWork work;

        Handlers(Runnable handled, RunningWork work) {
            this.handled = handled;
            this.work = work;
        }

        @RequestMapping(
                path = "/hello",
                method = {RequestMethod.GET, RequestMethod.POST})
        Mono<String> hello() {
            handled.run();
            return Mono.just("hello");
        }

        @PostMapping("/echo")
        Mono<String> echo(@RequestBody(required = false) Flux<DataBuffer> body) {
            handled.run();
            return DataBufferUtils.join(body)
                    .map(Handlers::bytes)
                    .defaultIfEmpty(new byte[0])
                    .map(HttpAdapter::echo);
        }

        private static byte[] bytes(DataBuffer buffer) {
            byte[] bytes = new byte[buffer.readableByteCount()];
            buffer.read(bytes);
            DataBufferUtils.release(buffer);
            return bytes;
        }

        @GetMapping("/status/{code}")
        Mono<ResponseEntity<Void>> status(@PathVariable int code) {
            handled.run();
            return Mono.just(ResponseEntity.status(HttpStatusCode.valueOf(code)).build());
        }

        @GetMapping("/items/{id}")
        Mono<String> item(@PathVariable String id) {
            handled.run();
            return Mono.just("item " + id);
        }

        @GetMapping("/own")
        Mono<String> own(ServerWebExchange exchange) {
            handled.run();
            exchange.getResponse().getHeaders().set("X-RateLimit-Limit", OWN);
            return Mono.just("own");
        }

        @CrossOrigin(exposedHeaders = "X-Own")
        @GetMapping("/open")
        Mono<String> open() {
            handled.run();
            return Mono.just("open");
        }

        @GetMapping("/cost/{cost}")
        Mono<String> cost(@PathVariable long cost, ServerWebExchange exchange) {
            handled.run();
            RateLimitResponses.cost(exchange, cost);
            return Mono.just("costs " + cost);
        }

        @GetMapping(path = "/stream/{parts}", produces = "text/plain")
        Mono<Void> stream(@PathVariable int parts, ServerWebExchange exchange) {
            handled.run();
            DataBufferFactory buffers = exchange.getResponse().bufferFactory();
            return exchange.getResponse()
                    .writeAndFlushWith(Flux.range(1, parts)
                            .delayElements(Duration.ofMillis(1))
                            .doOnNext(part -> RateLimitResponses.cost(exchange, "parts", part))
                            .map(part -> Mono.just(buffers.wrap(PART.getBytes(StandardCharsets.US_ASCII)))));
        }

        @GetMapping("/hold/{millis}")
        Mono<String> hold(@PathVariable long millis) {
            return Mono.delay(Duration.ofMillis(millis)).thenReturn("held").transform(this::counted);
        }

        @GetMapping(path = "/hold/stream", produces = "text/plain")
        Mono<Void> holdStream(ServerWebExchange exchange) {
            DataBufferFactory buffers = exchange.getResponse().bufferFactory();
            return exchange.getResponse()
                    .writeAndFlushWith(Flux.interval(Duration.ofMillis(1))
                            .onBackpressureDrop()
                            .map(part -> Mono.just(buffers.wrap(PART.getBytes(StandardCharsets.US_ASCII)))))
                    .transform(this::counted);
        }

        /** Counts work that runs. It ends before the server learns of its end. */
        private <T> Mono<T> counted(Mono<T> handled) {
            return Mono.defer(() -> {
                AtomicBoolean isRunning = new AtomicBoolean(true);
                Runnable end = () -> {
                    if (isRunning.compareAndSet(true, false)) {
                        work.end();
                    }
                };
                work.begin();
                return handled.doOnTerminate(end).doOnCancel(end);
            });
        }

        @PostMapping("/hold/upload")
        Mono<String> holdUpload(@RequestBody Flux<DataBuffer> body) {
            return body.map(Handlers::bytes).then(Mono.just("uploaded")).transform(this::counted);
        }

        @GetMapping("/failing")
        Mono<String> failing(ServerWebExchange exchange) {
            handled.run();
            RateLimitResponses.cost(exchange, 3);
            return Mono.error(new IllegalStateException("told to fail"));
        }

        @GetMapping("/decisions")
        Mono<ResponseEntity<String>> decisions(ServerWebExchange exchange) {
            handled.run();
            List<Decision> decisions = RateLimitResponses.decisions(exchange);
            return Mono.just(ResponseEntity.ok(HttpAdapter.text(decisions)));
        }
    }
}
