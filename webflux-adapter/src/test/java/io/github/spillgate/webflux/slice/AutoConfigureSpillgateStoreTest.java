package io.github.spillgate.webflux.slice;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.autoconfigure.AutoConfigureSpillgate;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.StoreType;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webflux.test.autoconfigure.WebFluxTest;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** A slice with a test that asks for the store of the settings. */
@WebFluxTest(Reports.class)
@AutoConfigureSpillgate(store = StoreType.AUTO)
class AutoConfigureSpillgateStoreTest {

    @Autowired
    private LimitStore store;

    @DynamicPropertySource
    static void redis(DynamicPropertyRegistry settings) {
        settings.add(
                "spillgate.redis.uri", () -> RedisForTests.first().uri().toURI().toString());
    }

    @Test
    void theStoreCanBeThatOfTheSettings() {
        assertThat(store).isInstanceOf(RedisStore.class);
    }
}
