package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpResponseContract;

class WebFluxHttpResponseTest extends HttpResponseContract {

    WebFluxHttpResponseTest() {
        super(new WebFluxHttpAdapter());
    }
}
