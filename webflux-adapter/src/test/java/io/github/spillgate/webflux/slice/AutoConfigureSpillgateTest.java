package io.github.spillgate.webflux.slice;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.webflux.autoconfigure.AutoConfigureSpillgate;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webflux.test.autoconfigure.WebFluxTest;
import org.springframework.context.annotation.Import;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.web.reactive.server.WebTestClient;

/** A slice with the limiter, in an application that has a Redis. Each test starts with empty counts. */
@WebFluxTest(
        controllers = Reports.class,
        properties = {
            "spillgate.redis.uri=redis://localhost:1",
            "spillgate.rules[0].name=ruled",
            "spillgate.rules[0].paths=/ruled",
            "spillgate.rules[0].key=constant:all",
            "spillgate.rules[0].limits=10/1h",
            "spillgate.rules[0].limits-from=plans"
        })
@AutoConfigureSpillgate
@Import(Plans.class)
@DirtiesContext(classMode = DirtiesContext.ClassMode.AFTER_EACH_TEST_METHOD)
class AutoConfigureSpillgateTest {

    @Autowired
    private WebTestClient client;

    @Autowired
    private LimitStore store;

    @Test
    void oneAnnotationLimitsByAnnotations() {
        get("/report")
                .expectStatus()
                .isOk()
                .expectHeader()
                .valueEquals("RateLimit-Policy", "\"Reports.report-1h\";q=2;w=3600");
        get("/report").expectStatus().isOk();
        get("/report").expectStatus().isEqualTo(429).expectHeader().exists("Retry-After");
    }

    @Test
    void andByRules() {
        get("/ruled").expectStatus().isOk();
        get("/ruled").expectStatus().isEqualTo(429);
    }

    @Test
    void theSliceUsesALocalStore() {
        assertThat(store).isInstanceOf(LocalStore.class);
    }

    private WebTestClient.ResponseSpec get(String path) {
        return client.get().uri(path).exchange();
    }
}
