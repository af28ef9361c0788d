package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import io.lettuce.core.RedisURI;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

/** The HTTP contract behind a proxy that refuses all commands except those that run scripts, and PING. */
@Thorough
public abstract class HttpRestrictedRedisContract {

    private static CommandProxy proxy;

    private final HttpAdapter restricted;

    protected HttpRestrictedRedisContract(HttpAdapter adapter) {
        this.restricted = adapter;
    }

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
            super(restricted, redis());
        }
    }

    @Nested
    class RestrictedConnection extends HttpConnectionContract {

        RestrictedConnection() {
            super(restricted, redis());
        }
    }

    @Nested
    class RestrictedKey extends HttpKeyContract {

        RestrictedKey() {
            super(restricted, redis());
        }
    }

    @Nested
    class RestrictedResponse extends HttpResponseContract {

        RestrictedResponse() {
            super(restricted, redis());
        }
    }

    @Nested
    class RestrictedRule extends HttpRuleContract {

        RestrictedRule() {
            super(restricted, redis());
        }
    }
}
