package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpLostHoldContract;

class VertxHttpLostHoldTest extends HttpLostHoldContract {

    VertxHttpLostHoldTest() {
        super(new VertxHttpAdapter());
    }
}
