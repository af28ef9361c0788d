package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.HttpBypassContract;
import io.github.spillgate.testkit.HttpConnectionContract;
import io.github.spillgate.testkit.HttpKeyContract;
import io.github.spillgate.testkit.HttpResponseContract;
import io.github.spillgate.testkit.HttpRuleContract;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisURI;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

/** The HTTP contract behind a proxy that refuses all commands except those that run scripts, and PING. */
@Thorough
class VertxHttpRestrictedRedisTest {

    private static CommandProxy proxy;

    @BeforeAll
    static void restrict() {
        proxy = new CommandProxy(RedisForTests.first().uri().getPort());
        proxy.answer(CommandProxy.only(Set.of("EVAL", "EVALSHA", "PING"), "ERR unknown command 'x'"));
    }

    @AfterAll
    static void close() {
        assertThat(proxy.calls("EVALSHA")).isPositive();
        proxy.close();
    }

    private static RedisURI redis() {
        return RedisURI.create("127.0.0.1", proxy.port());
    }

    @Nested
    class RestrictedBypass extends HttpBypassContract {

        RestrictedBypass() {
            super(new VertxHttpAdapter(), redis());
        }
    }

    @Nested
    class RestrictedConnection extends HttpConnectionContract {

        RestrictedConnection() {
            super(new VertxHttpAdapter(), redis());
        }
    }

    @Nested
    class RestrictedKey extends HttpKeyContract {

        RestrictedKey() {
            super(new VertxHttpAdapter(), redis());
        }
    }

    @Nested
    class RestrictedResponse extends HttpResponseContract {

        RestrictedResponse() {
            super(new VertxHttpAdapter(), redis());
        }
    }

    @Nested
    class RestrictedRule extends HttpRuleContract {

        RestrictedRule() {
            super(new VertxHttpAdapter(), redis());
        }
    }
}
