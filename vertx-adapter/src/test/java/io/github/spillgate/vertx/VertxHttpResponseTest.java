package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpResponseContract;

class VertxHttpResponseTest extends HttpResponseContract {

    VertxHttpResponseTest() {
        super(new VertxHttpAdapter());
    }
}
