package io.github.spillgate.testkit;

import org.junit.jupiter.api.Nested;

/** The HTTP contract with counts in PostgreSQL: what depends on the store. */
public abstract class HttpPostgresContract {

    private final HttpAdapter counted;

    protected HttpPostgresContract(HttpAdapter adapter) {
        this.counted = adapter;
    }

    @Nested
    class PostgresCost extends HttpCostContract {

        PostgresCost() {
            super(counted, PostgresForTests.shared());
        }
    }

    @Nested
    @Thorough
    class PostgresHold extends HttpHoldContract {

        PostgresHold() {
            super(counted, PostgresForTests.shared());
        }
    }

    @Nested
    class PostgresResponse extends HttpResponseContract {

        PostgresResponse() {
            super(counted, PostgresForTests.shared());
        }
    }

    @Nested
    class PostgresRule extends HttpRuleContract {

        PostgresRule() {
            super(counted, PostgresForTests.shared());
        }
    }
}
