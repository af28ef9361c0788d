package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.webflux.RateLimitWebFilter;
import io.github.spillgate.webflux.RateLimited;
import java.lang.reflect.Proxy;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

@ExtendWith(OutputCaptureExtension.class)
class SpillgateAutoConfigurationWarningTest {

    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    SpillgateAutoConfiguration.class))
            .withPropertyValues(
                    "spillgate.store=local", "spillgate.rules[0].name=address", "spillgate.rules[0].limits=100/1m");

    @Test
    void aForwardingHeaderWithoutATrustedProxyIsLoggedOnce(CapturedOutput output) {
        runner.run(context -> {
            for (int i = 0; i < 3; i++) {
                ask(context, MockServerHttpRequest.get("/").header("X-Forwarded-For", "192.0.2.7"));
            }
        });
        assertThat(output.getAll())
                .containsOnlyOnce("no proxy is trusted")
                .contains("expected spillgate.client-address.header and trusted-proxies if");
    }

    @Test
    void proxiesThatABeanTrustsAreNoDoubt(CapturedOutput output) {
        runner.withBean(ClientAddress.class, () -> ClientAddress.ofXForwardedFor("10.0.0.0/8"))
                .run(context -> ask(context, MockServerHttpRequest.get("/").header("X-Forwarded-For", "192.0.2.7")));
        assertThat(output.getAll()).doesNotContain("no proxy is trusted");
    }

    @Test
    void aStrategyThatHidesTheProxiesIsDoubted(CapturedOutput output) {
        runner.withPropertyValues(
                        "server.forward-headers-strategy=framework",
                        "spillgate.client-address.header=x-forwarded-for",
                        "spillgate.client-address.trusted-proxies=10.0.0.0/8")
                .run(context -> {});
        assertThat(output.getAll()).containsOnlyOnce("removes the headers of proxies before the limiter sees them");
    }

    @Test
    void forwardHeadersOfReactorNettyLogNoWarning(CapturedOutput output) {
        runner.withPropertyValues("server.forward-headers-strategy=native").run(context -> {});
        runner.withPropertyValues("spring.main.cloud-platform=kubernetes").run(context -> {});
        assertThat(output.getAll()).doesNotContain("forward-headers-strategy");
    }

    /** Reactor Netty is there all the same, as it is for the sake of a WebClient. */
    @Test
    void forwardHeadersOfOtherServersLogAWarning(CapturedOutput output) {
        ReactiveWebApplicationContextRunner there = runner.withClassLoader(
                        new FilteredClassLoader("org.springframework.boot.reactor.netty"))
                .withPropertyValues("spring.main.cloud-platform=kubernetes");
        there.withPropertyValues("server.forward-headers-strategy=none").run(context -> {});
        assertThat(output.getAll()).doesNotContain("takes the client's address");
        there.run(context -> {});
        assertThat(output.getAll())
                .containsOnlyOnce("server.forward-headers-strategy=native (which is not set, but taken on KUBERNETES)"
                        + " takes the client's address from a header");
        there.withPropertyValues("server.forward-headers-strategy=native").run(context -> {});
        assertThat(output.getAll()).containsOnlyOnce("-strategy=\"native\" takes the client's address from a header");
    }

    @Test
    void theStartIsLoggedWithWhatIsInForce(CapturedOutput output) {
        runner.withPropertyValues(
                        "spillgate.name=shop",
                        "spillgate.rules[1].name=login",
                        "spillgate.rules[1].limits=5/15m, 2 concurrent",
                        "spillgate.rules[1].shadow=true")
                .withUserConfiguration(Annotated.class)
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output.getAll())
                .containsOnlyOnce("Rules [address: 100/1m; login (shadow): 5/15m, 2 concurrent] and @RateLimited"
                        + " [reports: 3/1s] use RateLimiter[shop, store=LocalStore] (bean spillgateLimiter)\n");
    }

    @Test
    void limitersBesideThatOfTheRulesAreLogged(CapturedOutput output) {
        runner.withUserConfiguration(LimiterBeansTest.TwoLimiters.class)
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output.getAll()).containsOnlyOnce("(bean spillgateLimiter); other limiters: [mail, partner]\n");
    }

    @Test
    void aDisabledLimiterIsLogged(CapturedOutput output) {
        runner.withPropertyValues("spillgate.enabled=false").run(context -> {});
        assertThat(output.getAll()).containsOnlyOnce("No request is limited (spillgate.enabled=false)");
    }

    @Test
    void aRedisThatAStoreOfTheApplicationReplacesIsLogged(CapturedOutput output) {
        runner.withUserConfiguration(LimiterBeansTest.OwnStore.class)
                .withPropertyValues("spillgate.store=auto", "spillgate.redis.uri=redis://localhost:1")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output.getAll())
                .containsOnlyOnce("spillgate.redis.uri has no effect, because the bean own is the store: expected only"
                        + " one of them, or @Bean(defaultCandidate = false) on a store for other limiters");
    }

    @Test
    void aRuleForUsersWithoutSpringSecurityIsWarnedOf(CapturedOutput output) {
        ReactiveWebApplicationContextRunner users =
                runner.withPropertyValues("spillgate.rules[0].key=principal | address");
        users.run(context -> assertThat(context).hasNotFailed());
        assertThat(output.getAll()).doesNotContain("Spring Security");
        users.withClassLoader(new FilteredClassLoader("org.springframework.security"))
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output.getAll())
                .containsOnlyOnce("rule address: its key needs an authenticated user, and Spring Security is not on"
                        + " the class path: expected spring-boot-starter-security, a filter of your own that sets the"
                        + " principal, or another key, for example address");
    }

    /** A limit on such a method would silently be none. */
    @ParameterizedTest
    @ValueSource(classes = {Mailer.class, MailerOfAClass.class, Helper.class})
    void anAnnotationThatNoRequestReachesPreventsTheStart(Class<?> type) {
        runner.withUserConfiguration(type).run(context -> {
            WrongSettingException wrong = SpillgateAutoConfigurationTest.wrongSetting(context.getStartupFailure());
            assertThat(wrong.setting()).isEqualTo("@RateLimited");
            assertThat(wrong.why())
                    .contains("." + type.getSimpleName())
                    .endsWith("no request is mapped to it, so it limits nothing: expected it on a controller or its"
                            + " methods with @GetMapping and the like; elsewhere call limiter.tryAcquire(\"ann\")");
        });
    }

    @Test
    void anAnnotationOnAnInterfaceIsNotTakenForAMistake() {
        runner.withUserConfiguration(Implementing.class)
                .withBean(Client.class, () -> (Client) Proxy.newProxyInstance(
                        Client.class.getClassLoader(), new Class<?>[] {Client.class}, (self, method, given) -> null))
                .run(context -> assertThat(context).hasNotFailed());
    }

    /** The compiler copies the annotation to the bridge method {@code find(Object)}, which no request is mapped to. */
    @Test
    void anAnnotationOnAMethodOfAGenericInterfaceIsNotTakenForAMistake() {
        runner.withUserConfiguration(OfAGenericInterface.class)
                .run(context -> assertThat(context).hasNotFailed());
    }

    /** As on the other methods of an interface. */
    @Test
    void anAnnotationOnADefaultMethodOfAnInterfaceIsNotTakenForAMistake() {
        runner.withUserConfiguration(ClientOfAnInterface.class)
                .run(context -> assertThat(context).hasNotFailed());
    }

    interface Finding<T> {

        Mono<String> find(T id);
    }

    @RestController
    static class OfAGenericInterface implements Finding<String> {

        @Override
        @RateLimited("5/1s")
        @GetMapping("/found/{id}")
        public Mono<String> find(@PathVariable String id) {
            return Mono.just(id);
        }
    }

    interface WithDefault {

        @GetMapping("/pets")
        @RateLimited("3/1s")
        default Mono<String> pets() {
            return Mono.empty();
        }
    }

    /** Not a controller: calls the service over HTTP. */
    static class ClientOfAnInterface implements WithDefault {}

    static class Mailer {

        @RateLimited("5/1s")
        public void send() {}
    }

    @RateLimited("5/1s")
    static class MailerOfAClass {

        public void send() {}
    }

    @RestController
    static class Helper {

        @GetMapping("/helped")
        Mono<String> helped() {
            return Mono.empty();
        }

        @RateLimited("5/1s")
        void help() {}
    }

    @RestController
    static class Annotated {

        @GetMapping("/reports")
        @RateLimited(value = "3/1s", name = "reports")
        Mono<String> reports() {
            return Mono.empty();
        }
    }

    interface Client {

        @GetMapping("/shared")
        @RateLimited("3/1s")
        Mono<String> shared();
    }

    @RestController
    static class Implementing implements Client {

        @Override
        public Mono<String> shared() {
            return Mono.empty();
        }
    }

    private static void ask(ApplicationContext context, MockServerHttpRequest.BaseBuilder<?> request) {
        assertThat(context.getBean(Rules.class).list()).hasSize(1);
        List<RateLimitWebFilter> filters =
                List.copyOf(context.getBeansOfType(RateLimitWebFilter.class).values());
        MockServerWebExchange exchange = MockServerWebExchange.from(request);
        filters.forEach(filter -> filter.filter(exchange, next -> Mono.empty()).block());
    }
}
