package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpCostContract;

/** A server that is not Reactor Netty. */
class TomcatHttpCostTest extends HttpCostContract {

    TomcatHttpCostTest() {
        super(WebFluxHttpAdapter.onTomcat());
    }
}
