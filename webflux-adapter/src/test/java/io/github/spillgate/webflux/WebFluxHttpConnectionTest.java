package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpConnectionContract;

class WebFluxHttpConnectionTest extends HttpConnectionContract {

    WebFluxHttpConnectionTest() {
        super(new WebFluxHttpAdapter());
    }
}
