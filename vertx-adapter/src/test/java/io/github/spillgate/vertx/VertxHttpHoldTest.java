package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpHoldContract;

class VertxHttpHoldTest extends HttpHoldContract {

    VertxHttpHoldTest() {
        super(new VertxHttpAdapter());
    }
}
