package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpPostgresContract;

class VertxHttpPostgresTest extends HttpPostgresContract {

    VertxHttpPostgresTest() {
        super(new VertxHttpAdapter());
    }
}
