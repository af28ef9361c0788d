package io.github.spillgate.postgres;

import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryOptions;
import io.r2dbc.spi.Wrapped;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** Reads the URI of a server. The messages of its errors contain no user, password or options. */
final class PostgresUris {

    private static final String EXAMPLE = "r2dbc:postgresql://user:pass%40word@localhost:5432/orders";
    private static final Set<String> DRIVERS = Set.of("postgresql", "postgres");

    /** All that is shown: what follows may be a password, wherever it is misplaced. */
    private static final Pattern SCHEME = Pattern.compile("[a-z0-9:]{1,40}://");

    private PostgresUris() {}

    static ConnectionFactory parse(String uri) {
        Checks.present(uri, "uri", '"' + EXAMPLE + '"');
        ConnectionFactory factory;
        try {
            ConnectionFactoryOptions options = ConnectionFactoryOptions.parse(uri);
            if (!DRIVERS.contains(String.valueOf(options.getValue(ConnectionFactoryOptions.DRIVER)))
                    || String.valueOf(options.getRequiredValue(ConnectionFactoryOptions.HOST))
                            .isEmpty()) {
                throw new IllegalArgumentException("it is of another driver, or has no host");
            }
            factory = ConnectionFactories.find(options);
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("\"" + shown(uri) + "\" is not the URI of a PostgreSQL: expected one,"
                    + " with a user, a host, known options, and special characters in a password as %XX, for example "
                    + EXAMPLE);
        }
        if (factory == null) {
            throw new IllegalArgumentException("the driver of \"" + shown(uri)
                    + "\" is not on the class path: expected the dependency org.postgresql:r2dbc-postgresql");
        }
        return factory;
    }

    private static String shown(String uri) {
        Matcher scheme = SCHEME.matcher(uri);
        return scheme.lookingAt() ? scheme.group() + "…" : "…";
    }

    /**
     * Returns the factory behind a pool, or this one if there is no pool. Others that wrap it, for example for traces,
     * stay.
     *
     * @throws IllegalArgumentException if its database is not a PostgreSQL
     */
    static ConnectionFactory unpooled(ConnectionFactory factory) {
        String database = factory.getMetadata().getName();
        if (!database.equalsIgnoreCase("PostgreSQL")) {
            throw new IllegalArgumentException("factory is of the database " + Text.quote(database)
                    + ": expected one of PostgreSQL, for example ConnectionFactories.get(\"" + EXAMPLE + "\")");
        }
        ConnectionFactory server = factory;
        ConnectionFactory outer = factory;
        while (outer instanceof Wrapped<?> wrapped && wrapped.unwrap() instanceof ConnectionFactory inner) {
            server = isPool(outer) ? inner : server;
            outer = inner;
        }
        return server;
    }

    /** Returns whether it is a pool of r2dbc-pool, which need not be on the class path. */
    private static boolean isPool(ConnectionFactory factory) {
        return Stream.<Class<?>>iterate(factory.getClass(), Objects::nonNull, Class::getSuperclass)
                .anyMatch(type -> type.getName().equals("io.r2dbc.pool.ConnectionPool"));
    }
}
