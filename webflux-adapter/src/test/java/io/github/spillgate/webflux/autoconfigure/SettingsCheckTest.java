package io.github.spillgate.webflux.autoconfigure;

import static io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfigurationTest.wrongSetting;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.settings.WrongSettingException;
import java.util.AbstractMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.context.ApplicationContextException;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;

/** Settings that do not exist, and values that they cannot have. */
@ExtendWith(OutputCaptureExtension.class)
class SettingsCheckTest {

    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    SpillgateAutoConfiguration.class))
            .withPropertyValues(
                    "spillgate.store=local", "spillgate.rules[0].name=login", "spillgate.rules[0].limits=5/1m");

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    spillgate.storee                     | did you mean store? Expected one of enabled, name, store,
                    spillgate.rule[0].name               | did you mean rules?
                    spillgate.rules[0].path              | rule "login": there is no such setting: did you mean paths? Expected one of name, paths,
                    spillgate.rules[0].when-mising       | rule "login": there is no such setting: did you mean when-missing?
                    spillgate.rules[0].whenMising        | did you mean when-missing?
                    spillgate.rules[0].colour            | there is no such setting: expected one of name, paths,
                    spillgate.rules.login.limits         | spillgate.rules is a list: expected, for example, spillgate.rules[0].name
                    spillgate.rules[0].paths[0].pattern  | spillgate.rules[0].paths[0] has no settings below it
                    spillgate.client-address.trustedproxy| did you mean trusted-proxies?
                    spillgate.redis.host                 | expected one of uri, cluster, namespace
                    spillgate.name.first                 | spillgate.name has no settings below it
                    rules[0].limits                      | did you mean spillgate.rules[0].limits?
                    spilgate.rules[0].limits             | did you mean spillgate.rules[0].limits?
                    spillgates.client-address.max-hops   | did you mean spillgate.client-address.max-hops?
                    """)
    void anUnknownPropertyPreventsTheStart(String property, String reason) {
        String value = property.equals("rules[0].limits") ? "5/1m" : "s3cret";
        runner.withPropertyValues(property + "=" + value).run(context -> {
            WrongSettingException wrong = wrongSetting(context.getStartupFailure());
            assertThat(wrong.setting()).isEqualTo(property);
            assertThat(wrong.why()).contains(reason);
            assertThat(wrong.value()).doesNotContain("s3cret");
        });
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
                    spillgate.rules[0].when-missing  | ignore  | rule "login": found "ignore": expected one of
                    spillgate.rules[0].when-missing  | skipp   | did you mean skip? Expected one of
                    spillgate.store                  | lokal   | found "lokal": did you mean local? Expected one of auto, postgres, local
                    spillgate.client-address.header  | X-Real  | expected one of none, x-forwarded-for, forwarded
                    spillgate.deadline               | 5       | found "5", which has no unit: expected a time with its unit, for example 5ms or 5s
                    spillgate.ready-timeout          | 5 sec   | found "5 sec": expected a time with its unit, for example 100ms
                    spillgate.deadline               | 50us    | deadline PT0.00005S is out of range: expected at least 1 ms
                    spillgate.deadline               | 0       | deadline PT0S is out of range: expected at least 1 ms
                    spillgate.cache-denials          | 2m      | cacheDenials PT2M is out of range
                    spillgate.rules[0].timeout       | 20      | rule "login": found "20", which has no unit
                    spillgate.rules[0].limits        | 5/1m, often | rule "login": limit "often"
                    spillgate.rules[0].key           | path:id | rule "login": no path of the rule has the variable id: expected one that has, for example /users/{id}
                    spillgate.rules[0].key           | address + path:id | no path of the rule has the variable id
                    spillgate.rules[0].phase         | before  | rule "login": found "before": expected one of before-authentication, after-authentication
                    spillgate.rules[0].methods       | GETT    | rule "login": method "GETT" is not registered for HTTP: did you mean GET?
                    spillgate.rules[0].methods       | PURGE   | one of GET, HEAD, POST, PUT, PATCH,
                    """)
    void aValueThatASettingCannotHaveIsReportedWithItsRuleAndTheRightOnes(
            String property, String value, String reason) {
        runner.withPropertyValues(property + "=" + value).run(context -> {
            WrongSettingException wrong = wrongSetting(context.getStartupFailure());
            assertThat(wrong.setting()).isEqualTo(property);
            assertThat(wrong.why()).contains(reason);
        });
    }

    @Test
    void everySpellingOfSpringBootIsAccepted() {
        runner.withPropertyValues(
                        "SPILLGATE.Store=Local",
                        "spill-gate.rules[0].refundWhen[0]=2xx",
                        "spillgate.readyTimeout=0",
                        "spillgate.deadline=PT0.5S",
                        "spillgate.longest-hold=1d",
                        "spillgate.rules[0].limits=${limits:7/1m}",
                        "spillgate.rules[0].paths=/a/{user}, /b/{*id}, /c/{id:[0-9]+}",
                        "spillgate.rules[0].key=path:id | path:user",
                        "spillgate.rules[0].refund_when[1]=${other:404}",
                        "spillgate.rules[0].WHEN-MISSING=${missing:Skip}",
                        "spillgate.rules[0].methods=get, Query, version-control",
                        "spillgate.clientAddress.ipv6Prefix=56",
                        "spillgate.client-address.header=X_FORWARDED_FOR",
                        "spillgate.client-address.trusted-proxies[0]=10.0.0.0/8")
                .run(context -> assertThat(context.getBean(Rules.class).list())
                        .singleElement()
                        .extracting(Rule::methods)
                        .asString()
                        .isEqualTo("[GET, QUERY, VERSION-CONTROL]"));
    }

    /** Spring Boot reads a list from one source only, and a placeholder may be resolved when the application runs. */
    @Test
    void aValueThatSpringBootDoesNotReadYetIsAccepted() {
        runner.withInitializer(context -> context.getEnvironment()
                        .getPropertySources()
                        .addLast(new MapPropertySource(
                                "defaults",
                                Map.of(
                                        "spillgate.rules[0].when-missing", "never",
                                        "spillgate.rules[1].when-missing", "never",
                                        "spillgate.fallback", "${NOT_THERE_YET:local}"))))
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void aSourceThatCannotListItsNamesIsSkipped() {
        runner.withInitializer(context -> context.getEnvironment()
                        .getPropertySources()
                        .addLast(new MapPropertySource("opaque", new AbstractMap<>() {
                            @Override
                            public Set<Entry<String, Object>> entrySet() {
                                throw new UnsupportedOperationException("not to be listed");
                            }

                            @Override
                            public @Nullable Object get(Object key) {
                                return null;
                            }

                            @Override
                            public boolean containsKey(Object key) {
                                return false;
                            }
                        })))
                .run(context -> assertThat(context).hasNotFailed());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "x-spillgate.store",
                "spillgate2.enabled",
                "spillgate-ui.name",
                "spillgateway.enabled",
                "spillage.name",
                "millgate.name",
                "split-gate.name",
                "tailgate.rules[0].name",
                "stillgate.colour",
                "management.health.spillgate.enabled",
                "shop.spillgate.storee",
                "spillgated"
            })
    void aPropertyOfTheApplicationIsNotChecked(String property) {
        runner.withPropertyValues(property + "=true")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @ParameterizedTest
    @ValueSource(strings = {"rules[0].limits=3", "rules[0].limit=5/1m", "rules.login.limits=5/1m", "rules=5/1m"})
    void otherRulesAtTheRootAreTheApplications(String property) {
        runner.withPropertyValues(property).run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void aRootThatIsNearOursIsTheApplicationsIfAClassReadsIt() {
        runner.withUserConfiguration(Skillgate.class)
                .withPropertyValues("skillgate.redis.uri=redis://skills")
                .run(context -> assertThat(context).hasNotFailed());
    }

    /** Spring Boot binds a class without a prefix to the root. */
    @Test
    void rulesAtTheRootAreTheApplicationsIfAClassWithoutAPrefixReadsThem() {
        runner.withUserConfiguration(RootSettings.class)
                .withPropertyValues("rules[0].limits=5/1m")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(context.getBean(RootSettings.Settings.class).rules())
                            .isEqualTo(List.of(Map.of("limits", "5/1m")));
                });
    }

    @EnableConfigurationProperties(RootSettings.Settings.class)
    static class RootSettings {

        @ConfigurationProperties
        record Settings(List<Map<String, String>> rules) {}
    }

    /** A parent context may read what all of its children see. */
    @Test
    void rulesAtTheRootAreTheApplicationsIfAParentContextReadsThem() {
        new ApplicationContextRunner()
                .withUserConfiguration(RulesSettings.class)
                .withPropertyValues("rules[0].limits=5/1m")
                .run(parent -> runner.withParent(parent)
                        .withPropertyValues("rules[0].limits=5/1m")
                        .run(context -> assertThat(context).hasNotFailed()));
    }

    @EnableConfigurationProperties(RulesSettings.Settings.class)
    static class RulesSettings {

        @ConfigurationProperties("rules")
        record Settings(@Nullable String other) {}
    }

    @Test
    void variablesOfTheEnvironmentAreCheckedOnlyInRules() {
        Map<String, Object> foreign = Map.of(
                "SPILLGATE_SERVICE_HOST", "10.0.0.1",
                "SPILLGATE_REDIS_SERVICE_PORT", "6379",
                "SPILLGATE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1",
                "SPILLGATE_STOREE", "local");
        assertThat(started(foreign)).isNull();
        assertThat(started(Map.of(
                        "SPILLGATE_RULES_0_NAME", "login",
                        "SPILLGATE_RULES_0_LIMITS", "5/1m",
                        "SPILLGATE_RULES_0_PATHS_0", "/login",
                        "SPILLGATE_RULES_0_WHENMISSING", "skip",
                        "SPILLGATE_RULES_0_REFUND_WHEN", "2xx")))
                .isNull();
        assertThat(started(Map.of("SPILLGATE_RULES_0_PATH", "/login")))
                .hasMessageContaining("SPILLGATE_RULES_0_PATH: there is no such setting: did you mean paths?");
        assertThat(started(Map.of("SPILLGATE_RULES_0_NAME", "login", "SPILLGATE_RULES_0_WHENMISSING", "ignore")))
                .hasMessageContaining("spillgate.rules[0].when-missing: rule \"login\": found \"ignore\"");
    }

    /** Of the check alone, with these variables in the place of the machine's. */
    private static Throwable started(Map<String, Object> variables) {
        ConfigurableEnvironment environment = new StandardEnvironment();
        environment
                .getPropertySources()
                .replace(
                        StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME,
                        new SystemEnvironmentPropertySource(
                                StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME, variables));
        try {
            new SettingsCheck(environment).postProcessBeanFactory(new DefaultListableBeanFactory());
            return null;
        } catch (WrongSettingException e) {
            return e;
        }
    }

    @Test
    void aReportNamesTheFileAndTheLine(CapturedOutput output) {
        assertThat(fails("--spring.config.name=misspelt-service")).isTrue();
        assertThat(output.getAll())
                .contains("APPLICATION FAILED TO START")
                .contains("Property: spillgate.rules[0].path\n")
                .contains("Origin: class path resource [misspelt-service.yaml]")
                .contains("- 5:13")
                .contains("Reason: rule \"login\": there is no such setting: did you mean paths? Expected one of name, "
                        + "paths,");
    }

    @Test
    void anArgumentOfTheCommandLineIsCheckedToo(CapturedOutput output) {
        assertThat(fails("--spillgate.storee=local")).isTrue();
        assertThat(output.getAll())
                .contains("Property: spillgate.storee\n")
                .contains("Origin: \"spillgate.storee\" from property source \"commandLineArgs\"");
    }

    /** Spring has an analyzer of its own for patterns, which names neither the setting nor the rule. */
    @Test
    void aPatternThatSpringCannotReadIsReportedWithItsSetting(CapturedOutput output) {
        assertThat(fails(
                        "--spillgate.rules[0].name=login",
                        "--spillgate.rules[0].limits=5/1m",
                        "--spillgate.rules[0].paths[0]=/{a}/{a}"))
                .isTrue();
        assertThat(output.getAll())
                .contains("Property: spillgate.rules[0].paths[0]\n")
                .contains("Value: /{a}/{a}\n")
                .contains("Origin: \"spillgate.rules[0].paths[0]\" from property source \"commandLineArgs\"")
                .contains("Reason: rule \"login\": ")
                .contains("Not allowed to capture 'a' twice in the same pattern");
    }

    private static boolean fails(String... arguments) {
        try (ConfigurableApplicationContext running = new SpringApplicationBuilder(Application.class)
                .properties("server.port=0", "spillgate.store=local")
                .run(arguments)) {
            return !running.isRunning();
        } catch (WrongSettingException | ApplicationContextException | BeanCreationException e) {
            return true;
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Application {}

    @EnableConfigurationProperties(Skillgate.Settings.class)
    static class Skillgate {

        @ConfigurationProperties("skillgate.redis")
        record Settings(String uri) {}
    }
}
