package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.ShownResponse;
import io.github.spillgate.testkit.ShownTests;
import io.github.spillgate.testkit.Snippets;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateGatewayAutoConfiguration;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.cloud.gateway.config.GatewayAutoConfiguration;
import org.springframework.cloud.gateway.route.Route;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.PropertySource;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.web.server.SecurityWebFilterChain;
import reactor.core.publisher.Mono;

/** What the pages show of WebFlux works. {@code SettingsPageTest} checks the settings. */
class DocumentationTest {

    /** What the snippets take for granted. */
    private static final String AROUND = """
            import static java.nio.charset.StandardCharsets.UTF_8;

            import io.github.spillgate.*;
            import io.github.spillgate.fleet.*;
            import io.github.spillgate.http.*;
            import io.github.spillgate.http.address.*;
            import io.github.spillgate.http.response.*;
            import io.github.spillgate.http.settings.*;
            import io.github.spillgate.local.CachedLimits;
            import io.github.spillgate.metrics.*;
            import io.github.spillgate.spi.LimitStore;
            import io.github.spillgate.webflux.*;
            import io.github.spillgate.webflux.autoconfigure.*;
            import io.netty.handler.timeout.WriteTimeoutHandler;
            import java.time.Duration;
            import java.util.*;
            import java.util.concurrent.atomic.AtomicLong;
            import java.util.function.Predicate;
            import org.junit.jupiter.api.Test;
            import org.springframework.beans.factory.annotation.Autowired;
            import org.springframework.beans.factory.annotation.Qualifier;
            import org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory;
            import org.springframework.boot.web.server.WebServerFactoryCustomizer;
            import org.springframework.boot.webflux.test.autoconfigure.WebFluxTest;
            import org.springframework.http.*;
            import org.springframework.http.server.reactive.ServerHttpResponse;
            import org.springframework.context.annotation.Bean;
            import org.springframework.test.web.reactive.server.WebTestClient;
            import org.springframework.web.bind.annotation.*;
            import org.springframework.web.reactive.function.client.WebClient;
            import org.springframework.web.reactive.function.server.*;
            import org.springframework.web.server.ServerWebExchange;
            import reactor.core.publisher.*;
            import reactor.core.scheduler.Schedulers;

            class Snippet {
                Rules rules;
                RateLimiter limiter;

                interface Plan {
                    long requestsPerDay();
                }

                interface Plans {
                    Mono<Plan> of(String key);
                }

                interface Subscription {
                    long requests();

                    java.time.ZoneId zone();

                    int billingDay();

                    long toppedUp();

                    long overage();
                }

                interface Subscriptions {
                    Mono<Subscription> of(String key);
                }

                interface Mails {
                    void send(String customer, long used, long permits);
                }

                interface Customers {
                    Mono<String> byApiKey(String key);
                }

                record Login(String name, String password) {}

                class Reports {}

                Mono<Boolean> passwordMatches(Login form) {
                    return Mono.just(true);
                }

                Flux<String> model(ServerWebExchange exchange) {
                    return Flux.empty();
                }

            %s
            }
            """;

    private static final Path DOCS = Path.of("..", "docs");

    /** The package of the controller that the slice tests. */
    private static final String IN_PACKAGE = "package io.github.spillgate.webflux.slice;\n\n";

    @TempDir
    Path temp;

    @Test
    void theGettingStartedPageShowsTheActualResponses() throws Exception {
        Path page = DOCS.resolve("getting-started-webflux.md");
        List<ShownResponse> shown = ShownResponse.on(Snippets.of(page, "text"));
        assertThat(shown).extracting(ShownResponse::status).containsExactly(200, 429);
        String settings = Snippets.of(page, "yaml").get(0);
        Snippets.assertCompiles(
                "HelloApplication", Snippets.of(page, "java webflux").get(0), temp);
        ShownTests.call("com.example.hello.HelloApplication", temp, hello -> {
            SpringApplicationBuilder application = new SpringApplicationBuilder(hello, OpenToAll.class)
                    .properties("server.port=0", "server.address=127.0.0.1", "spring.config.name=none")
                    .initializers(context ->
                            sources(settings).forEach(context.getEnvironment().getPropertySources()::addFirst));
            try (ConfigurableApplicationContext context = application.run()) {
                int port =
                        Integer.parseInt(String.valueOf(context.getEnvironment().getProperty("local.server.port")));
                ClientForTests client = ClientForTests.of(port);
                List<ClientForTests.Answer> answers = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    answers.addAll(client.pipelined(List.of("/hello")));
                }
                shown.get(0).assertIs(answers.get(0));
                shown.get(1).assertIs(answers.get(3));
            }
        });
    }

    @Test
    void theSliceThatIsShownLimits() throws Exception {
        List<String> slices = Snippets.of(DOCS.resolve("testing.md"), "java webflux");
        assertThat(slices).hasSize(1);
        Snippets.assertCompiles("ReportsTest", IN_PACKAGE + slices.get(0), temp);
        ShownTests.assertPass("io.github.spillgate.webflux.slice.ReportsTest", temp);
    }

    @TestFactory
    Stream<DynamicTest> javaCompiles() throws IOException {
        return Snippets.all("java webflux").stream()
                .filter(snippet -> !snippet.page().endsWith("testing.md"))
                .map(snippet -> DynamicTest.dynamicTest(
                        snippet.place(),
                        () -> Snippets.assertCompiles(
                                snippet.type("Snippet"),
                                snippet.isFile() ? snippet.text() : AROUND.formatted(snippet.text()),
                                temp)));
    }

    @TestFactory
    Stream<DynamicTest> yamlIsUnderstood() throws IOException {
        return Snippets.all("yaml").stream()
                .map(snippet -> DynamicTest.dynamicTest(snippet.place(), () -> assertStarts(snippet.text())));
    }

    private static void assertStarts(String yaml) {
        List<PropertySource<?>> sources = sources(yaml);
        new ReactiveWebApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        SslAutoConfiguration.class,
                        SpillgateGatewayAutoConfiguration.class,
                        GatewayAutoConfiguration.class,
                        HttpHandlerAutoConfiguration.class,
                        WebFluxAutoConfiguration.class,
                        SpillgateAutoConfiguration.class))
                .withInitializer(context -> sources.forEach(
                        source -> context.getEnvironment().getPropertySources().addLast(source)))
                .withPropertyValues("spillgate.store=local", "RATE_LIMIT_SECRET=0123456789abcdef")
                .withUserConfiguration(Beans.class)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    List<String> names = new ArrayList<>();
                    yaml.lines()
                            .filter(line -> line.strip().startsWith("- name: ") && !line.contains("RequestRateLimiter"))
                            .forEach(line -> names.add(line.strip().substring("- name: ".length())));
                    assertThat(context.getBean(Rules.class).list())
                            .extracting(Rule::name)
                            .containsExactlyElementsOf(names);
                    assertThat(routes(context.getBean(RouteLocator.class)))
                            .containsExactlyElementsOf(yaml.lines()
                                    .filter(line -> line.strip().startsWith("- id: "))
                                    .map(line -> line.strip().substring("- id: ".length()))
                                    .toList())
                            .allMatch(context.getBean(GatewayRateLimiter.class).getConfig()::containsKey);
                });
    }

    private static List<PropertySource<?>> sources(String yaml) {
        try {
            return new YamlPropertySourceLoader()
                    .load("snippet", new ByteArrayResource(yaml.getBytes(StandardCharsets.UTF_8)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<String> routes(RouteLocator locator) {
        return locator.getRoutes().map(Route::getId).collectList().block();
    }

    @Configuration
    static class Beans {

        @Bean
        Rule.LimitSource plans() {
            return (match, key) -> Mono.just(List.of(Limit.perDay(1_000)));
        }

        @Bean
        Rule.LimitSource subscriptions() {
            return (match, key) -> Mono.just(List.of(Limit.monthly(1_000).from(15)));
        }

        @Bean
        Rule.CostSource exportCost() {
            return match -> Mono.just(1L);
        }

        @Bean
        Predicate<RuleMatch> monitoring() {
            return match -> false;
        }

        @Bean
        KeySource tenantKey() {
            return match -> Mono.just("tenant");
        }

        @Bean
        KeySource tenant() {
            return match -> Mono.just("tenant");
        }

        @Bean
        KeySource customer() {
            return match -> Mono.just("customer");
        }
    }

    /** Spring Security is on the class path of the tests, not in the project that the page shows. */
    @Configuration
    static class OpenToAll {

        @Bean
        SecurityWebFilterChain permitAll(ServerHttpSecurity http) {
            return http.csrf(ServerHttpSecurity.CsrfSpec::disable)
                    .headers(ServerHttpSecurity.HeaderSpec::disable)
                    .authorizeExchange(exchanges -> exchanges.anyExchange().permitAll())
                    .build();
        }
    }
}
