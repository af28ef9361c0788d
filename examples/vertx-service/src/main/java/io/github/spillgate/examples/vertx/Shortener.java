package io.github.spillgate.examples.vertx;

import com.github.benmanes.caffeine.cache.Cache;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.vertx.RateLimitHealth;
import io.github.spillgate.vertx.RateLimiting;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpServer;
import io.vertx.core.json.DecodeException;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.RequestBody;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.healthchecks.HealthCheckHandler;
import java.net.URI;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The routes of the service, on one event loop. The limiter decides before a request body is read. */
final class Shortener extends VerticleBase {

    private static final long LONGEST_BODY = 4_096;
    private static final int BASE = 36;
    private static final long SMALLEST_CODE = Long.parseLong("10000000", BASE);

    private final RateLimiting limiting;
    private final Cache<String, String> links;
    private final Supplier<String> metrics;
    private final Consumer<HttpServer> listening;

    Shortener(
            RateLimiting limiting,
            Cache<String, String> links,
            Supplier<String> metrics,
            Consumer<HttpServer> listening) {
        this.limiting = limiting;
        this.links = links;
        this.metrics = metrics;
        this.listening = listening;
    }

    @Override
    public Future<?> start() {
        Router router = Router.router(vertx);
        router.route().handler(limiting.handler(Phase.BEFORE_AUTHENTICATION));
        router.post("/urls")
                .handler(BodyHandler.create(false).setBodyLimit(LONGEST_BODY))
                .handler(this::create);
        router.get("/health")
                .handler(HealthCheckHandler.create(vertx).register("limiter", RateLimitHealth.of(limiting.limiter())));
        router.get("/metrics")
                .handler(ctx -> ctx.response()
                        .putHeader("Content-Type", "text/plain; charset=utf-8")
                        .end(metrics.get()));
        router.get("/:code").handler(this::follow);
        int port = config().getInteger("port");
        // All instances listen on one port. Vert.x shares one free port among servers with the same negative number.
        return vertx.createHttpServer()
                .requestHandler(router)
                .listen(port == 0 ? -1 : port, "127.0.0.1")
                .onSuccess(listening::accept);
    }

    private void create(RoutingContext ctx) {
        String url = url(ctx.body());
        if (url == null || !isWeb(url)) {
            ctx.response().setStatusCode(400);
            ctx.json(new JsonObject()
                    .put(
                            "error",
                            "url is " + url + ": expected one of http or https, for example"
                                    + " {\"url\": \"https://example.com/\"}"));
            return;
        }
        String code = Long.toString(ThreadLocalRandom.current().nextLong(SMALLEST_CODE, SMALLEST_CODE * BASE), BASE);
        links.put(code, url);
        ctx.response().setStatusCode(201).putHeader("Location", "/" + code);
        ctx.json(new JsonObject().put("code", code).put("url", url));
    }

    private void follow(RoutingContext ctx) {
        String url = links.getIfPresent(ctx.pathParam("code"));
        if (url == null) {
            // No other route matches, so the response is 404.
            ctx.next();
        } else {
            ctx.redirect(url);
        }
    }

    private static @Nullable String url(RequestBody body) {
        try {
            Object json = body.isEmpty() ? null : Json.decodeValue(body.buffer());
            return json instanceof JsonObject object ? object.getString("url") : null;
        } catch (DecodeException e) {
            return null;
        }
    }

    private static boolean isWeb(String url) {
        try {
            URI uri = URI.create(url);
            return uri.getHost() != null && ("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()));
        } catch (IllegalArgumentException e) {
            return false;
        }
    }
}
