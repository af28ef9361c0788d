package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpCostContract;

class VertxHttpCostTest extends HttpCostContract {

    VertxHttpCostTest() {
        super(new VertxHttpAdapter());
    }
}
