package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpBypassContract;

class VertxHttpBypassTest extends HttpBypassContract {

    VertxHttpBypassTest() {
        super(new VertxHttpAdapter());
    }
}
