package io.github.spillgate.examples.benchmark.contender;

import io.r2dbc.pool.ConnectionPool;
import io.r2dbc.pool.ConnectionPoolConfiguration;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.Readable;
import io.r2dbc.spi.Statement;
import java.util.Objects;
import java.util.function.Function;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A hand-written sliding window counter on PostgreSQL: a transaction for each decision, by R2DBC and its pool. It
 * creates the row if there is none, locks it, and writes it if the request is allowed.
 */
final class LockingStatements implements Contender {

    private static final int CONNECTIONS = 10;
    private static final String TABLE = """
        CREATE UNLOGGED TABLE IF NOT EXISTS rate_limit (
          key text PRIMARY KEY, count bigint, prev_count bigint, window_start bigint, expires_at bigint)""";
    private static final String CREATE = """
        INSERT INTO rate_limit (key, count, prev_count, window_start, expires_at)
        VALUES ($1, 0, 0, $2, $3) ON CONFLICT (key) DO NOTHING""";
    private static final String LOCK =
            "SELECT count, prev_count, window_start FROM rate_limit WHERE key = $1 FOR UPDATE";
    private static final String WRITE = """
        INSERT INTO rate_limit (key, count, prev_count, window_start, expires_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (key) DO UPDATE SET count = $2, prev_count = $3, window_start = $4, expires_at = $5""";

    private final ConnectionPool pool;
    private final long permits;
    private final long window;

    LockingStatements(Setting setting) {
        permits = setting.onlyRate().permits();
        window = setting.onlyRate().window().toMillis();
        pool = new ConnectionPool(ConnectionPoolConfiguration.builder(ConnectionFactories.get(setting.r2dbcUri()))
                .initialSize(CONNECTIONS)
                .maxSize(CONNECTIONS)
                .build());
        Mono.usingWhen(pool.create(), connection -> execute(connection.createStatement(TABLE)), Connection::close)
                .block();
    }

    @Override
    public void decide(String key, Answer answer) {
        Mono<Boolean> decision = Mono.usingWhen(
                pool.create(),
                connection -> Mono.from(connection.beginTransaction())
                        .then(take(connection, key))
                        .flatMap(allowed ->
                                Mono.from(connection.commitTransaction()).thenReturn(allowed)),
                Connection::close);
        AnswerSubscriber.of(decision, answer, (allowed, receiver) -> receiver.decided(allowed));
    }

    private Mono<Boolean> take(Connection connection, String key) {
        long now = System.currentTimeMillis();
        return execute(connection
                        .createStatement(CREATE)
                        .bind(0, key)
                        .bind(1, now)
                        .bind(2, now + 2 * window))
                .then(row(connection.createStatement(LOCK).bind(0, key), Row::of))
                .map(row -> row.at(now, window))
                .flatMap(row -> row.fits(now, window, permits)
                        ? execute(connection
                                        .createStatement(WRITE)
                                        .bind(0, key)
                                        .bind(1, row.count + 1)
                                        .bind(2, row.previous)
                                        .bind(3, row.start)
                                        .bind(4, row.start + 2 * window))
                                .thenReturn(true)
                        : Mono.just(false));
    }

    private static Mono<Void> execute(Statement statement) {
        return Flux.from(statement.execute())
                .concatMap(result -> result.getRowsUpdated())
                .then();
    }

    private static <T> Mono<T> row(Statement statement, Function<Readable, T> read) {
        return Flux.from(statement.execute())
                .concatMap(result -> result.map(read))
                .single();
    }

    /** Adds BEGIN and COMMIT to the round trips of three statements. */
    @Override
    public CommandCalls.Sum sent(CommandCalls calls) {
        return calls.scripts().times(5 / 3.0);
    }

    @Override
    public void close() {
        pool.close().block();
    }

    /** The counts of the current window and of the one before. */
    private record Row(long count, long previous, long start) {

        static Row of(Readable row) {
            return new Row(number(row, 0), number(row, 1), number(row, 2));
        }

        private static long number(Readable row, int column) {
            return Objects.requireNonNull(row.get(column, Long.class));
        }

        Row at(long now, long window) {
            if (start + window > now) {
                return this;
            }
            return start + 2 * window > now ? new Row(0, count, start + window) : new Row(0, 0, now);
        }

        boolean fits(long now, long window, long permits) {
            double weight = 1 - (double) (now - start) / window;
            return previous * weight + count + 1 <= permits;
        }
    }
}
