package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.redis.ExampleServer;
import io.github.spillgate.testkit.PostgresForTests;
import org.jspecify.annotations.Nullable;

/** The PostgreSQL of the service: the one that {@code SPILLGATE_POSTGRES_URI} names, or else that of the tests. */
final class ExamplePostgres implements ExampleServer {

    private static final String VARIABLE = "SPILLGATE_POSTGRES_URI";

    private final String name;
    private final String uri;
    private final @Nullable PostgresForTests own;
    private volatile boolean isRunning = true;

    private ExamplePostgres(String name, String uri, @Nullable PostgresForTests own) {
        this.name = name;
        this.uri = uri;
        this.own = own;
    }

    static ExamplePostgres open() {
        String named = System.getenv(VARIABLE);
        if (named != null && !named.isBlank()) {
            return new ExamplePostgres("the server of " + VARIABLE, named, null);
        }
        PostgresForTests own = PostgresForTests.startOwn();
        return new ExamplePostgres("a server of the tests, " + own.uri(), own.uri(), own);
    }

    @Override
    public String product() {
        return "PostgreSQL";
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String setting() {
        return "spillgate.postgres.uri";
    }

    @Override
    public String uri() {
        return uri;
    }

    @Override
    public boolean isOurs() {
        return own != null;
    }

    @Override
    public boolean isRunning() {
        return isRunning;
    }

    @Override
    public void stop() {
        PostgresForTests own = own("stopped");
        if (isRunning) {
            own.kill();
            isRunning = false;
        }
    }

    @Override
    public void start() {
        PostgresForTests own = own("started");
        if (!isRunning) {
            own.restart();
            isRunning = true;
        }
    }

    private PostgresForTests own(String what) {
        if (own == null) {
            throw new UnsupportedOperationException("PostgreSQL cannot be " + what + ": it is " + name
                    + ", which is yours; expected a server of the tests, for which " + VARIABLE + " must not be set");
        }
        return own;
    }

    @Override
    public void close() {
        if (own != null) {
            own.close();
        }
    }
}
