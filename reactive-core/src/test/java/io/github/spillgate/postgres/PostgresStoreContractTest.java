package io.github.spillgate.postgres;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.PostgresForTests;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;

class PostgresStoreContractTest extends LimitStoreContract {

    private static final PostgresStore STORE = PostgresStore.builder(
                    PostgresForTests.shared().factory())
            .namespace("contract")
            .timeout(Duration.ofSeconds(30))
            .build();

    @Override
    protected LimitStore store() {
        return STORE;
    }

    @AfterAll
    static void close() {
        STORE.closeLater().block(Duration.ofSeconds(10));
    }
}
