package io.github.spillgate.webflux;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;

/** A limiter on a real Redis, and the service that a test starts. */
abstract class ServiceFixture {

    final Limiters limiters = Limiters.onRedis();

    @Nullable
    Service service;

    @AfterEach
    void close() {
        if (service != null) {
            service.close();
        }
        limiters.close();
    }
}
