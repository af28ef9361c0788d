package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpRuleContract;

class WebFluxHttpRuleTest extends HttpRuleContract {

    WebFluxHttpRuleTest() {
        super(new WebFluxHttpAdapter());
    }
}
