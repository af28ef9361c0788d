package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.ExchangeRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.security.web.server.firewall.ServerWebExchangeFirewall;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.config.PathMatchConfigurer;
import org.springframework.web.reactive.config.WebFluxConfigurer;
import reactor.core.publisher.Mono;

/**
 * Rules that are about all paths, and the Actuator's health endpoint, on a real server with an application that answers
 * every other path.
 */
class HealthRequestsTest {

    private static final String MINE = "mine";

    private ConfigurableApplicationContext context;

    @AfterEach
    void close() {
        if (context != null) {
            context.close();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "'', true",
        "/**, true",
        "/{*path}, true",
        "/actuator/**, false",
        "/actuator/health, false",
        "/{a}/health, false",
        "/*/*, false"
    })
    void aRuleExceptsHealthUnlessItsPathsNameIt(String paths, boolean excepts) {
        HealthRequests health = new HealthRequests();
        health.map(List.of("/actuator/health"));
        RuleSettings settings = new Binder(
                        new MapConfigurationPropertySource(Map.of("spillgate.rules[0].paths", paths)))
                .bindOrCreate("spillgate", SpillgateProperties.class)
                .rules()
                .get(0);
        Rule rule = Rule.named("all")
                .key(KeySource.constant("all"))
                .limit(Limit.perHour(1))
                .build();
        ExchangeRequest request =
                ExchangeRequest.of(MockServerWebExchange.from(MockServerHttpRequest.get("/actuator/health")));
        assertThat(health.exemptedBy(settings).test(new RuleMatch(rule, request, Map.of())))
                .isEqualTo(excepts);
    }

    @Test
    void aRuleWithoutPathsDoesNotLimitHealthChecks() {
        aRuleForAllPathsDoesNotLimitHealthChecks("");
    }

    @ParameterizedTest
    @Thorough
    @ValueSource(strings = {"/**", "/{*path}"})
    void aRuleForAllPathsDoesNotLimitHealthChecks(String paths) {
        start(
                "--spillgate.rules[0].paths=" + paths,
                "--management.endpoint.health.probes.enabled=true",
                "--management.endpoint.health.probes.add-additional-paths=true");
        useUp();
        for (int i = 0; i < 5; i++) {
            for (String path : List.of(
                    "/actuator/health", "/actuator/health/liveness", "/livez", "/readyz", "/actuator/health?a=b")) {
                assertThat(get(path).statusCode()).as(path).isEqualTo(200);
            }
            assertThat(send("/actuator/health", "HEAD").statusCode()).isEqualTo(200);
        }
        assertThat(get("/actuator/info").statusCode()).isEqualTo(429);
    }

    @Test
    void aRuleForThePathOfHealthLimitsIt() {
        aRuleThatNamesHealthLimitsIt("/actuator/health");
    }

    @ParameterizedTest
    @Thorough
    @ValueSource(strings = {"/actuator/**", "/{a}/health", "/*/*"})
    void aRuleThatNamesHealthLimitsIt(String paths) {
        start("--spillgate.rules[0].paths=" + paths);
        assertThat(get("/actuator/health").statusCode()).isEqualTo(200);
        assertThat(get("/actuator/health").statusCode()).isEqualTo(429);
    }

    @Test
    void theMappedHealthPathIsExcepted() {
        start("--management.endpoints.web.base-path=/manage", "--management.endpoints.web.path-mapping.health=probe");
        useUp();
        assertThat(get("/manage/probe").statusCode()).isEqualTo(200);
        assertThat(get("/actuator/health").statusCode()).isEqualTo(429);
    }

    @Test
    void aMappingWithTwoSlashesExceptsNoOtherPath() {
        aMappingWithExtraSlashesExceptsNoOtherPath("//healthz");
    }

    @ParameterizedTest
    @Thorough
    @ValueSource(strings = {"/healthz", "healthz/"})
    void aMappingWithExtraSlashesExceptsNoOtherPath(String mapping) {
        start("--management.endpoints.web.path-mapping.health=" + mapping);
        useUp();
        assertThat(get("/actuator/healthz").statusCode()).isEqualTo(200);
        for (String path : List.of("/actuator//healthz", "/actuator//healthz/any/thing", "//healthz", "/healthz")) {
            assertThat(get(path).body()).as(path).doesNotContain(MINE);
        }
    }

    @Test
    void anAdditionalPathDoesNotOpenTheRoot() {
        start(
                "--management.endpoint.health.group.g.include=*",
                "--management.endpoint.health.group.g.additional-path=server:/");
        useUp();
        assertThat(get("/").statusCode()).isEqualTo(429);
    }

    @Test
    void theHealthPathIsLimitedWithoutAHealthEndpoint() {
        start("--management.endpoints.web.exposure.exclude=health");
        useUp();
        assertThat(get("/actuator/health").statusCode()).isEqualTo(429);
    }

    @Test
    void onlyAdditionalPathsAreExceptedWithASeparateManagementPort() {
        start(
                "--management.server.port=0",
                "--management.endpoint.health.probes.enabled=true",
                "--management.endpoint.health.probes.add-additional-paths=true");
        useUp();
        assertThat(get("/actuator/health").statusCode()).isEqualTo(429);
        assertThat(get("/livez").statusCode()).isEqualTo(200);
    }

    /** Every one of these either reaches the health endpoint or is limited. */
    @Test
    void noRequestOfTheApplicationPassesByLookingLikeAHealthCheck() {
        start(
                "--management.endpoint.health.probes.enabled=true",
                "--management.endpoint.health.probes.add-additional-paths=true");
        useUp();
        Stream.of(
                        "/ACTUATOR/HEALTH",
                        "/Actuator/health",
                        "/LIVEZ",
                        "//actuator/health",
                        "/actuator//health",
                        "/actuator/health/",
                        "/actuator/health//",
                        "/actuator/health;a=b",
                        "/actuator;a=b/health",
                        "/actuator/health;/../../x",
                        "/actuator/health/../../x",
                        "/actuator/health/..;/..;/x",
                        "/actuator/health/%2e%2e/%2e%2e/x",
                        "/actuator/healthy",
                        "/actuator/health%2Fx",
                        "/actuator%2Fhealth",
                        "/%61ctuator/health",
                        "/actuator/%68ealth",
                        "/actuator/health%00",
                        "/actuator/health%20",
                        "/x/../actuator/health",
                        "/x/actuator/health",
                        "/./actuator/health",
                        "/actuator/health.json",
                        "/livez/",
                        "/livez/x",
                        "/livez;a=b",
                        "/liv%65z",
                        "/x?/actuator/health",
                        "/x;/actuator/health")
                .forEach(path -> assertThat(get(path).body()).as(path).doesNotContain(MINE));
        for (String method : List.of("POST", "PUT", "DELETE", "OPTIONS", "PATCH")) {
            assertThat(send("/actuator/health", method).statusCode()).as(method).isEqualTo(429);
        }
    }

    private void useUp() {
        assertThat(get("/x").body()).isEqualTo(MINE);
        assertThat(get("/x").statusCode()).isEqualTo(429);
    }

    private void start(String... arguments) {
        context = new SpringApplicationBuilder(Application.class)
                .properties(
                        "server.port=0",
                        "server.address=127.0.0.1",
                        "spillgate.store=local",
                        "management.health.defaults.enabled=false",
                        "management.endpoints.web.exposure.include=health,info")
                .run(Stream.concat(
                                Stream.of("--spillgate.rules[0].name=all", "--spillgate.rules[0].limits=1/1h"),
                                Stream.of(arguments))
                        .toArray(String[]::new));
    }

    private HttpResponse<String> get(String path) {
        return send(path, "GET");
    }

    private HttpResponse<String> send(String path, String method) {
        ClientForTests client = BootForTests.client(context);
        return client.send(client.request(path).method(method, BodyPublishers.noBody()));
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Handlers.class})
    static class Application {

        /** Else Spring Security would refuse most of the paths that are tried. */
        @Bean
        ServerWebExchangeFirewall none() {
            return ServerWebExchangeFirewall.INSECURE_NOOP;
        }

        /** The Actuator's paths stay as they are written; the application's, and so those of rules, do not. */
        @Bean
        WebFluxConfigurer inAnyCase() {
            return new WebFluxConfigurer() {
                @Override
                public void configurePathMatching(PathMatchConfigurer paths) {
                    paths.setUseCaseSensitiveMatch(false);
                }
            };
        }
    }

    @RestController
    static class Handlers {

        @RequestMapping("/**")
        Mono<String> all() {
            return Mono.just(MINE);
        }
    }
}
