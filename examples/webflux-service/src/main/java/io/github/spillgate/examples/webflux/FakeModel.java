package io.github.spillgate.examples.webflux;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.stereotype.Component;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;
import reactor.netty.http.server.HttpServerRequest;

/**
 * A stand-in for a language model: a server of its own on the loopback interface, which streams one word a line, and
 * its client. It stops when its client disconnects, as a real one does.
 */
@Component
final class FakeModel implements DisposableBean {

    private static final Duration PER_TOKEN = Duration.ofMillis(10);

    private final DisposableServer server = HttpServer.create()
            .host("127.0.0.1")
            .port(0)
            .route(routes -> routes.get(
                    "/generate/{tokens}",
                    (request, response) ->
                            response.sendString(words(tokens(request)).map(word -> word + "\n"), UTF_8)))
            .bindNow();

    private final WebClient client = WebClient.create("http://127.0.0.1:" + server.port());

    /** Returns the tokens of a completion, as the model generates them. */
    Flux<String> generate(int tokens) {
        return client.get().uri("/generate/{tokens}", tokens).retrieve().bodyToFlux(String.class);
    }

    private static int tokens(HttpServerRequest request) {
        return Integer.parseInt(request.param("tokens"));
    }

    private static Flux<String> words(int tokens) {
        return Flux.range(1, tokens)
                .concatMap(number -> Mono.just("word-" + number).delayElement(PER_TOKEN));
    }

    @Override
    public void destroy() {
        server.disposeNow();
    }
}
