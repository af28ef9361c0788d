package io.github.spillgate.examples.webflux;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleServer;
import java.io.Closeable;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.stream.Stream;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.http.client.ReactorResourceFactory;

/** The service with its own settings, on a free port, after its first decision by its store. */
final class Instance implements Closeable {

    private final ConfigurableApplicationContext context;

    private Instance(ConfigurableApplicationContext context) {
        this.context = context;
    }

    /**
     * Starts an instance.
     *
     * @param name the name of the limiter; instances with the same name share their counts
     * @param settings additional settings
     */
    static Instance on(ExampleServer server, String name, String... settings) {
        return on(server, new Traffic(), name, settings);
    }

    static Instance on(ExampleServer server, Traffic traffic, String name, String... settings) {
        Instance instance = new Instance(WebFluxService.on(server, traffic)
                .initializers(context -> context.getBeanFactory().registerSingleton("eventLoops", eventLoops()))
                .run(Stream.concat(
                                Stream.of(
                                        "--server.port=0",
                                        "--spillgate.name=" + name,
                                        // A busy machine must not cause fallbacks.
                                        "--spillgate.deadline=5s"),
                                Stream.of(settings))
                        .toArray(String[]::new)));
        instance.awaitDecisionsOf(server.product().equals("Redis") ? "REDIS" : "POSTGRES");
        return instance;
    }

    /** Creates separate event loops: the shared ones end with the first application that is closed. */
    private static ReactorResourceFactory eventLoops() {
        ReactorResourceFactory own = new ReactorResourceFactory();
        own.setUseGlobalResources(false);
        own.setShutdownQuietPeriod(Duration.ZERO);
        return own;
    }

    URI uri() {
        return URI.create("http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port"));
    }

    /**
     * Waits until this store decides, by reading the usage. Connecting may take longer than the deadline of a decision.
     */
    void awaitDecisionsOf(String source) {
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest usage = HttpRequest.newBuilder(uri().resolve(VatController.USAGE))
                .header("X-Api-Key", "free-key")
                .timeout(Duration.ofSeconds(30))
                .build();
        await().until(() ->
                client.send(usage, BodyHandlers.ofString()).body().startsWith("{\"source\":\"" + source + "\""));
    }

    @Override
    public void close() {
        context.close();
    }
}
