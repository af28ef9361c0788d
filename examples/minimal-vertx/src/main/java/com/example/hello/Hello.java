package com.example.hello;

import io.github.spillgate.vertx.RateLimitOptions;
import io.github.spillgate.vertx.RateLimiting;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.Router;

public class Hello {

    public static void main(String[] args) {
        Vertx vertx = Vertx.vertx();
        JsonObject limits = vertx.fileSystem().readFileBlocking("limits.json").toJsonObject();
        RateLimiting limiting = RateLimiting.of(vertx, new RateLimitOptions(limits)).start();

        Router router = Router.router(vertx);
        router.route().handler(limiting.handler());
        router.get("/hello").handler(ctx -> ctx.end("Hello\n"));
        vertx.createHttpServer().requestHandler(router).listen(8080).await();
    }
}
