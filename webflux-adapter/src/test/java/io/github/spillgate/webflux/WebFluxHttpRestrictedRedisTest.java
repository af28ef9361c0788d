package io.github.spillgate.webflux;

import io.github.spillgate.testkit.HttpRestrictedRedisContract;

class WebFluxHttpRestrictedRedisTest extends HttpRestrictedRedisContract {

    WebFluxHttpRestrictedRedisTest() {
        super(new WebFluxHttpAdapter());
    }
}
