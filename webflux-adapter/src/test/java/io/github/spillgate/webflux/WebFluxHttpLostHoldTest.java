package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpLostHoldContract;

class WebFluxHttpLostHoldTest extends HttpLostHoldContract {

    WebFluxHttpLostHoldTest() {
        super(new WebFluxHttpAdapter());
    }
}
