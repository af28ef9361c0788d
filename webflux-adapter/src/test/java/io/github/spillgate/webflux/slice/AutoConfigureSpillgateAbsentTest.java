package io.github.spillgate.webflux.slice;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.RateLimiter;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webflux.test.autoconfigure.WebFluxTest;
import org.springframework.context.ApplicationContext;
import org.springframework.test.web.reactive.server.WebTestClient;

/** A slice without the annotation: controllers work without limits. */
@WebFluxTest(controllers = Reports.class, properties = "spillgate.redis.uri=redis://localhost:1")
class AutoConfigureSpillgateAbsentTest {

    @Autowired
    private WebTestClient client;

    @Autowired
    private ApplicationContext context;

    @Test
    void aSliceWithoutTheAnnotationLimitsNothing() {
        for (int i = 0; i < 5; i++) {
            client.get()
                    .uri("/report")
                    .exchange()
                    .expectStatus()
                    .isOk()
                    .expectHeader()
                    .doesNotExist("RateLimit");
        }
        assertThat(context.getBeanNamesForType(RateLimiter.class)).isEmpty();
    }
}
