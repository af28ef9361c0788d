package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.DecisionListener;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.metrics.RuleObservations;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LoopRequests;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.webflux.RateLimitWebFilter;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateHealthAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateMetricsAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateObservationsAutoConfiguration;
import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.CommandType;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.observation.ObservationRegistry;
import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.assertj.core.util.Throwables;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.ReactiveHealthIndicator;
import org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.cloud.gateway.config.GatewayAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.netty.resources.LoopResources;

@ExtendWith(OutputCaptureExtension.class)
class SpillgateAutoConfigurationTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    DataRedisAutoConfiguration.class,
                    SpillgateAutoConfiguration.class));

    // Where counts are kept.

    @Test
    void theRedisOfTheApplicationIsUsed() {
        runner.withPropertyValues("spring.data.redis.url=" + redis()).run(context -> {
            assertThat(context).hasSingleBean(RedisStore.class);
            assertRedisDecides(context.getBean(RateLimiter.class));
        });
    }

    @Test
    void eventLoopsHaveConnectionsToTheRedisOfTheApplicationWithItsSettings() {
        LoopResources loops = LoopResources.create("loops", 1, true);
        RedisClient admin = null;
        try (RedisForTests redis = RedisForTests.startOwn()) {
            admin = RedisClient.create(redis.uri());
            RedisCommands<String, String> commands = admin.connect().sync();
            commands.configSet("requirepass", "secret");
            int port = redis.uri().getPort();
            runner.withPropertyValues(
                            "spring.data.redis.url=redis://:secret@127.0.0.1:" + port + "/3",
                            "spring.data.redis.client-name=shop")
                    .run(context -> {
                        RateLimiter limiter = context.getBean(RateLimiter.class);
                        EventLoop loop = loops.onServer(true).next();
                        Mono<Decision> decision = limiter.peek(Charge.of("a", Limit.perHour(1)));
                        await().atMost(LONG).until(() -> LoopRequests.isEmittedOnLoop(loop, decision));
                        assertThat(commands.clientList().lines())
                                .filteredOn(connection -> connection.contains(" name=shop "))
                                .hasSize(2)
                                .allMatch(connection -> connection.contains(" db=3 "));
                    });
        } finally {
            if (admin != null) {
                admin.shutdown(0, 1, TimeUnit.SECONDS);
            }
            loops.dispose();
        }
    }

    /** Spring then returns its default, which is another server. */
    @Test
    void aPrimaryWithNamedReplicasIsNotMistakenForTheDefaultServer() {
        RedisStaticMasterReplicaConfiguration servers = new RedisStaticMasterReplicaConfiguration("127.0.0.1", 1);
        runner.withBean(LettuceConnectionFactory.class, () -> new LettuceConnectionFactory(servers))
                .run(context -> {
                    RateLimiter limiter = context.getBean(RateLimiter.class);
                    await().atMost(LONG).until(() -> limiter.state().problem().isPresent());
                    assertThat(limiter.state().problem().orElseThrow()).doesNotContain("localhost:6379");
                });
    }

    @Test
    void theSpillgateRedisTakesPrecedence() {
        runner.withPropertyValues(
                        "spring.data.redis.url=redis://localhost:1",
                        "spillgate.redis.uri=" + redis(),
                        "spillgate.redis.namespace=shop:test")
                .run(context -> {
                    assertRedisDecides(context.getBean(RateLimiter.class));
                    assertThat(context.getBean(RedisStore.class).toString()).contains("shop:test");
                });
    }

    @Test
    void clustersOfSpillgateAndOfTheApplicationAreUsed() {
        try (RedisClusterForTests cluster = RedisClusterForTests.start(3, 0)) {
            String nodes = cluster.uris().stream()
                    .map(uri -> uri.getHost() + ":" + uri.getPort())
                    .collect(Collectors.joining(","));
            runner.withPropertyValues("spillgate.redis.uri=redis://" + nodes, "spillgate.redis.cluster=true")
                    .run(context -> assertRedisDecides(context.getBean(RateLimiter.class)));
            // From here on only this user may decide.
            for (RedisNode node : cluster.nodes()) {
                node.commands()
                        .aclSetuser(
                                "app",
                                AclSetuserArgs.Builder.on()
                                        .addPassword("secret")
                                        .allKeys()
                                        .allCommands());
                node.commands().aclSetuser("default", AclSetuserArgs.Builder.removeCommand(CommandType.EVALSHA));
            }
            runner.withPropertyValues(
                            "spring.data.redis.cluster.nodes=" + nodes,
                            "spring.data.redis.username=app",
                            "spring.data.redis.password=secret")
                    .run(context -> assertRedisDecides(context.getBean(RateLimiter.class)));
            runner.withPropertyValues("spillgate.redis.uri=redis://not a node", "spillgate.redis.cluster=true")
                    .run(context -> assertThat(context)
                            .getFailure()
                            .rootCause()
                            .hasMessageContaining("expected one")
                            .hasMessageContaining("redis://user:pass%40word@node-1:6379,node-2:6379"));
        }
    }

    @Test
    @Thorough
    @ExtendWith(OutputCaptureExtension.class)
    void noConnectionToAClusterOutlivesTheApplication(CapturedOutput output) {
        try (RedisClusterForTests cluster = RedisClusterForTests.start(3, 0)) {
            String nodes = cluster.uris().stream()
                    .map(uri -> uri.getHost() + ":" + uri.getPort())
                    .collect(Collectors.joining(","));
            List<String> before = connections(cluster);
            for (String[] settings : List.of(
                    new String[] {"spring.data.redis.cluster.nodes=" + nodes},
                    new String[] {"spillgate.redis.uri=redis://" + nodes, "spillgate.redis.cluster=true"})) {
                runner.withPropertyValues(settings).run(context -> {
                    assertRedisDecides(context.getBean(RateLimiter.class));
                    assertThat(connections(cluster)).hasSizeGreaterThan(before.size());
                });
                await().atMost(LONG).until(() -> connections(cluster).equals(before));
            }
            assertThat(output).doesNotContain("Event loop shut down");
        }
    }

    /** The places that they come from, but for those of the cluster itself. */
    private static List<String> connections(RedisClusterForTests cluster) {
        return cluster.nodes().stream()
                .flatMap(node -> node.commands().clientList().lines())
                .filter(line -> !line.contains("flags=M") && !line.contains("flags=S"))
                .map(line -> line.replaceAll(".* addr=(\\S+) .*", "$1"))
                .sorted()
                .toList();
    }

    @Test
    void withoutSpringDataRedisItsOwnRedisIsUsed() {
        runner.withClassLoader(new FilteredClassLoader(LettuceConnectionFactory.class))
                .withPropertyValues("spillgate.redis.uri=" + redis())
                .run(context -> assertRedisDecides(context.getBean(RateLimiter.class)));
    }

    @Test
    void withoutRedisTheLocalStoreIsUsedAndLoggedOnce(CapturedOutput output) {
        runner.withClassLoader(new FilteredClassLoader(LettuceConnectionFactory.class))
                .run(context -> {
                    assertThat(context).hasSingleBean(LocalStore.class);
                    assertThat(source(context.getBean(RateLimiter.class))).isEqualTo(Source.LOCAL);
                });
        assertThat(output.getAll()).containsOnlyOnce("No Redis is configured");
    }

    @Test
    void aTestNeedsNoRedis(CapturedOutput output) {
        runner.withPropertyValues("spillgate.store=local", "spillgate.redis.uri=redis://localhost:1")
                .run(context -> {
                    assertThat(context).hasSingleBean(LocalStore.class).doesNotHaveBean(RedisStore.class);
                    assertThat(source(context.getBean(RateLimiter.class))).isEqualTo(Source.LOCAL);
                });
        assertThat(output.getAll()).doesNotContain("No Redis is configured");
    }

    @Test
    void aDisabledLimiterHasNoFilterAndNoConnection() {
        runner.withPropertyValues(
                        "spillgate.enabled=false",
                        "spring.data.redis.url=redis://localhost:1",
                        "spillgate.redis.uri=no uri")
                .run(context -> {
                    assertThat(context)
                            .hasNotFailed()
                            .hasSingleBean(Rules.class)
                            .doesNotHaveBean(RateLimitWebFilter.class)
                            .doesNotHaveBean(RedisStore.class);
                    assertThat(source(context.getBean(RateLimiter.class))).isEqualTo(Source.FALLBACK);
                });
    }

    // What is set.

    @Test
    void rulesAreMadeOfSettings() {
        local().withUserConfiguration(Helpers.class)
                .withPropertyValues(
                        "spillgate.secret=0123456789abcdef",
                        "spillgate.rules[0].name=address",
                        "spillgate.rules[0].paths=/v1/**, /v2/**",
                        "spillgate.rules[0].methods=get,post",
                        "spillgate.rules[0].limits=120/1m, 1000/1h counter",
                        "spillgate.rules[1].name=plan",
                        "spillgate.rules[1].key=hashed(header:X-Api-Key) | principal",
                        "spillgate.rules[1].limits=100/24h",
                        "spillgate.rules[1].limits-from=plans",
                        "spillgate.rules[1].cost-from=costs",
                        "spillgate.rules[1].unless=internal",
                        "spillgate.rules[1].refund-when=5xx",
                        "spillgate.rules[1].when-missing=skip",
                        "spillgate.rules[1].when-undecided=deny",
                        "spillgate.rules[1].shadow=true")
                .run(context -> assertThat(context.getBean(Rules.class).list())
                        .extracting(Rule::toString)
                        .containsExactlyInAnyOrder(
                                "Rule[address, paths=[/v1/**, /v2/**], methods=[GET, POST], "
                                        + "BEFORE_AUTHENTICATION,"
                                        + " key=address, limits=[120/1m name=address-1m, 1000/1h counter"
                                        + " name=address-1h]]",
                                "Rule[plan, paths=[], methods=[], AFTER_AUTHENTICATION,"
                                        + " key=hashed(header:X-Api-Key) | principal, limits=[100/24h "
                                        + "name=plan-24h], shadow]"));
    }

    @Test
    void theClientAddressIsMadeOfSettings() {
        local().withPropertyValues(
                        "spillgate.client-address.header=forwarded",
                        "spillgate.client-address.trusted-proxies=10.0.0.0/8",
                        "spillgate.client-address.ipv6-prefix=56",
                        "spillgate.client-address.max-hops=3")
                .run(context -> assertThat(context.getBean(ClientAddress.class))
                        .hasToString("ClientAddress[Forwarded from [10.0.0.0/8], maxHops=3, ipv6Prefix=56]"));
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void aCountThatAllPathsShareIsWarnedOfOnce(CapturedOutput log) {
        local().withPropertyValues(
                        "spillgate.rules[0].name=device",
                        "spillgate.rules[0].paths={*rest}",
                        "spillgate.rules[0].key=header:X-Device",
                        "spillgate.rules[0].limits=120/1m",
                        "spillgate.rules[1].name=user",
                        "spillgate.rules[1].key=principal",
                        "spillgate.rules[1].limits=120/1m",
                        "spillgate.rules[2].name=some",
                        "spillgate.rules[2].paths=/*, /a/**",
                        "spillgate.rules[2].key=header:X-Device",
                        "spillgate.rules[2].limits=120/1m")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(log.getAll().lines().filter(line -> line.contains("share one count on every path")))
                .singleElement()
                .asString()
                .contains("rule device:");
    }

    @Test
    void whenLookupFailsIsConfigurable() {
        local().withUserConfiguration(Helpers.class)
                .withPropertyValues(
                        "spillgate.rules[0].name=own",
                        "spillgate.rules[0].limits=1/1m",
                        "spillgate.rules[1].name=none",
                        "spillgate.rules[1].limits=1/1m",
                        "spillgate.rules[1].when-lookup-fails=undecided")
                .run(context -> assertThat(
                                context.getBean(SpillgateProperties.class).rules())
                        .extracting(SpillgateProperties.RuleProperties::whenLookupFails)
                        .containsExactly(WhenLookupFails.USE_RULE, WhenLookupFails.UNDECIDED));
    }

    @Test
    void whenAmbiguousIsConfigurable() {
        local().withPropertyValues(
                        "spillgate.rules[0].name=plan",
                        "spillgate.rules[0].limits=1/1m",
                        "spillgate.rules[1].name=other",
                        "spillgate.rules[1].limits=1/1m",
                        "spillgate.rules[1].when-ambiguous=missing")
                .run(context -> assertThat(
                                context.getBean(SpillgateProperties.class).rules())
                        .extracting(SpillgateProperties.RuleProperties::whenAmbiguous)
                        .containsExactly(Rule.WhenAmbiguous.DENY, Rule.WhenAmbiguous.MISSING));
    }

    @Test
    void filtersStandAroundAuthentication() {
        local().run(context -> assertThat(
                        context.getBeansOfType(RateLimitWebFilter.class).values())
                .extracting(RateLimitWebFilter::getOrder)
                .containsExactlyInAnyOrder(-110, -90));
        local().withPropertyValues(
                        "spillgate.filters.order-before-authentication=-500",
                        "spillgate.filters.order-after-authentication=7")
                .run(context -> assertThat(
                                context.getBeansOfType(RateLimitWebFilter.class).values())
                        .extracting(RateLimitWebFilter::getOrder)
                        .containsExactlyInAnyOrder(-500, 7));
    }

    @Test
    void theLimiterIsCalledAsTheApplication() {
        local().withPropertyValues("spring.application.name=Shop & Co")
                .run(context -> assertThat(context.getBean(RateLimiter.class).toString())
                        .startsWith("RateLimiter[Shop---Co,"));
        local().withPropertyValues("spring.application.name=shop", "spillgate.name=checkout")
                .run(context -> assertThat(context.getBean(RateLimiter.class).toString())
                        .startsWith("RateLimiter[checkout,"));
    }

    // Observers

    @Test
    void metricsAreConfiguredIfMicrometerIsPresent() {
        local().withConfiguration(AutoConfigurations.of(
                        MetricsAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class,
                        SpillgateMetricsAutoConfiguration.class))
                .withBean(SimpleMeterRegistry.class)
                .withPropertyValues("spillgate.name=shop")
                .run(context -> {
                    MeterRegistry registry = context.getBean(MeterRegistry.class);
                    assertThat(registry.get("spillgate.fallbacks")
                                    .tag("limiter", "shop")
                                    .functionCounter())
                            .isNotNull();
                    assertThat(context).hasSingleBean(RuleMetrics.class);
                });
        local().withConfiguration(AutoConfigurations.of(SpillgateMetricsAutoConfiguration.class))
                .withClassLoader(new FilteredClassLoader(MeterRegistry.class))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("spillgateRuleMetrics"));
    }

    @Test
    void listenersOfDecisionsGetThoseOfTheLimiter() {
        Queue<Decision> heard = new ConcurrentLinkedQueue<>();
        DecisionListener listener = (name, decision, took) -> heard.add(decision);
        local().withBean(DecisionListener.class, () -> listener).run(context -> {
            RateLimiter limiter = context.getBean(RateLimiter.class);
            Decision decision =
                    limiter.tryAcquire(Charge.of("a", Limit.perHour(1))).block(LONG);
            assertThat(heard).containsExactly(decision);
        });
        local().withBean(DecisionListener.class, () -> listener)
                .withPropertyValues("spillgate.enabled=false")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void aRealCostLeavesAtMostTheConfiguredDebt() {
        Charge charge = Charge.of("a", Limit.perHour(10));
        local().withPropertyValues("spillgate.debt=0.5").run(context -> {
            RateLimiter limiter = context.getBean(RateLimiter.class);
            limiter.settle(limiter.tryAcquire(charge).block(LONG), 100).block(LONG);
            assertThat(limiter.peek(charge).block(LONG).limits().get(0).used()).isEqualTo(15);
        });
    }

    @Test
    void permitsAreHeldForTheConfiguredTimeAtMost() {
        Charge charge = Charge.of("a", Limit.concurrent(1).hold(Limit.SHORTEST_HOLD));
        Queue<String> expired = new ConcurrentLinkedQueue<>();
        local().withPropertyValues("spillgate.longest-hold=1ms").run(context -> {
            RateLimiter limiter = context.getBean(RateLimiter.class);
            limiter.keepHolding(limiter.tryAcquire(charge).block(LONG), why -> expired.add(why.getMessage()));
            await().atMost(LONG).until(() -> !expired.isEmpty());
            assertThat(expired.peek()).endsWith("the longest hold time has passed");
        });
    }

    @Test
    void observationsAreConfiguredIfEnabled() {
        String on = "spillgate.observations.enabled=true";
        ReactiveWebApplicationContextRunner traced =
                local().withConfiguration(AutoConfigurations.of(SpillgateObservationsAutoConfiguration.class));
        traced.withBean(ObservationRegistry.class, ObservationRegistry::create)
                .withPropertyValues(on)
                .run(context -> assertThat(context).hasSingleBean(RuleObservations.class));
        for (String off : List.of("spillgate.name=a", "spillgate.observations.enabled=false")) {
            traced.withBean(ObservationRegistry.class, ObservationRegistry::create)
                    .withPropertyValues(off)
                    .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("spillgateRuleObservations"));
        }
        traced.withPropertyValues(on)
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("spillgateRuleObservations"));
        traced.withClassLoader(new FilteredClassLoader("io.micrometer"))
                .withPropertyValues(on)
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("spillgateRuleObservations"));
    }

    @ParameterizedTest
    @CsvSource({
        "spillgate.enabled=true, DEGRADED",
        "spillgate.health.during-fallback=up, UP",
        "spillgate.health.during-fallback=degraded, DEGRADED",
        "spillgate.health.during-fallback=down, DOWN"
    })
    void theHealthIndicatorReportsAFallback(String setting, String status) {
        runner.withConfiguration(AutoConfigurations.of(SpillgateHealthAutoConfiguration.class))
                .withPropertyValues("spring.data.redis.url=redis://localhost:1", setting)
                .run(context -> await().atMost(LONG).untilAsserted(() -> {
                    Health health = context.getBean(ReactiveHealthIndicator.class)
                            .health()
                            .block(LONG);
                    assertThat(health.getStatus().getCode()).isEqualTo(status);
                    assertThat(health.getDetails())
                            .containsEntry("source", Source.LOCAL)
                            .containsKeys("breaker", "problem");
                }));
    }

    @Test
    void theHealthIndicatorNamesWhatRedisRefusesAndTheRemedy() {
        runner.withConfiguration(AutoConfigurations.of(SpillgateHealthAutoConfiguration.class))
                .withPropertyValues("spillgate.redis.uri=" + redis() + "/99")
                .run(context -> await().atMost(LONG).untilAsserted(() -> {
                    Health health = context.getBean(ReactiveHealthIndicator.class)
                            .health()
                            .block(LONG);
                    assertThat(health.getStatus().getCode()).isEqualTo("DEGRADED");
                    assertThat(health.getDetails().get("problem"))
                            .asString()
                            .contains("DB index is out of range", "expected a URI with a database of this Redis");
                }));
    }

    @Test
    void theHealthIndicatorReportsTheSource() {
        runner.withConfiguration(AutoConfigurations.of(SpillgateHealthAutoConfiguration.class))
                .withPropertyValues("spillgate.redis.uri=" + redis())
                .run(context -> await().atMost(LONG)
                        .untilAsserted(() -> assertThat(context.getBean(ReactiveHealthIndicator.class)
                                        .health()
                                        .block(LONG)
                                        .getDetails())
                                .containsEntry("source", Source.REDIS)));
        local().withConfiguration(AutoConfigurations.of(SpillgateHealthAutoConfiguration.class))
                .withClassLoader(new FilteredClassLoader(ReactiveHealthIndicator.class))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("spillgateHealthIndicator"));
    }

    // Spring Cloud Gateway.

    @Test
    void theGatewayLimiterExistsOnlyWithSpringCloudGateway() {
        local().withConfiguration(AutoConfigurations.of(SpillgateGatewayAutoConfiguration.class))
                .withClassLoader(new FilteredClassLoader("org.springframework.cloud"))
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .hasSingleBean(RateLimiter.class)
                        .doesNotHaveBean("spillgateRateLimiter"));
        local().withConfiguration(AutoConfigurations.of(
                        SslAutoConfiguration.class,
                        GatewayAutoConfiguration.class,
                        SpillgateGatewayAutoConfiguration.class))
                .run(context -> assertThat(context).hasNotFailed().hasBean("spillgateRateLimiter"));
    }

    // What is wrong.

    @Test
    void anInvalidValueIsReportedWithItsProperty() {
        for (Wrong wrong : List.of(
                new Wrong("spillgate.rules[0].paths", "/a/{b", "spillgate.rules[0].paths[0]", "is not a path pattern"),
                new Wrong(
                        "spillgate.rules[0].key", "adress", "spillgate.rules[0].key", "cannot be read at character 1"),
                new Wrong(
                        "spillgate.rules[0].key",
                        "bean:missing",
                        "spillgate.rules[0].key",
                        "rule \"login\": there is no such bean of type KeySource: expected one of tenantKey"),
                new Wrong(
                        "spillgate.rules[0].key",
                        "hashed(address)",
                        "spillgate.rules[0].key",
                        "as spillgate.secret in Spring Boot"),
                new Wrong(
                        "spillgate.rules[0].key",
                        "header:X Api",
                        "spillgate.rules[0].key",
                        "a name has no space in it, for example header:X-Api-Key"),
                new Wrong(
                        "spillgate.rules[0].limits",
                        "",
                        "spillgate.rules[0].limits",
                        "rule \"login\": the rule has no limit: expected one or more, for example 120/1m"),
                new Wrong(
                        "spillgate.rules[0].limits",
                        "5/1m, 10/1m",
                        "spillgate.rules[0].limits",
                        "share their count, 1m: expected another name for one of them, for example 10/1m name=burst"),
                new Wrong(
                        "spillgate.rules[0].limits-from",
                        "plns",
                        "spillgate.rules[0].limits-from",
                        "there is no such bean of type Rule.LimitSource: did you mean plans? Expected one of plans"),
                new Wrong(
                        "spillgate.rules[0].limits-from",
                        "costs",
                        "spillgate.rules[0].limits-from",
                        "the bean is not of type Rule.LimitSource: expected one of plans"),
                new Wrong("spillgate.rules[0].limits-from", "none", "spillgate.rules[0].limits-from", "no such bean"),
                new Wrong("spillgate.rules[0].refund-when", "OK", "spillgate.rules[0].refund-when", "status \"OK\""),
                new Wrong("spillgate.rules[0].cost", "-1", "spillgate.rules[0].cost", "is negative"),
                new Wrong(
                        "spillgate.rules[0].cost",
                        "6",
                        "spillgate.rules[0].cost",
                        "cost 6 exceeds limit 5/1m, so every request would be denied: expected at most 5"),
                new Wrong("spillgate.rules[0].name", "log in", "spillgate.rules[0].name", "is not a name"),
                new Wrong("spillgate.rules[0].timeout", "0", "spillgate.rules[0].timeout", "out of range"),
                new Wrong("spillgate.name", "a b", "spillgate.name", "is not a name"),
                new Wrong("spillgate.secret", "short", "spillgate.secret", "is too short: expected at least 16"),
                new Wrong("spillgate.local.share", "2", "spillgate.local.share", "is not a part of a limit"),
                new Wrong(
                        "spillgate.debt",
                        "10.5",
                        "spillgate.debt",
                        "debt 10.5 is out of range: expected 0 to 10 times each limit, for example 1"),
                new Wrong(
                        "spillgate.longest-hold",
                        "0s",
                        "spillgate.longest-hold",
                        "expected more than zero and at most 366 days, for example Duration.ofHours(1)"),
                new Wrong(
                        "spillgate.client-address.header",
                        "forwarded",
                        "spillgate.client-address.trusted-proxies",
                        "no network is trusted"),
                new Wrong(
                        "spillgate.client-address.trusted-proxies",
                        "10.0.0.0/8",
                        "spillgate.client-address.header",
                        "expected x-forwarded-for or forwarded"),
                new Wrong("spillgate.redis.uri", "http://localhost", "spillgate.redis.uri", ""))) {
            ReactiveWebApplicationContextRunner with = wrong.property.equals("spillgate.redis.uri") ? runner : local();
            with.withUserConfiguration(Helpers.class)
                    .withPropertyValues(
                            "spillgate.rules[0].name=login",
                            "spillgate.rules[0].limits=5/1m",
                            wrong.property + "=" + wrong.value)
                    .run(context -> assertThat(context)
                            .getFailure()
                            .rootCause()
                            .satisfies(e -> assertWrong(context.getStartupFailure(), wrong)));
        }
    }

    @Test
    void errorReportsHideSecrets() {
        runner.withPropertyValues(
                        "spillgate.redis.uri=http://user:pa55word@localhost", "spillgate.secret=s3cret-s3cret-s3cret")
                .run(context -> assertThat(new WrongSettingAnalyzer(new StandardEnvironment())
                                .analyze(context.getStartupFailure())
                                .getDescription())
                        .contains("Property: spillgate.redis.uri")
                        .contains("http://…@localhost"));
        runner.withPropertyValues(
                        "spillgate.redis.uri=" + redis(),
                        "spillgate.deadline=2m",
                        "spillgate.secret=s3cret-s3cret-s3cret")
                .run(context -> assertThat(new WrongSettingAnalyzer(new StandardEnvironment())
                                .analyze(context.getStartupFailure())
                                .getDescription())
                        .contains("Value: PT2M")
                        .doesNotContain("s3cret"));
    }

    /** Else the secret would be the placeholder, which anyone can read. */
    @Test
    void anUnresolvedSecretPreventsTheStart() {
        local().withPropertyValues("spillgate.secret=${RATE_LIMIT_SECRET_THAT_IS_NOT_SET}")
                .run(context -> assertThat(new WrongSettingAnalyzer(new StandardEnvironment())
                                .analyze(context.getStartupFailure())
                                .getDescription())
                        .contains("Property: spillgate.secret")
                        .contains("${RATE_LIMIT_SECRET_THAT_IS_NOT_SET} has no value: expected"));
        local().withPropertyValues("spillgate.secret=${RATE_LIMIT_SECRET_THAT_IS_SET}")
                .withSystemProperties("RATE_LIMIT_SECRET_THAT_IS_SET=0123456789abcdef")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void everyListenerIsNotifiedOfARefusal() {
        local().withConfiguration(AutoConfigurations.of(SpillgateMetricsAutoConfiguration.class))
                .withBean(SimpleMeterRegistry.class)
                .withPropertyValues(
                        "spillgate.rules[0].name=key",
                        "spillgate.rules[0].key=header:X-Api-Key",
                        "spillgate.rules[0].when-missing=deny",
                        "spillgate.rules[0].limits=5/1m")
                .run(context -> {
                    MockServerWebExchange exchange = MockServerWebExchange.from(MockServerHttpRequest.get("/"));
                    context.getBeansOfType(RateLimitWebFilter.class)
                            .values()
                            .forEach(filter -> filter.filter(exchange, next -> Mono.empty())
                                    .block(LONG));
                    assertThat(context.getBean(MeterRegistry.class)
                                    .get("spillgate.refused")
                                    .counter()
                                    .count())
                            .isEqualTo(1);
                });
    }

    @Test
    void twoRulesOfOneNameAreRejected() {
        local().withPropertyValues(
                        "spillgate.rules[0].name=login",
                        "spillgate.rules[0].limits=5/1m",
                        "spillgate.rules[1].name=login",
                        "spillgate.rules[1].limits=6/1m")
                .run(context -> assertWrong(
                        context.getStartupFailure(),
                        new Wrong("", "login", "spillgate.rules[1].name", "another rule has this name")));
    }

    @Test
    void limitsOfOneNameAreRejected() {
        local().withPropertyValues(
                        "spillgate.rules[0].name=a",
                        "spillgate.rules[0].limits=1/1m name=b-1m",
                        "spillgate.rules[1].name=a-b",
                        "spillgate.rules[1].limits=1/1m")
                .run(context -> assertWrong(
                        context.getStartupFailure(),
                        new Wrong("", "a, a-b", "spillgate.rules", "both have a limit that is called a-b-1m")));
    }

    @Test
    void aMissingLimitIsReportedForARuleWithAPhase() {
        local().withPropertyValues("spillgate.rules[0].name=login", "spillgate.rules[0].phase=after-authentication")
                .run(context -> assertWrong(
                        context.getStartupFailure(),
                        new Wrong("", "", "spillgate.rules[0].limits", "the rule has no limit")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "redis://:pa55^word@localhost:6379",
                "redis://:pa%zz55word@localhost:6379",
                "redis://:first@pa55word@localhost:x",
                "redis:///:pa55word@localhost^",
                "redis:user:pa55word@localhost"
            })
    void startupErrorsHideThePasswordOfRedis(String uri) {
        runner.withPropertyValues("spillgate.redis.uri=" + uri).run(context -> {
            Throwable failure = context.getStartupFailure();
            WrongSettingException wrong = wrongSetting(failure);
            assertThat(wrong.value() + " " + wrong.why()).doesNotContain("55word");
            assertThat(Throwables.getStackTrace(failure)).contains("redis").doesNotContain("55word");
        });
    }

    private static void assertWrong(Throwable failure, Wrong wrong) {
        wrongSetting(failure);
        assertThat(new WrongSettingAnalyzer(new StandardEnvironment())
                        .analyze(failure)
                        .getDescription())
                .contains("Property: " + wrong.told)
                .contains("Reason: ")
                .contains(wrong.reason);
    }

    static WrongSettingException wrongSetting(Throwable failure) {
        Throwable e = failure;
        while (e != null && !(e instanceof WrongSettingException)) {
            e = e.getCause();
        }
        assertThat(e).as("the error of %s", failure).isNotNull();
        return (WrongSettingException) e;
    }

    private ReactiveWebApplicationContextRunner local() {
        return runner.withPropertyValues("spillgate.store=local");
    }

    private static String redis() {
        return RedisForTests.first().uri().toURI().toString();
    }

    /** A connection may take longer than the deadline of the first decision. */
    private static void assertRedisDecides(RateLimiter limiter) {
        await().atMost(LONG).untilAsserted(() -> assertThat(source(limiter)).isEqualTo(Source.REDIS));
    }

    private static Source source(RateLimiter limiter) {
        Decision decision = limiter.tryAcquire(Charge.of("somebody", Limit.perMinute(1_000)))
                .block(LONG);
        return decision.source();
    }

    private record Wrong(String property, String value, String told, String reason) {}

    @Configuration
    static class Helpers {

        @Bean
        Rule.LimitSource plans() {
            return (match, key) -> Mono.just(List.of(Limit.perDay(1_000)));
        }

        @Bean
        Rule.CostSource costs() {
            return match -> Mono.just(2L);
        }

        @Bean
        Predicate<RuleMatch> internal() {
            return match -> false;
        }

        @Bean
        KeySource tenantKey() {
            return match -> Mono.just("tenant");
        }

        @Bean
        RuleListener listener() {
            return (match, outcome, decision, took) -> {};
        }
    }
}
