package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpBypassContract;

class WebFluxHttpBypassTest extends HttpBypassContract {

    WebFluxHttpBypassTest() {
        super(new WebFluxHttpAdapter());
    }
}
