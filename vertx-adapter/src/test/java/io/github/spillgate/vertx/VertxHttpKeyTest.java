package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpKeyContract;

class VertxHttpKeyTest extends HttpKeyContract {

    VertxHttpKeyTest() {
        super(new VertxHttpAdapter());
    }
}
