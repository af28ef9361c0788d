package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpHoldContract;

class WebFluxHttpHoldTest extends HttpHoldContract {

    WebFluxHttpHoldTest() {
        super(new WebFluxHttpAdapter());
    }
}
