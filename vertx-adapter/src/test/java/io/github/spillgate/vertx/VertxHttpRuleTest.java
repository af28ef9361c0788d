package io.github.spillgate.vertx;

import io.github.spillgate.testkit.HttpRuleContract;

class VertxHttpRuleTest extends HttpRuleContract {

    VertxHttpRuleTest() {
        super(new VertxHttpAdapter());
    }
}
