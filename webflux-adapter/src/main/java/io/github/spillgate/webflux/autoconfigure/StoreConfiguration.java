package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.failover.Fallback;
import io.github.spillgate.failover.LocalFallback;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.StoreType;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.cluster.RedisClusterClient;
import io.r2dbc.spi.ConnectionFactory;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.util.StringUtils;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * The configurations of the store, in order of precedence. All of them give way to a store bean of the application.
 * Lazy: a limiter of the application that replaces the one of the settings may need no store of ours.
 */
final class StoreConfiguration {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);

    static final String STORE = "spillgateStore";

    /** Returns a publisher, on which Spring waits. */
    private static final String CLOSE = "closeLater";

    private StoreConfiguration() {}

    static LocalStore local(SpillgateProperties settings) {
        LocalStore store = WrongSettingException.checked(
                "spillgate.local.counts", settings.local().counts(), LocalStore::bounded);
        Double share = settings.local().share();
        return share == null ? store : WrongSettingException.checked("spillgate.local.share", share, store::share);
    }

    static LocalFallback localFallback(SpillgateProperties settings) {
        LocalFallback fallback = WrongSettingException.checked(
                "spillgate.local.counts", settings.local().counts(), Fallback::local);
        Double share = settings.local().share();
        return share == null
                ? fallback
                : WrongSettingException.checked("spillgate.local.share", share, fallback::share);
    }

    private static RedisStore redis(RedisStore.Builder store, SpillgateProperties settings) {
        return WrongSettingException.checked(
                        "spillgate.redis.namespace", settings.redis().namespace(), store::namespace)
                .build();
    }

    /** Fails if the settings ask for PostgreSQL: it would have been used, if there were its classes. */
    private static void rejectPostgres(SpillgateProperties settings) {
        if (settings.store() == StoreType.POSTGRES
                || (settings.store() == StoreType.AUTO && settings.postgres().uri() != null)) {
            throw new WrongSettingException(
                    "spillgate.store",
                    "postgres",
                    "R2DBC is not on the class path: expected the dependency org.postgresql:r2dbc-postgresql",
                    null);
        }
    }

    /** The store of a disabled limiter, which opens no connection even if the settings contain a Redis. */
    @Lazy
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean(LimitStore.class)
    @Conditional(EnabledProperty.DisabledCondition.class)
    static class DisabledConfiguration {

        @Bean(STORE)
        LimitStore spillgateStore() {
            return Fallback.allow();
        }
    }

    /** A Redis for the limiter alone, from {@code spillgate.redis}. */
    @Lazy
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean(LimitStore.class)
    @ConditionalOnProperty(name = "spillgate.store", havingValue = "auto", matchIfMissing = true)
    @ConditionalOnProperty("spillgate.redis.uri")
    static class DedicatedRedisConfiguration {

        @Bean
        DedicatedRedisClient spillgateRedisClient(SpillgateProperties settings) {
            return new DedicatedRedisClient(
                    settings.redis().cluster()
                            ? RedisClusterClient.create(uris(settings))
                            : RedisClient.create(uris(settings).get(0)));
        }

        /** Creates the store. It must be closed before the client, or the client would close its connections. */
        @Bean(name = STORE, destroyMethod = CLOSE)
        RedisStore spillgateStore(DedicatedRedisClient dedicated, SpillgateProperties settings) {
            if (settings.postgres().uri() != null) {
                throw new WrongSettingException(
                        "spillgate.postgres.uri",
                        "…",
                        "there is also spillgate.redis.uri: expected one of them, or spillgate.store=postgres",
                        null);
            }
            return redis(RedisStore.builder(dedicated.client).nodes(uris(settings)), settings);
        }

        private static List<RedisURI> uris(SpillgateProperties settings) {
            String text = String.valueOf(settings.redis().uri());
            return WrongSettingException.checked(
                    "spillgate.redis.uri",
                    "…",
                    any -> settings.redis().cluster() ? RedisStore.clusterUris(text) : List.of(RedisStore.uri(text)));
        }
    }

    /** A wrapper, so that the application does not find this client where it injects a Redis client. */
    record DedicatedRedisClient(AbstractRedisClient client) implements AutoCloseable {

        private static final Duration LONGEST_END = Duration.ofSeconds(2);

        @Override
        public void close() {
            client.shutdown(Duration.ZERO, LONGEST_END);
        }
    }

    /** The Redis of the application, from {@code spring.data.redis}. */
    @Lazy
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(LettuceConnectionFactory.class)
    @ConditionalOnMissingBean(LimitStore.class)
    @ConditionalOnProperty(name = "spillgate.store", havingValue = "auto", matchIfMissing = true)
    @ConditionalOnSingleCandidate(LettuceConnectionFactory.class)
    static class ApplicationRedisConfiguration {

        @Bean(name = STORE, destroyMethod = CLOSE)
        RedisStore spillgateStore(LettuceConnectionFactory connections, SpillgateProperties settings) {
            rejectPostgres(settings);
            RedisStore.Builder store = RedisStore.builder(connections.getRequiredNativeClient());
            List<RedisURI> nodes = nodes(connections);
            return redis(nodes.isEmpty() ? store : store.nodes(nodes), settings);
        }

        /** Returns the server or the nodes of a cluster; none if they are not known. */
        private static List<RedisURI> nodes(LettuceConnectionFactory connections) {
            RedisClusterConfiguration cluster = connections.getClusterConfiguration();
            if (cluster != null) {
                return cluster.getClusterNodes().stream()
                        .map(node -> uri(String.valueOf(node.getHost()), node.getRequiredPort(), cluster, connections))
                        .toList();
            }
            RedisStandaloneConfiguration server = connections.getStandaloneConfiguration();
            if (!isUsed(server, connections)) {
                return List.of();
            }
            RedisURI uri = uri(server.getHostName(), server.getPort(), server, connections);
            uri.setDatabase(server.getDatabase());
            return List.of(uri);
        }

        /** Spring also returns a default for Sentinels, for a socket, and for a primary with named replicas. */
        private static boolean isUsed(RedisStandaloneConfiguration server, LettuceConnectionFactory connections) {
            return connections.getSentinelConfiguration() == null
                    && connections.getSocketConfiguration() == null
                    && !server.equals(new RedisStandaloneConfiguration());
        }

        /** Returns an address with the credentials and TLS settings of the application's connections. */
        private static <C extends RedisConfiguration & RedisConfiguration.WithAuthentication> RedisURI uri(
                String host, int port, C server, LettuceConnectionFactory connections) {
            LettuceClientConfiguration client = connections.getClientConfiguration();
            RedisURI uri = RedisURI.builder()
                    .withHost(host)
                    .withPort(port)
                    .withSsl(client.isUseSsl())
                    .withStartTls(client.isStartTls())
                    .withVerifyPeer(client.getVerifyMode())
                    .withTimeout(client.getCommandTimeout())
                    .build();
            client.getClientName().ifPresent(uri::setClientName);
            client.getRedisCredentialsProviderFactory()
                    .map(factory -> factory.createCredentialsProvider(server))
                    .or(() -> server.getPassword()
                            .toOptional()
                            .map(password -> new StaticCredentialsProvider(usernameOf(server), password)))
                    .ifPresent(uri::setCredentialsProvider);
            return uri;
        }

        /** A URL such as {@code redis://:password@host} has an empty user name. */
        private static @Nullable String usernameOf(RedisConfiguration.WithAuthentication server) {
            return StringUtils.hasText(server.getUsername()) ? server.getUsername() : null;
        }
    }

    /** A PostgreSQL, from {@code spillgate.postgres}, or that of the application, from {@code spring.r2dbc}. */
    @Lazy
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ConnectionFactory.class)
    @ConditionalOnMissingBean(LimitStore.class)
    @Conditional(PostgresCondition.class)
    static class PostgresConfiguration {

        @Bean(name = STORE, destroyMethod = CLOSE)
        PostgresStore spillgateStore(ObjectProvider<ConnectionFactory> application, SpillgateProperties settings) {
            SpillgateProperties.Postgres from = settings.postgres();
            PostgresStore.Builder store = builder(application, from.uri());
            WrongSettingException.checked("spillgate.postgres.namespace", from.namespace(), store::namespace);
            WrongSettingException.checked("spillgate.postgres.table", from.table(), store::table);
            WrongSettingException.checked("spillgate.postgres.connections", from.connections(), store::connections);
            return store.createTable(from.createTable()).logged(from.logged()).build();
        }

        private static PostgresStore.Builder builder(
                ObjectProvider<ConnectionFactory> application, @Nullable String uri) {
            if (uri != null) {
                return WrongSettingException.checked("spillgate.postgres.uri", "…", any -> PostgresStore.builder(uri));
            }
            ConnectionFactory only = application.getIfUnique();
            if (only == null) {
                throw new WrongSettingException(
                        "spillgate.store",
                        "postgres",
                        "found " + application.stream().count() + " connection factories: expected"
                                + " spillgate.postgres.uri, one from spring.r2dbc.*, or one that is @Primary, for"
                                + " example spillgate.postgres.uri=r2dbc:postgresql://user:password@localhost/orders",
                        null);
            }
            return WrongSettingException.checked("spillgate.store", "postgres", any -> PostgresStore.builder(only));
        }
    }

    /** Whether the settings ask for PostgreSQL. */
    static final class PostgresCondition implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            Environment environment = context.getEnvironment();
            String store = environment.getProperty("spillgate.store", "auto");
            return store.equalsIgnoreCase("postgres")
                    || (store.equalsIgnoreCase("auto") && environment.containsProperty("spillgate.postgres.uri"));
        }
    }

    /** The memory of this process, without Redis. */
    @Lazy
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean(LimitStore.class)
    static class LocalConfiguration {

        @Bean(STORE)
        LocalStore spillgateStore(SpillgateProperties settings) {
            rejectPostgres(settings);
            if (settings.store() == StoreType.AUTO) {
                LOG.warn("No Redis is configured; each instance of this service counts on its own: expected"
                        + " spillgate.redis.uri, spring.data.redis.* or spillgate.postgres.uri, or"
                        + " spillgate.store=local if that is intended");
            }
            return local(settings);
        }
    }
}
