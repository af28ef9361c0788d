package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpCostContract;

class WebFluxHttpCostTest extends HttpCostContract {

    WebFluxHttpCostTest() {
        super(new WebFluxHttpAdapter());
    }
}
