package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.http.Rules;
import io.github.spillgate.webflux.RateLimitWebFilter;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
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

    private static void ask(ApplicationContext context, MockServerHttpRequest.BaseBuilder<?> request) {
        assertThat(context.getBean(Rules.class).list()).hasSize(1);
        List<RateLimitWebFilter> filters =
                List.copyOf(context.getBeansOfType(RateLimitWebFilter.class).values());
        MockServerWebExchange exchange = MockServerWebExchange.from(request);
        filters.forEach(filter -> filter.filter(exchange, next -> Mono.empty()).block());
    }
}
