package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpConnectionContract;

class VertxHttpConnectionTest extends HttpConnectionContract {

    VertxHttpConnectionTest() {
        super(new VertxHttpAdapter());
    }
}
