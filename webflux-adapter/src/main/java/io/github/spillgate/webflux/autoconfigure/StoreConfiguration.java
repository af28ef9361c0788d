package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.Keeps;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Where counts are kept: each of these gives way to the one before, and all to a store or a limiter of the application's own. */
final class StoreConfiguration {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);

    private StoreConfiguration() {}

    static LocalStore local(SpillgateProperties settings) {
        LocalStore store = WrongSettingException.checked(
                "spillgate.local.counts", settings.local().counts(), LocalStore::bounded);
        return WrongSettingException.checked(
                "spillgate.local.share", settings.local().share(), store::share);
    }

    private static RedisStore redis(AbstractRedisClient client, SpillgateProperties settings) {
        RedisStore.Builder store = RedisStore.builder(client);
        return WrongSettingException.checked(
                        "spillgate.redis.namespace", settings.redis().namespace(), store::namespace)
                .build();
    }

    /** A Redis for the limiter alone. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean({LimitStore.class, RateLimiter.class})
    @ConditionalOnProperty(name = "spillgate.store", havingValue = "auto", matchIfMissing = true)
    @ConditionalOnProperty("spillgate.redis.uri")
    static class OfItsOwn {

        @Bean
        OwnClient spillgateRedisClient(SpillgateProperties settings) {
            String text = String.valueOf(settings.redis().uri());
            return new OwnClient(WrongSettingException.checked(
                    "spillgate.redis.uri",
                    "…",
                    any -> settings.redis().cluster()
                            ? RedisClusterClient.create(RedisStore.clusterUris(text))
                            : RedisClient.create(RedisStore.uri(text))));
        }

        /** Not closed by itself: its connection is closed with the client, and Lettuce warns of one that is closed twice. */
        @Bean(destroyMethod = "")
        RedisStore spillgateStore(OwnClient own, SpillgateProperties settings) {
            return redis(own.client, settings);
        }
    }

    /** Not a client that somebody else of the application would find. */
    record OwnClient(AbstractRedisClient client) implements AutoCloseable {

        private static final Duration LONGEST_END = Duration.ofSeconds(2);

        @Override
        public void close() {
            client.shutdown(Duration.ZERO, LONGEST_END);
        }
    }

    /** The Redis of the application. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(LettuceConnectionFactory.class)
    @ConditionalOnMissingBean({LimitStore.class, RateLimiter.class})
    @ConditionalOnProperty(name = "spillgate.store", havingValue = "auto", matchIfMissing = true)
    @ConditionalOnSingleCandidate(LettuceConnectionFactory.class)
    static class OfTheApplication {

        @Bean
        RedisStore spillgateStore(LettuceConnectionFactory connections, SpillgateProperties settings) {
            return redis(connections.getRequiredNativeClient(), settings);
        }
    }

    /** No Redis. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean({LimitStore.class, RateLimiter.class})
    static class InThisProcess {

        @Bean
        LocalStore spillgateStore(SpillgateProperties settings) {
            if (settings.store() == Keeps.AUTO) {
                LOG.warn("no Redis is set up, so each instance of this service counts for itself: expected"
                        + " spillgate.redis.uri or spring.data.redis.*, or spillgate.store=local if that is meant");
            }
            return local(settings);
        }
    }
}
