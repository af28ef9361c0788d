package io.github.spillgate.vertx;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.testkit.HttpAdapter;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpMethod;
import io.vertx.ext.auth.User;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.ext.web.handler.CorsHandler;
import io.vertx.ext.web.handler.SimpleAuthenticationHandler;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The service of {@link HttpAdapter} in Vert.x Web: several instances of a verticle, each on an event loop of its own.
 */
final class Service implements HttpAdapter.Server {

    private static final int INSTANCES = 3;

    /** Whichever port is free, one for all servers of one Vert.x that ask for this. */
    private static final int RANDOM_AND_SHARED = -1;

    private final Vertx vertx;
    private final int port;

    private Service(Vertx vertx, int port) {
        this.vertx = vertx;
        this.port = port;
    }

    static Service start(HttpAdapter.Setup setup) {
        Vertx vertx = Vertx.vertx();
        AtomicInteger port = new AtomicInteger();
        for (int i = 0; i < INSTANCES; i++) {
            join(vertx.deployVerticle(new Web(setup, port)));
        }
        return new Service(vertx, port.get());
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public void close() {
        join(vertx.close());
    }

    private static <T> T join(Future<T> future) {
        return future.toCompletionStage()
                .toCompletableFuture()
                .orTimeout(30, TimeUnit.SECONDS)
                .join();
    }

    private static final class Web extends VerticleBase {

        private final HttpAdapter.Setup setup;
        private final AtomicInteger port;

        Web(HttpAdapter.Setup setup, AtomicInteger port) {
            this.setup = setup;
            this.port = port;
        }

        @Override
        public Future<?> start() {
            return vertx.createHttpServer()
                    .requestHandler(router())
                    .listen(RANDOM_AND_SHARED, "127.0.0.1")
                    .onSuccess(server -> port.set(server.actualPort()));
        }

        private Router router() {
            Router router = Router.router(vertx);
            router.route("/open").handler(CorsHandler.create().addOrigin("*").exposedHeader("X-Own"));
            router.route()
                    .handler(limiting(Phase.BEFORE_AUTHENTICATION))
                    .handler(
                            SimpleAuthenticationHandler.create().authenticate(ctx -> Future.succeededFuture(user(ctx))))
                    .handler(limiting(Phase.AFTER_AUTHENTICATION));
            router.route("/hello")
                    .method(HttpMethod.GET)
                    .method(HttpMethod.HEAD)
                    .method(HttpMethod.POST)
                    .handler(ctx -> answer(ctx, "hello"));
            router.post("/echo").handler(BodyHandler.create(false)).handler(this::echo);
            router.get("/status/:code").handler(this::status);
            router.get("/items/:id").handler(ctx -> answer(ctx, "item " + ctx.pathParam("id")));
            router.get("/own").handler(this::own);
            router.get("/open").handler(ctx -> answer(ctx, "open"));
            router.get("/cost/:cost").handler(this::cost);
            router.get("/stream/:parts").handler(this::stream);
            router.get("/hold/stream").handler(this::holdStream);
            router.post("/hold/upload").handler(this::holdUpload);
            router.get("/hold/:millis").handler(this::hold);
            router.get("/socket").handler(this::socket);
            router.get("/failing").handler(this::failing);
            router.get("/decisions").handler(ctx -> answer(ctx, HttpAdapter.text(RateLimitHandler.decisions(ctx))));
            return router;
        }

        private RateLimitHandler limiting(Phase phase) {
            return RateLimitHandler.create(setup.rules(), phase)
                    .headers(setup.headers())
                    .preflights(false);
        }

        private static User user(RoutingContext ctx) {
            String name = ctx.request().getHeader("X-User");
            return name == null ? null : User.fromName(name);
        }

        private void echo(RoutingContext ctx) {
            byte[] body = ctx.body().buffer() == null
                    ? new byte[0]
                    : ctx.body().buffer().getBytes();
            answer(ctx, HttpAdapter.echo(body));
        }

        private void status(RoutingContext ctx) {
            ctx.response().setStatusCode(Integer.parseInt(ctx.pathParam("code")));
            answer(ctx, "");
        }

        private void own(RoutingContext ctx) {
            ctx.response().putHeader("X-RateLimit-Limit", HttpAdapter.OWN);
            answer(ctx, "own");
        }

        private void cost(RoutingContext ctx) {
            RateLimitHandler.cost(ctx, Long.parseLong(ctx.pathParam("cost")));
            answer(ctx, "costs " + ctx.pathParam("cost"));
        }

        private void stream(RoutingContext ctx) {
            setup.handled().run();
            int parts = Integer.parseInt(ctx.pathParam("parts"));
            AtomicInteger sent = new AtomicInteger();
            ctx.response().setChunked(true);
            vertx.setPeriodic(1, timer -> {
                if (ctx.response().closed() || sent.get() == parts) {
                    vertx.cancelTimer(timer);
                    ctx.response().end();
                    return;
                }
                RateLimitHandler.cost(ctx, "parts", sent.incrementAndGet());
                ctx.response().write(HttpAdapter.PART);
            });
        }

        /** Counts work that runs, and returns what ends it. */
        private Runnable beginWork(RoutingContext ctx) {
            AtomicBoolean isRunning = new AtomicBoolean(true);
            Runnable end = () -> {
                if (isRunning.compareAndSet(true, false)) {
                    setup.work().end();
                }
            };
            setup.work().begin();
            ctx.addEndHandler(ended -> end.run());
            return end;
        }

        private void hold(RoutingContext ctx) {
            Runnable end = beginWork(ctx);
            vertx.setTimer(1 + Long.parseLong(ctx.pathParam("millis")), timer -> {
                end.run();
                if (!ctx.response().closed()) {
                    ctx.response().end("held");
                }
            });
        }

        private void holdStream(RoutingContext ctx) {
            beginWork(ctx);
            ctx.response().setChunked(true);
            vertx.setPeriodic(1, timer -> {
                if (ctx.response().closed()) {
                    vertx.cancelTimer(timer);
                } else if (!ctx.response().writeQueueFull()) {
                    ctx.response().write(HttpAdapter.PART);
                }
            });
        }

        private void holdUpload(RoutingContext ctx) {
            Runnable end = beginWork(ctx);
            ctx.request().handler(part -> {}).endHandler(read -> {
                end.run();
                ctx.response().end("uploaded");
            });
        }

        private void socket(RoutingContext ctx) {
            setup.work().begin();
            ctx.request()
                    .toWebSocket()
                    .onSuccess(socket -> socket.textMessageHandler(socket::writeTextMessage)
                            .closeHandler(end -> setup.work().end()))
                    .onFailure(error -> setup.work().end());
        }

        private void failing(RoutingContext ctx) {
            setup.handled().run();
            RateLimitHandler.cost(ctx, 3);
            ctx.fail(new IllegalStateException("told to fail"));
        }

        private void answer(RoutingContext ctx, String text) {
            setup.handled().run();
            ctx.response().end(text);
        }
    }
}
