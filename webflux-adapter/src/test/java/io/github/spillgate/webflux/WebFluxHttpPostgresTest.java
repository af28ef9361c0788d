package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpPostgresContract;

class WebFluxHttpPostgresTest extends HttpPostgresContract {

    WebFluxHttpPostgresTest() {
        super(new WebFluxHttpAdapter());
    }
}
