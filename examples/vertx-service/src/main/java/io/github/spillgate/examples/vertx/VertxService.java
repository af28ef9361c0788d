package io.github.spillgate.examples.vertx;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.vertx.FutureSources;
import io.github.spillgate.vertx.RateLimitOptions;
import io.github.spillgate.vertx.RateLimiting;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.json.JsonObject;
import java.io.IOException;

/** The service: one limiter, shared by as many verticles as there are processors. */
public final class VertxService {

    private static final int LAST_PORT = 65_535;

    private final Vertx vertx;
    private final RateLimiting limiting;
    private final String verticles;
    private final int port;

    private VertxService(Vertx vertx, RateLimiting limiting, String verticles, int port) {
        this.vertx = vertx;
        this.limiting = limiting;
        this.verticles = verticles;
        this.port = port;
    }

    /** Starts the service on the Redis of the examples, and prints requests to try. */
    public static void main(String[] args) {
        try {
            run();
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // event loops would keep the JVM running
        }
    }

    private static void run() throws IOException {
        String port = System.getenv("SERVER_PORT");
        Integer wanted = port == null ? null : port(port);
        ExampleRedis redis = ExampleRedis.open();
        Vertx vertx = Vertx.vertx();
        JsonObject config = config(vertx);
        config.getJsonObject("limiter").getJsonObject("redis").put("uri", redis.uri());
        if (wanted != null) {
            config.put("port", wanted);
        }
        VertxService service = start(vertx, config).await();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            service.close().await();
            vertx.close().await();
            redis.close();
        }));
        printRequests(service.port(), redis.name());
    }

    static int port(String text) {
        try {
            int port = Integer.parseInt(text.strip());
            if (port >= 0 && port <= LAST_PORT) {
                return port;
            }
        } catch (NumberFormatException e) {
            // Reported below, like a number that is no port.
        }
        throw new IllegalArgumentException("SERVER_PORT is \"" + text + "\": expected a port from 0 to " + LAST_PORT
                + ", where 0 stands for any that is free, for example SERVER_PORT=8081");
    }

    static JsonObject config(Vertx vertx) {
        return vertx.fileSystem().readFileBlocking("config.json").toJsonObject();
    }

    static Future<VertxService> start(Vertx vertx, JsonObject config) {
        SimpleMeterRegistry metrics = new SimpleMeterRegistry();
        JsonObject customers = config.getJsonObject("customers");
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(config.getJsonObject("limiter")))
                // The customer of the API key. Ignore unknown keys: a client that invents keys would never be denied.
                .key("customer", FutureSources.key(ctx -> {
                    String apiKey = ctx.request().getHeader("X-Api-Key");
                    return Future.succeededFuture(apiKey == null ? null : customers.getString(apiKey));
                }))
                .listener(RuleMetrics.of(metrics))
                .start();
        Cache<String, String> links =
                Caffeine.newBuilder().maximumSize(config.getLong("links")).build();
        Promise<HttpServer> listening = Promise.promise();
        return vertx.deployVerticle(
                        () -> new Shortener(limiting, links, metrics::getMetersAsString, listening::tryComplete),
                        new DeploymentOptions()
                                .setConfig(config)
                                .setInstances(Math.max(2, Runtime.getRuntime().availableProcessors())))
                .map(id -> new VertxService(
                        vertx, limiting, id, listening.future().result().actualPort()))
                .onFailure(e -> limiting.close());
    }

    int port() {
        return port;
    }

    /** Stops accepting requests, then closes the limiter, which may have permits to reconcile. */
    Future<Void> close() {
        return vertx.undeploy(verticles).eventually(limiting::close);
    }

    private static void printRequests(int port, String redis) {
        System.out.printf("""
            A URL shortener, at http://localhost:%1$s; its Redis is %2$s. Try:

              curl -i -d '{"url": "https://example.com/"}' localhost:%1$s/urls
                    The header fields show the remaining permits. Each address gets 10 a minute; request 11 is denied.

              curl -i -H 'X-Api-Key: key-of-ann' -d '{"url": "https://example.com/"}' localhost:%1$s/urls
                    Each customer with an API key has a separate limit of 10 a minute, from any address.

              curl -i localhost:%1$s/CODE
                    Follows a link, with the code from a response above. This is never limited.

              curl localhost:%1$s/health; curl localhost:%1$s/metrics
                    The store that decides now, and the number of decisions of each rule.

            Ctrl-C ends it.
            %n""", port, redis);
    }
}
