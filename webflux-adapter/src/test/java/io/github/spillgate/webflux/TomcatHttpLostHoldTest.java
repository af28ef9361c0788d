package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpLostHoldContract;

/** A server that is not Reactor Netty. */
class TomcatHttpLostHoldTest extends HttpLostHoldContract {

    TomcatHttpLostHoldTest() {
        super(WebFluxHttpAdapter.onTomcat());
    }
}
