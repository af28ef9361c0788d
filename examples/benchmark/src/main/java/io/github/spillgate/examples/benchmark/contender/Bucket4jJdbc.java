package io.github.spillgate.examples.benchmark.contender;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.jdbc.PrimaryKeyMapper;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.postgresql.Bucket4jPostgreSQL;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Bucket4j on PostgreSQL, by JDBC on a pool of HikariCP. It locks the row of a key, which takes a round trip less than
 * its advisory locks. Its table is as in its documentation, but unlogged. Each decision blocks one of as many threads
 * as there are connections: more would only wait for a connection.
 */
final class Bucket4jJdbc implements Contender {

    private static final int CONNECTIONS = 10;

    private final HikariDataSource pool;
    private final ProxyManager<String> manager;
    private final BucketConfiguration configuration;
    private final ExecutorService threads = Executors.newFixedThreadPool(CONNECTIONS);

    Bucket4jJdbc(Setting setting) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(setting.jdbcUri());
        config.setMaximumPoolSize(CONNECTIONS);
        pool = new HikariDataSource(config);
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE UNLOGGED TABLE IF NOT EXISTS bucket (id text PRIMARY KEY, state bytea)");
        } catch (SQLException e) {
            throw new IllegalStateException("the table of Bucket4j cannot be created", e);
        }
        manager = Bucket4jPostgreSQL.selectForUpdateBasedBuilder(pool)
                .primaryKeyMapper(PrimaryKeyMapper.STRING)
                .build();
        configuration = Bucket4j.configuration(setting);
    }

    @Override
    public void decide(String key, Answer answer) {
        Futures.deliver(
                CompletableFuture.supplyAsync(
                        () -> manager.getProxy(key, () -> configuration).tryConsume(1), threads),
                answer);
    }

    /** Adds COMMIT to the round trips of two statements. BEGIN is sent with the first of them. */
    @Override
    public CommandCalls.Sum sent(CommandCalls calls) {
        return calls.scripts().times(3 / 2.0);
    }

    @Override
    public void close() {
        threads.shutdown();
        pool.close();
    }
}
