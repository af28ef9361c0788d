package io.github.spillgate.webflux;

import io.github.spillgate.testkit.ClientForTests;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.client.ReactorResourceFactory;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.web.server.SecurityWebFilterChain;

/** The beans that applications of Spring Boot need in tests, and a client of such an application. */
@Configuration(proxyBeanMethods = false)
public class BootForTests {

    /** The global event loops end with the first application that is closed. */
    @Bean
    ReactorResourceFactory loops() {
        ReactorResourceFactory loops = new ReactorResourceFactory();
        loops.setUseGlobalResources(false);
        return loops;
    }

    @Bean
    SecurityWebFilterChain permitAll(ServerHttpSecurity http) {
        return http.csrf(ServerHttpSecurity.CsrfSpec::disable)
                .authorizeExchange(exchanges -> exchanges.anyExchange().permitAll())
                .build();
    }

    /**
     * Returns a client with its own connections. Use another one after a request to the Actuator: it answers on another
     * thread, and Reactor Netty may then leave the next request on that connection unread.
     */
    public static ClientForTests client(ApplicationContext context) {
        return ClientForTests.of(context.getEnvironment().getRequiredProperty("local.server.port", Integer.class));
    }
}
