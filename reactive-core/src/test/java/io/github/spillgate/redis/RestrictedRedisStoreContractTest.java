package io.github.spillgate.redis;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * The contract behind a proxy that knows no script by its digest, and refuses all commands except those that run
 * scripts and PING, which Lettuce sends.
 */
class RestrictedRedisStoreContractTest extends LimitStoreContract {

    private final CommandProxy proxy =
            new CommandProxy(RedisForTests.first().uri().getPort());
    private final RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", proxy.port()));
    private final RedisStore store = RedisStore.create(client);

    @BeforeEach
    void restrict() {
        proxy.answer(command -> switch (command) {
            case "EVAL", "PING" -> CommandProxy.PASS;
            case "EVALSHA" -> "NOSCRIPT No matching script.";
            default -> "ERR unknown command '" + command + "'";
        });
    }

    @AfterEach
    void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        proxy.close();
    }

    @Override
    protected LimitStore store() {
        return store;
    }
}
