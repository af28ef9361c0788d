package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpHoldContract;

/** A server that is not Reactor Netty. */
class TomcatHttpHoldTest extends HttpHoldContract {

    TomcatHttpHoldTest() {
        super(WebFluxHttpAdapter.onTomcat());
    }
}
