package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpKeyContract;

class WebFluxHttpKeyTest extends HttpKeyContract {

    WebFluxHttpKeyTest() {
        super(new WebFluxHttpAdapter());
    }
}
