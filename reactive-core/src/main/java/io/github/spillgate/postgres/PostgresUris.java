package io.github.spillgate.postgres;

import io.github.spillgate.internal.Checks;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryOptions;
import io.r2dbc.spi.Wrapped;
import java.util.Set;
import java.util.regex.Pattern;

/** Reads the URI of a server. The messages of its errors contain no user, password or options. */
final class PostgresUris {

    private static final String EXAMPLE = "r2dbc:postgresql://user:pass%40word@localhost:5432/orders";
    private static final Set<String> DRIVERS = Set.of("postgresql", "postgres");

    /** The scheme and everything up to the last @, which may be a password, across line breaks. */
    private static final Pattern BEFORE_HOST = Pattern.compile("^(r2dbc:[a-z:]+://)?.*@", Pattern.DOTALL);

    private static final Pattern OPTIONS = Pattern.compile("\\?.*", Pattern.DOTALL);

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
                    + " with special characters in a password as %XX, for example " + EXAMPLE);
        }
        if (factory == null) {
            throw new IllegalArgumentException("the driver of \"" + shown(uri)
                    + "\" is not on the class path: expected the dependency org.postgresql:r2dbc-postgresql");
        }
        return factory;
    }

    private static String shown(String uri) {
        return OPTIONS.matcher(BEFORE_HOST.matcher(uri).replaceFirst("$1…@")).replaceFirst("?…");
    }

    /** Returns the factory of a server, without a pool around it. */
    static ConnectionFactory unwrapped(ConnectionFactory factory) {
        return factory instanceof Wrapped<?> wrapped && wrapped.unwrap() instanceof ConnectionFactory inner
                ? unwrapped(inner)
                : factory;
    }
}
