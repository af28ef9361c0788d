package com.example.hello;

import io.github.spillgate.Limit;
import io.github.spillgate.vertx.RateLimitOptions;
import io.github.spillgate.vertx.RateLimitOptions.StoreType;
import io.github.spillgate.vertx.RateLimiting;
import io.github.spillgate.vertx.RuleOptions;
import io.vertx.core.Vertx;
import io.vertx.ext.web.Router;

public class Hello {

    public static void main(String[] args) {
        Vertx vertx = Vertx.vertx();
        RateLimitOptions options = new RateLimitOptions()
                .setName("hello")
                .setStore(StoreType.LOCAL)
                .addRule(new RuleOptions().setName("address").setPaths("/hello").setLimits(Limit.perMinute(3)));
        RateLimiting limiting = RateLimiting.of(vertx, options).start();

        Router router = Router.router(vertx);
        router.route().handler(limiting.handler());
        router.get("/hello").handler(ctx -> ctx.end("Hello\n"));
        vertx.createHttpServer().requestHandler(router).listen(8080).await();
    }
}
