package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.vertx.RateLimitHandler;
import io.github.spillgate.vertx.RoutePaths;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.vertx.core.Context;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.http.HttpServer;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * A Vert.x server on all event loops, with a handler that responds with hello. Servers differ in what runs before the
 * handler.
 */
final class VertxWeb implements WebServer.Opened {

    /** All instances of the server share one free port, because they use the same negative number. */
    private static final int ANY_PORT = -1;

    private final Vertx vertx = Vertx.vertx();
    private final int port;
    private final Runnable close;

    private VertxWeb(List<Handler<RoutingContext>> handlers, Runnable close) {
        this.close = close;
        Queue<HttpServer> servers = new ConcurrentLinkedQueue<>();
        vertx.deployVerticle(
                        () -> context -> listen(handlers).onSuccess(servers::add),
                        new DeploymentOptions().setInstances(VertxOptions.DEFAULT_EVENT_LOOP_POOL_SIZE))
                .await();
        port = servers.element().actualPort();
    }

    private Future<HttpServer> listen(List<Handler<RoutingContext>> handlers) {
        Router router = Router.router(vertx);
        handlers.forEach(router.route()::handler);
        router.get("/").handler(ctx -> ctx.end("hello"));
        return vertx.createHttpServer().requestHandler(router).listen(ANY_PORT, "127.0.0.1");
    }

    /** Opens a server without a limiter. */
    static VertxWeb unhandled(Setting setting) {
        return new VertxWeb(List.of(), () -> {});
    }

    static VertxWeb local(Setting setting) {
        return ours(OneRule.local(setting, RoutePaths.ofVertx(), "/*"));
    }

    static VertxWeb inRedis(Setting setting) {
        return ours(OneRule.inRedis(setting, RoutePaths.ofVertx(), "/*"));
    }

    private static VertxWeb ours(OneRule rule) {
        return new VertxWeb(List.of(RateLimitHandler.create(rule.rules(), Phase.BEFORE_AUTHENTICATION)), rule::close);
    }

    /** Sends one EVALSHA for each request, and continues on the event loop of the request. */
    static VertxWeb evalsha(Setting setting) {
        EvalshaEach evalsha = EvalshaEach.alone(setting);
        Handler<RoutingContext> handler = ctx -> {
            Context context = ctx.vertx().getOrCreateContext();
            String key = ctx.request().getHeader(WebServer.KEY);
            evalsha.ask(key == null ? "" : key)
                    .subscribe(
                            taken -> context.runOnContext(now -> {
                                if (taken == 1) {
                                    ctx.next();
                                } else {
                                    ctx.fail(HttpResponseStatus.TOO_MANY_REQUESTS.code());
                                }
                            }),
                            error -> context.runOnContext(now -> ctx.fail(error)));
        };
        return new VertxWeb(List.of(handler), evalsha::close);
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public void close() {
        vertx.close().await();
        close.run();
    }
}
