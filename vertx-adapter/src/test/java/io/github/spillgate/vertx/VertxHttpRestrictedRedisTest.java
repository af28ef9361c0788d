package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpRestrictedRedisContract;

class VertxHttpRestrictedRedisTest extends HttpRestrictedRedisContract {

    VertxHttpRestrictedRedisTest() {
        super(new VertxHttpAdapter());
    }
}
