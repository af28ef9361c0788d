package io.github.spillgate.webflux.autoconfigure;

import static io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfigurationTest.wrongSetting;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.DecisionListener;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.metrics.DecisionMetrics;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateMetricsAutoConfiguration;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** The limiters of {@code spillgate.limiters}. */
class NamedLimitersTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    SpillgateAutoConfiguration.class,
                    SpillgateMetricsAutoConfiguration.class))
            .withPropertyValues("spillgate.store=local", "spillgate.name=shop");

    private final ReactiveWebApplicationContextRunner partner =
            runner.withPropertyValues("spillgate.limiters.partner.limits=1/1m, 5 concurrent");

    @Test
    void aServiceOnRedisHasLimitersBesideItsRules() {
        String name = "named-" + UUID.randomUUID().toString().substring(0, 8);
        RateLimiter partner;
        try (ConfigurableApplicationContext context = new SpringApplicationBuilder(Application.class)
                .run(
                        "--server.port=0",
                        "--server.address=127.0.0.1",
                        "--spillgate.name=" + name,
                        "--spillgate.redis.uri=" + RedisForTests.first().uri().toURI(),
                        "--spillgate.rules[0].name=partner",
                        "--spillgate.rules[0].paths=/call",
                        "--spillgate.rules[0].limits=100/1m",
                        "--spillgate.limiters.partner.limits=2/1h",
                        "--management.endpoints.web.exposure.include=*",
                        "--management.endpoint.spillgate.access=unrestricted")) {
            LimiterForTests.awaitReady(context.getBean(RateLimiter.class));
            ClientForTests client = BootForTests.client(context);
            List<String> answers = List.of(
                    client.get("/call").body(),
                    client.get("/call").body(),
                    client.get("/call").body());
            assertThat(answers).containsExactly("true REDIS", "true REDIS", "false REDIS");

            assertThat(get(context, "/actuator/spillgate"))
                    .contains("\"limiters\":[{\"name\":\"partner\",\"limits\":[\"2/1h\"]}]");
            String usage = "/actuator/spillgate/limiter:partner?key=calls";
            assertThat(get(context, usage)).contains("\"limit\":\"2/1h\",\"used\":2,\"remaining\":0");
            ClientForTests other = BootForTests.client(context);
            assertThat(other.send(other.request(usage).DELETE()).statusCode()).isEqualTo(204);
            assertThat(get(context, usage)).contains("\"used\":0");
            assertThat(get(context, "/actuator/spillgate/limiter:partnr?key=a"))
                    .contains("did you mean limiter:partner? Expected one of partner, limiter:partner");

            MeterRegistry meters = context.getBean(MeterRegistry.class);
            assertThat(meters.get("spillgate.decisions")
                            .tags("rule", "limiter:" + name + ".partner", "outcome", "denied")
                            .timer()
                            .count())
                    .isOne();
            assertThat(meters.find("spillgate.decisions")
                            .tags("rule", "limiter:" + name)
                            .timers())
                    .as("decisions for rules are counted as such")
                    .isEmpty();
            assertThat(meters.get("spillgate.holders")
                            .tag("limiter", name + ".partner")
                            .gauge()
                            .value())
                    .isZero();
            partner = context.getBean(NamedLimiters.class).get("partner");
        }
        assertThatThrownBy(() -> partner.acquire("calls", LONG).block(LONG)).hasMessageContaining("is closed");
    }

    private static String get(ConfigurableApplicationContext context, String path) {
        return BootForTests.client(context).get(path).body();
    }

    @Test
    void itsFallbackIsThatOfTheMainLimiter() {
        try (RedisForTests redis = RedisForTests.startOwn();
                ConfigurableApplicationContext context = new SpringApplicationBuilder(Application.class)
                        .run(
                                "--server.port=0",
                                "--spillgate.redis.uri=" + redis.uri().toURI(),
                                "--spillgate.limiters.partner.limits=10/1h")) {
            RateLimiter limiter = context.getBean(NamedLimiters.class).get("partner");
            RateLimiter main = context.getBean(RateLimiter.class);
            LimiterForTests.awaitReady(main);
            redis.pause();
            assertThat(limiter.tryAcquire("calls").block(LONG).source()).isEqualTo(Source.LOCAL);
            assertThat(main.state().fallbacks()).isPositive();
            redis.resume();
            await().atMost(LONG).untilAsserted(() -> {
                Decision seen = limiter.peek("calls").block(LONG);
                assertThat(seen.source()).isEqualTo(Source.REDIS);
                assertThat(seen.limits().get(0).used()).isOne();
            });
        }
    }

    @Test
    void aLimiterIsInjectedByItsName() {
        partner.withPropertyValues("spillgate.limiters.eMail.limits=9/s")
                .withUserConfiguration(ByType.class)
                .withBean("partner", Partner.class, Partner::new)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    ByType.Injected injected = context.getBean(ByType.Injected.class);
                    assertThat(injected.main).isSameAs(context.getBean("spillgateLimiter"));
                    assertThat(injected.partner.name()).isEqualTo("shop.partner");
                    assertThat(injected.partner.limits()).hasToString("[1/1m, 5 concurrent]");
                    NamedLimiters all = context.getBean(NamedLimiters.class);
                    assertThat(all.all()).containsOnlyKeys("partner", "eMail");
                    assertThat(all.get("partner")).isSameAs(injected.partner);
                    assertThatThrownBy(() -> all.get("partners"))
                            .hasMessage("no limiter has this name: did you mean partner?"
                                    + " Expected one of partner, eMail");
                });
        runner.run(context -> assertThatThrownBy(
                        () -> context.getBean(NamedLimiters.class).get("partner"))
                .hasMessage("no limiter has this name: expected one of spillgate.limiters, and there is none"));
    }

    /** Its counts are those of the service, not of all services that have such a limiter. */
    @Test
    void servicesWithOneRedisShareNothing() {
        LocalStore store = LocalStore.bounded(16);
        ReactiveWebApplicationContextRunner shop = partner.withBean(LocalStore.class, () -> store);
        shop.run(context ->
                assertThat(isAllowed(context.getBean(NamedLimiters.class))).isTrue());
        shop.run(context ->
                assertThat(isAllowed(context.getBean(NamedLimiters.class))).isFalse());
        shop.withPropertyValues("spillgate.name=mall")
                .run(context -> assertThat(isAllowed(context.getBean(NamedLimiters.class)))
                        .isTrue());
    }

    private static boolean isAllowed(NamedLimiters limiters) {
        return limiters.get("partner").tryAcquire("calls").block(LONG).isAllowed();
    }

    @Test
    void otherLimitersOfTheApplicationMayExist() {
        partner.withUserConfiguration(OwnLimiter.class, ByType.class)
                .run(context -> assertThat(context.getStartupFailure())
                        .as("two default candidates, as without named limiters")
                        .hasStackTraceContaining("but found 2: mail,spillgateLimiter"));
        partner.withUserConfiguration(OwnLimiter.class)
                .run(context -> assertThat(context.getBeansOfType(RateLimiter.class))
                        .containsOnlyKeys("mail", "spillgateLimiter", "partnerLimiter"));
    }

    @Test
    void aBeanThatIsInjectedByTheSameNamePreventsTheStart() {
        for (String bean : List.of("mail", "mailLimiter")) {
            runner.withPropertyValues("spillgate.limiters.mail.limits=9/s")
                    .withBean(bean, RateLimiter.class, OwnLimiter::limiter)
                    .run(context -> {
                        WrongSettingException wrong = wrongSetting(context.getStartupFailure());
                        assertThat(wrong)
                                .hasMessage("spillgate.limiters.mail: the application has a bean " + bean
                                        + ": expected only one of them, or another name");
                    });
        }
        runner.withPropertyValues("spillgate.limiters.spillgate.limits=9/s")
                .run(context -> assertThat(wrongSetting(context.getStartupFailure()))
                        .hasMessageContaining("has a bean spillgateLimiter"));
        runner.withPropertyValues("spillgate.limiters.outgoing.limits=9/s")
                .run(context -> assertThat(wrongSetting(context.getStartupFailure()))
                        .hasMessageStartingWith("spillgate.limiters.outgoing: the application has a bean for"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            spillgate.limiters.partner.limit     | 10/s          | there is no such setting: did you mean limits?
            spillgate.limiters.partner           | 10/s          | expected, for example, spillgate.limiters.partner.limits
            spillgate.limiters                   | 10/s          | expected, for example, spillgate.limiters.partner.limits
            spillgate.limiter.partner.limits     | 10/s          | there is no such setting: did you mean limiters?
            spillgate.limiters.partner.limits    | 10/s, often   | limit "often"
            spillgate.limiters.partner.limits[1] | often         | limit "often"
            spillgate.limiters.eMail.limits      | often         | limit "often"
            spillgate.limiters[a.b].limits       | often         | limit "often"
            spillgate.limiters.partner.limits    | 10/s, 20/1s   | share
            spillgate.limiters.partner.limits    | ''            | there are none: expected limits, for example 10/s
            spillgate.limiters.partner.limits.a  | 10/s          | spillgate.limiters.partner.limits is a list
            """)
    void aWrongSettingPreventsTheStart(String property, String value, String reason) {
        String first = property.endsWith("[1]") ? property.replace("[1]", "[0]") + "=10/s" : "some=thing";
        runner.withPropertyValues(first, property + "=" + value).run(context -> {
            WrongSettingException wrong = wrongSetting(context.getStartupFailure());
            assertThat(wrong.why()).contains(reason);
            assertThat(property).startsWithIgnoringCase(wrong.setting());
        });
    }

    /** Kubernetes sets variables for services, such as one that is called spillgate-limiters-cache. */
    @Test
    void aForeignVariableIsIgnored() {
        partner.withInitializer(context -> context.getEnvironment()
                        .getPropertySources()
                        .addFirst(new SystemEnvironmentPropertySource(
                                StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME,
                                Map.of(
                                        "SPILLGATE_LIMITERS_CACHE_SERVICE_HOST", "10.0.0.1",
                                        "SPILLGATE_LIMITERS_PARTNER_LIMITS", "7/1m"))))
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    Map<String, RateLimiter> all =
                            context.getBean(NamedLimiters.class).all();
                    assertThat(all).containsOnlyKeys("partner");
                    assertThat(all.get("partner").limits()).hasToString("[7/1m]");
                });
    }

    @Test
    void aLimiterHasTheNameOfALimiter() {
        runner.withPropertyValues("spillgate.limiters[a b].limits=10/s")
                .run(context -> assertThat(wrongSetting(context.getStartupFailure()))
                        .hasMessageStartingWith("spillgate.limiters.a b: limiter name \"shop.a b\" is not a name:"));
    }

    @Test
    void withoutMicrometerThereAreLimitersToo() {
        partner.run(context -> assertThat(context).hasNotFailed().hasSingleBean(NamedLimiters.class));
    }

    @Test
    void decisionsAreCountedOnce() {
        ReactiveWebApplicationContextRunner metered = partner.withBean(MeterRegistry.class, SimpleMeterRegistry::new);
        metered.run(NamedLimitersTest::assertDecisionsAreCountedOnce);
        metered.withUserConfiguration(OwnMetrics.class).run(NamedLimitersTest::assertDecisionsAreCountedOnce);
    }

    private static void assertDecisionsAreCountedOnce(ApplicationContext context) {
        MeterRegistry registry = context.getBean(MeterRegistry.class);
        isAllowed(context.getBean(NamedLimiters.class));
        assertThat(registry.get("spillgate.decisions")
                        .tag("rule", "limiter:shop.partner")
                        .timer()
                        .count())
                .isOne();
        context.getBeansOfType(MeterBinder.class).values().forEach(binder -> binder.bindTo(registry));
        assertThat(registry.get("spillgate.holders").gauges())
                .extracting(gauge -> gauge.getId().getTag("limiter"))
                .containsExactlyInAnyOrder("shop", "shop.partner");
    }

    @Test
    void listenersOfTheApplicationHearOfAllLimiters() {
        CompletableFuture<String> heard = new CompletableFuture<>();
        DecisionListener listener = (limiter, decision, took) -> heard.complete(limiter);
        partner.withBean(DecisionListener.class, () -> listener).run(context -> {
            isAllowed(context.getBean(NamedLimiters.class));
            assertThat(heard.get(30, TimeUnit.SECONDS)).isEqualTo("shop.partner");
        });
    }

    @Test
    void aDisabledLimiterAllowsEverything() {
        partner.withPropertyValues("spillgate.enabled=false").run(context -> {
            NamedLimiters limiters = context.getBean(NamedLimiters.class);
            assertThat(List.of(isAllowed(limiters), isAllowed(limiters))).containsOnly(true);
        });
    }

    @Test
    void aMainLimiterOfTheApplicationGivesItsStore() {
        partner.withBean("spillgateLimiter", RateLimiter.class, OwnLimiter::limiter)
                .run(context -> {
                    RateLimiter limiter = context.getBean(NamedLimiters.class).get("partner");
                    assertThat(limiter.name()).isEqualTo("mail.partner");
                    assertThat(limiter.tryAcquire("calls").block(LONG).isAllowed())
                            .isTrue();
                });
    }

    /** The real cost of a call has the bound of the settings. */
    @Test
    void settingsOfTheMainLimiterApply() {
        partner.withPropertyValues("spillgate.debt=0").run(context -> {
            RateLimiter limiter = context.getBean(NamedLimiters.class).get("partner");
            Decision decision = limiter.tryAcquire("calls").block(LONG);
            limiter.settle(decision, 5).block(LONG);
            assertThat(limiter.peek("calls").block(LONG).limits().get(0).used()).isOne();
        });
    }

    record Partner() {}

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Calls.class})
    static class Application {

        @Bean
        MeterRegistry meters() {
            return new SimpleMeterRegistry();
        }
    }

    @RestController
    static class Calls {

        private final RateLimiter partner;

        Calls(RateLimiter ofRules, @Qualifier("partner") RateLimiter partner) {
            assertThat(ofRules).isNotSameAs(partner);
            this.partner = partner;
        }

        @GetMapping("/call")
        Mono<String> call() {
            return partner.tryAcquire("calls").map(decision -> decision.isAllowed() + " " + decision.source());
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class ByType {

        @Bean
        Injected injected(RateLimiter anyName, @Qualifier("partner") RateLimiter partner) {
            return new Injected(anyName, partner);
        }

        record Injected(RateLimiter main, RateLimiter partner) {}
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnLimiter {

        @Bean
        RateLimiter mail() {
            return limiter();
        }

        static RateLimiter limiter() {
            return RateLimiter.builder("mail")
                    .store(LocalStore.bounded(16))
                    .limit(Limit.perMinute(5))
                    .build();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnMetrics {

        @Bean
        DecisionListener ownMetrics(MeterRegistry registry) {
            return DecisionMetrics.of(registry);
        }
    }
}
