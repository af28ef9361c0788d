package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.TlsForTests;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** A Redis behind TLS by an authority that only a bundle of Spring Boot knows. */
class BootTlsTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final String BUNDLE = "--spring.ssl.bundle.pem.redis.";

    static List<RedisForTests> everyRedis() {
        return RedisForTests.programsWithTls();
    }

    @Test
    void theLimiterUsesTheTrustStoreOfTheBundle() {
        theLimiterUsesTheTrustStoreOfTheBundleOnEveryRedis(everyRedis().get(0));
    }

    @ParameterizedTest
    @Thorough
    @MethodSource("everyRedis")
    void theLimiterUsesTheTrustStoreOfTheBundleOnEveryRedis(RedisForTests program) {
        TlsForTests tls = TlsForTests.ofServer();
        try (RedisForTests redis = program.another(tls);
                ConfigurableApplicationContext context =
                        start(redis, BUNDLE + "truststore.certificate=file:" + tls.authority())) {
            assertThat(redis.uri().isSsl()).isTrue();
            await().atMost(LONG).until(() -> source(context) == Source.REDIS);
        }
    }

    @ParameterizedTest
    @Thorough
    @MethodSource("everyRedis")
    void theLimiterShowsTheCertificateOfTheBundle(RedisForTests program) {
        TlsForTests tls = TlsForTests.ofBoth();
        try (RedisForTests redis = program.another(tls);
                ConfigurableApplicationContext context = start(
                        redis,
                        BUNDLE + "truststore.certificate=file:" + tls.authority(),
                        BUNDLE + "keystore.certificate=file:" + tls.clientCertificate(),
                        BUNDLE + "keystore.private-key=file:" + tls.clientKey())) {
            await().atMost(LONG).until(() -> source(context) == Source.REDIS);
        }
    }

    /** So that the two above do not pass for want of a check. */
    @ParameterizedTest
    @Thorough
    @MethodSource("everyRedis")
    void anUntrustedServerCertificateCausesAFallback(RedisForTests program) {
        TlsForTests tls = TlsForTests.ofServer();
        try (RedisForTests redis = program.another(tls);
                ConfigurableApplicationContext context =
                        start(redis, BUNDLE + "truststore.certificate=file:" + tls.clientCertificate())) {
            RateLimiter limiter = context.getBean(RateLimiter.class);
            await().atMost(LONG).until(() -> limiter.state().problem().isPresent());
            assertThat(limiter.state().problem().orElseThrow()).contains("TLS: ");
            assertThat(source(context)).isEqualTo(Source.LOCAL);
        }
    }

    private static ConfigurableApplicationContext start(RedisForTests redis, String... bundle) {
        String[] arguments = new String[bundle.length + 4];
        System.arraycopy(bundle, 0, arguments, 0, bundle.length);
        arguments[bundle.length] = "--spring.data.redis.url=" + redis.uri().toURI();
        arguments[bundle.length + 1] = "--spring.data.redis.ssl.bundle=redis";
        arguments[bundle.length + 2] = "--server.port=0";
        arguments[bundle.length + 3] = "--server.address=127.0.0.1";
        return new SpringApplicationBuilder(Application.class).run(arguments);
    }

    private static Source source(ConfigurableApplicationContext context) {
        return context.getBean(RateLimiter.class)
                .tryAcquire(Charge.of("a", Limit.perSecond(1_000)))
                .block(LONG)
                .source();
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Application {}
}
