package io.github.spillgate.postgres;

import io.github.spillgate.AsyncCloseable;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.postgres.PostgresErrors.Step;
import io.github.spillgate.store.CompareAndWriteStore;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.Readable;
import io.r2dbc.spi.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * A store in PostgreSQL 14 or newer: decisions share a statement that reads rows, and one that writes those that have
 * not changed since, on the clock of the server.
 *
 * <p>All instances of a service that use the same table, namespace and limiter name share their counts. The table is
 * created at first use, and is unlogged by default: it is empty after a crash of the server, and limiters then restore
 * what they know.
 *
 * <p>The store opens its own connections at first use and keeps them; a connection pool in front of it has no use. It
 * needs {@code io.r2dbc:r2dbc-spi} and {@code org.postgresql:r2dbc-postgresql} on the class path.
 */
public final class PostgresStore extends CompareAndWriteStore implements AsyncCloseable {
    // Design notes.
    //
    // No lock is held between two round trips, because a process may stop there. Of each statement, all rows are read
    // before it counts as done: the server commits after the last one. So each is one round trip, also if the factory
    // has a fetch size.

    /** The version of the keys and values. Two versions that run side by side never misread each other's values. */
    private static final String FORMAT = "1";

    private static final int MOST_WAITING = 10_000;
    private static final byte[] NONE = {};
    private static final double NEARLY_FULL = 0.8;
    private static final Logger LOG = Loggers.getLogger(PostgresStore.class);

    private final String namespace;
    private final String table;
    private final boolean isCreated;
    private final Statements statements;
    private final Statements ofPublished;
    private final PostgresErrors errors;
    private final Connections connections;
    private final Sweeper sweeper;
    private final Mono<Void> closing;
    private final AtomicBoolean isWarned = new AtomicBoolean();

    private PostgresStore(Builder builder) {
        super(builder.connections, MOST_WAITING);
        namespace = builder.namespace;
        table = builder.table;
        isCreated = builder.isCreated;
        String quoted = Statements.quoted(table);
        statements = Statements.of(quoted, builder.isLogged, builder.change);
        ofPublished = statements.ofPublished(quoted, builder.change);
        errors = new PostgresErrors(quoted, statements.create());
        connections = new Connections(builder.connections, open(builder.factory), builder.timeout);
        sweeper = new Sweeper(toString(), this::sweep);
        closing = connections
                .close()
                .timeout(Duration.ofSeconds(2), Schedulers.parallel())
                .onErrorComplete()
                .publishOn(Schedulers.parallel())
                .doOnSubscribe(subscription -> sweeper.dispose())
                .cache();
    }

    /**
     * Returns a store with the default settings.
     *
     * @param factory the server, such as {@code
     *     ConnectionFactories.get("r2dbc:postgresql://user:password@host/database")}. The connections of a pool are not
     *     used, but the factory behind it
     * @return the store
     * @throws IllegalArgumentException if the factory is of another database
     */
    public static PostgresStore create(ConnectionFactory factory) {
        return builder(factory).build();
    }

    /**
     * Returns a builder of a store.
     *
     * @param uri the server, such as {@code r2dbc:postgresql://user:password@localhost/orders}
     * @return the builder
     * @throws IllegalArgumentException if the text is not the URI of a PostgreSQL, or its driver is not on the class
     *     path; the message contains no user, password or options
     */
    public static Builder builder(String uri) {
        return builder(PostgresUris.parse(uri));
    }

    /**
     * Returns a builder of a store.
     *
     * @param factory the server, such as {@code
     *     ConnectionFactories.get("r2dbc:postgresql://user:password@host/database")}. The connections of a pool are not
     *     used, but the factory behind it
     * @return the builder
     * @throws IllegalArgumentException if the factory is of another database
     */
    public static Builder builder(ConnectionFactory factory) {
        return new Builder(PostgresUris.unpooled(Checks.present(
                factory, "factory", "ConnectionFactories.get(\"r2dbc:postgresql://user:password@host/database\")")));
    }

    @Override
    protected Mono<Rows> read(List<String> keys) {
        sweeper.start();
        return run(Step.READ, connection -> read(connection, keys));
    }

    private Mono<Rows> read(Connection connection, List<String> keys) {
        return results(connection.createStatement(of(keys).read()).bind(0, named(keys)), row -> {
                    if (value(row, 4, Boolean.class)) {
                        throw errors.readOnly();
                    }
                    return row(row, keys);
                })
                .map(PostgresStore::all);
    }

    private static Rows row(Readable row, List<String> keys) {
        String value = row.get(1, String.class);
        Long version = row.get(2, Long.class);
        Row read = new Row(
                keys.get(value(row, 0, Long.class).intValue() - 1),
                value == null ? NONE : HexFormat.of().parseHex(value),
                version == null ? 0 : version);
        return new Rows(value(row, 3, Long.class), List.of(read));
    }

    /** Returns all of these rows, at the time of the last ones. */
    private static Rows all(List<Rows> some) {
        List<Row> rows = some.stream().flatMap(one -> one.rows().stream()).toList();
        return new Rows(some.get(some.size() - 1).micros(), rows);
    }

    /** Returns the statements on the table of rows. What is published is alone, in a table of its own. */
    private Statements of(List<String> keys) {
        return keys.get(0).equals(PUBLISHED) ? ofPublished : statements;
    }

    @Override
    protected Mono<Rows> write(List<Change> changes) {
        List<Write> writes =
                changes.stream().flatMap(change -> change.writes().stream()).toList();
        List<String> keys = writes.stream().map(Write::key).toList();
        if (writes.size() == 1 && writes.get(0).version() != 0) {
            return run(
                    Step.WRITE,
                    connection ->
                            update(connection, writes.get(0), changes.get(0).deadline()));
        }
        return run(Step.WRITE, connection -> {
            Statement statement = connection
                    .createStatement(of(keys).write())
                    .bind(0, named(keys))
                    .bind(1, column(writes, one -> HexFormat.of().formatHex(one.value()), String[]::new))
                    .bind(2, column(writes, Write::version, Long[]::new))
                    .bind(3, column(writes, Write::nextVersion, Long[]::new))
                    .bind(4, column(writes, Write::expiresAt, Long[]::new))
                    .bind(5, ofChanges(changes, i -> i, Integer[]::new))
                    .bind(6, ofChanges(changes, i -> changes.get(i).deadline(), Long[]::new));
            return results(statement, row -> written(connection, row, keys))
                    .flatMap(all -> all.get(0))
                    .onErrorResume(PostgresErrors::isUnwritten, error -> read(connection, keys));
        });
    }

    private Mono<Rows> update(Connection connection, Write write, long deadline) {
        Statement statement = connection
                .createStatement(of(List.of(write.key())).update())
                .bind(0, named(write.key()))
                .bind(1, HexFormat.of().formatHex(write.value()))
                .bind(2, write.version())
                .bind(3, write.nextVersion())
                .bind(4, write.expiresAt())
                .bind(5, deadline);
        return results(statement, row -> updated(row, write.key()))
                .flatMap(all -> all.isEmpty() || all.get(0).isEmpty()
                        ? readUnwritten(connection, List.of(write.key()))
                        : Mono.just(all.get(0).get()));
    }

    /** Returns the row unless it was written; empty if it is too long to be in the reply. */
    private static Optional<Rows> updated(Readable reply, String key) {
        long micros = value(reply, 0, Long.class);
        if (value(reply, 1, Boolean.class)) {
            return Optional.of(new Rows(micros, List.of()));
        }
        return Optional.ofNullable(reply.get(3, String.class)).map(value -> {
            Row row = new Row(key, HexFormat.of().parseHex(value), value(reply, 2, Long.class));
            return new Rows(micros, List.of(row));
        });
    }

    /** Returns the rows that were not written, which are read again. */
    private Mono<Rows> written(Connection connection, Readable reply, List<String> keys) {
        Long[] unwritten = reply.get(1, Long[].class);
        return unwritten == null
                ? Mono.just(new Rows(value(reply, 0, Long.class), List.of()))
                : readUnwritten(
                        connection,
                        Stream.of(unwritten)
                                .map(n -> keys.get(n.intValue() - 1))
                                .toList());
    }

    private Mono<Rows> readUnwritten(Connection connection, List<String> keys) {
        return read(connection, keys)
                // Other rows may have been written.
                .onErrorMap(error -> new LimitStoreException(
                        Kind.UNANSWERED,
                        String.valueOf(errors.translate(error, Step.READ).getMessage()),
                        error));
    }

    @Override
    protected Mono<Rows> renumber(Map<String, Long> nextVersions) {
        List<String> keys = List.copyOf(nextVersions.keySet());
        return run(Step.READ, connection -> {
            Statement statement = connection
                    .createStatement(of(keys).renumber())
                    .bind(0, named(keys))
                    .bind(1, column(keys, nextVersions::get, Long[]::new));
            return results(statement, row -> row(row, keys)).flatMap(some -> withOthers(connection, some, keys));
        });
    }

    /** Returns these rows, and those of other keys, which are read. */
    private Mono<Rows> withOthers(Connection connection, List<Rows> some, List<String> keys) {
        List<String> others = new ArrayList<>(keys);
        some.forEach(one -> others.remove(one.rows().get(0).key()));
        return others.isEmpty()
                ? Mono.just(all(some))
                : read(connection, others)
                        .map(read -> all(
                                Stream.concat(some.stream(), Stream.of(read)).toList()));
    }

    private String[] named(List<String> keys) {
        return column(keys, this::named, String[]::new);
    }

    private String named(String key) {
        return namespace + "/" + FORMAT + "/" + key;
    }

    private static <T, R> R[] column(List<T> rows, Function<T, R> value, IntFunction<R[]> array) {
        return rows.stream().map(value).toArray(array);
    }

    /** Returns for each row the value for the number of its change. */
    private static <R> R[] ofChanges(List<Change> changes, IntFunction<R> value, IntFunction<R[]> array) {
        return IntStream.range(0, changes.size())
                .boxed()
                .flatMap(i -> Collections.nCopies(changes.get(i).writes().size(), value.apply(i)).stream())
                .toArray(array);
    }

    private Mono<Long> sweep(String from, String to) {
        return run(
                Step.WRITE,
                connection -> results(
                                connection
                                        .createStatement(statements.sweep())
                                        .bind(0, from)
                                        .bind(1, to),
                                row -> value(row, 0, Long.class))
                        .map(all -> all.get(0)));
    }

    private Mono<Connection> open(ConnectionFactory factory) {
        return Mono.defer(() -> Mono.<Connection>from(factory.create()))
                .flatMap(connection ->
                        check(connection).thenReturn(connection).doOnError(error -> Connections.discard(connection)))
                .onErrorMap(error -> errors.translate(error, Step.CONNECT));
    }

    /** Checks the server of a new connection, and creates the table if it is missing. */
    private Mono<Void> check(Connection connection) {
        return results(connection.createStatement(statements.check()), row -> {
                    int version = value(row, 0, Integer.class);
                    if (PostgresErrors.isTooOld(version)) {
                        throw errors.tooOld(version);
                    }
                    warnIfNearlyFull(value(row, 2, Integer.class), value(row, 3, Integer.class));
                    return value(row, 1, Boolean.class);
                })
                .flatMap(all -> {
                    if (!all.get(0)) {
                        return Mono.empty();
                    }
                    return isCreated ? create(connection) : Mono.error(errors.noTable());
                });
    }

    /** Warns, once: another instance may get no connection. */
    private void warnIfNearlyFull(int used, int most) {
        if (used > most * NEARLY_FULL && isWarned.compareAndSet(false, true)) {
            LOG.warn(
                    "{}: {} of {} connections of the server are in use: expected a higher max_connections, or fewer"
                            + " connections of each instance, for example .connections(1)",
                    this,
                    used,
                    most);
        }
    }

    private Mono<Void> create(Connection connection) {
        return results(connection.createStatement(statements.lockAndCreate()), row -> "")
                .then();
    }

    private <T> Mono<T> run(Step step, Function<Connection, Mono<T>> statement) {
        return connections.run(statement).onErrorMap(error -> errors.translate(error, step));
    }

    private static <T> Mono<List<T>> results(Statement statement, Function<Readable, T> row) {
        return Flux.from(statement.fetchSize(0).execute())
                .concatMap(result -> result.map(row))
                .collectList();
    }

    private static <T> T value(Readable row, int column, Class<T> type) {
        return Objects.requireNonNull(row.get(column, type));
    }

    /** {@inheritDoc} Waits for at most 2 s until its connections are closed. */
    @Override
    public Mono<Void> closeLater() {
        return closing;
    }

    @Override
    protected Source source() {
        return Source.POSTGRES;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "PostgresStore[" + table + "/" + namespace + "]";
    }

    /** Builder of a {@link PostgresStore}. Not thread-safe. */
    public static final class Builder {

        private static final Pattern NAMESPACE = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
        private static final Pattern TABLE = Pattern.compile("([a-z_][a-z0-9_]{0,62}\\.)?(?!sg_)[a-z_][a-z0-9_]{0,52}");
        private static final Duration SHORTEST_TIMEOUT = Duration.ofMillis(10);
        private static final Duration LONGEST_TIMEOUT = Duration.ofMinutes(1);
        private static final int MOST_CONNECTIONS = 8;

        private final ConnectionFactory factory;
        private String namespace = "spillgate";
        private String table = Statements.TABLE;
        private boolean isLogged;
        private boolean isCreated = true;
        private int connections = 3;
        private Duration timeout = Duration.ofSeconds(1);
        private UnaryOperator<String> change = UnaryOperator.identity();

        private Builder(ConnectionFactory factory) {
            this.factory = factory;
        }

        /**
         * Sets the namespace, the prefix of all keys in the table; {@code spillgate} by default. Stores with different
         * namespaces can use one table without sharing counts.
         *
         * @param namespace 1 to 64 of the characters {@code A-Z a-z 0-9 . _ : -}
         * @return this builder
         * @throws IllegalArgumentException if the namespace is empty, too long or has other characters
         */
        public Builder namespace(String namespace) {
            Checks.present(namespace, "namespace", "\"shop:prod\"");
            if (!NAMESPACE.matcher(namespace).matches()) {
                throw new IllegalArgumentException("namespace " + Text.quote(namespace)
                        + " has other characters or another length: expected 1 to 64 of the characters A-Z a-z 0-9 . _"
                        + " : -, for example \"shop:prod\"");
            }
            this.namespace = namespace;
            return this;
        }

        /**
         * Sets the name of the table, with or without that of its schema; {@code spillgate_counts} by default, in the
         * first schema of the search path.
         *
         * @param table lower-case letters, digits and underscores, such as {@code limits.spillgate_counts}
         * @return this builder
         * @throws IllegalArgumentException if it is another name
         */
        public Builder table(String table) {
            Checks.present(table, "table", "\"limits.spillgate_counts\"");
            if (!TABLE.matcher(table).matches()) {
                throw new IllegalArgumentException("table " + Text.quote(table)
                        + " is too long, has other characters or begins with sg_: expected lower-case letters, digits"
                        + " and underscores, with or without a schema, for example \"limits.spillgate_counts\"");
            }
            this.table = table;
            return this;
        }

        /**
         * Sets whether the table survives a crash of the server, and a failover to a standby; it does not by default.
         * Then each write waits for the disk. This has an effect only when the store creates the table.
         *
         * @param logged true for a table with a write-ahead log
         * @return this builder
         */
        public Builder logged(boolean logged) {
            this.isLogged = logged;
            return this;
        }

        /**
         * Sets whether the store creates the table if it does not exist; it does by default. Otherwise, create it from
         * {@code io/github/spillgate/postgres/schema.sql}, which is in this artifact.
         *
         * @param createTable false if the store must not create it
         * @return this builder
         */
        public Builder createTable(boolean createTable) {
            this.isCreated = createTable;
            return this;
        }

        /**
         * Sets the number of connections; 3 by default. Each of them executes one batch at a time, of up to 64 keys.
         *
         * @param connections the number, 1 to 8
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder connections(int connections) {
            if (connections < 1 || connections > MOST_CONNECTIONS) {
                throw new IllegalArgumentException("connections " + connections + " is out of range: expected 1 to "
                        + MOST_CONNECTIONS + ", for example 3");
            }
            this.connections = connections;
            return this;
        }

        /**
         * Sets the longest time for a statement, and for the wait for its connection; 1 s by default. After that the
         * connection is closed. The deadline of a decision is set on the limiter, and is shorter.
         *
         * @param timeout 10 ms to a minute
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder timeout(Duration timeout) {
            Checks.present(timeout, "timeout", "Duration.ofSeconds(1)");
            if (timeout.compareTo(SHORTEST_TIMEOUT) < 0 || timeout.compareTo(LONGEST_TIMEOUT) > 0) {
                throw new IllegalArgumentException("timeout " + timeout
                        + " is out of range: expected at least 10 ms and at most a minute, for example 1 s");
            }
            this.timeout = timeout;
            return this;
        }

        /** Changes the text of the statements, so that a test can set their clock. */
        Builder statements(UnaryOperator<String> change) {
            this.change = change;
            return this;
        }

        /**
         * Returns the store. Nothing is sent to PostgreSQL yet.
         *
         * @return the store
         */
        public PostgresStore build() {
            return new PostgresStore(this);
        }
    }
}
