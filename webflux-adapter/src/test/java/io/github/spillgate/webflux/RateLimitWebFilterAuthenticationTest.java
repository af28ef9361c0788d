package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.reactive.EnableWebFluxSecurity;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.core.userdetails.MapReactiveUserDetailsService;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetails;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** The two phases, around Spring Security. */
class RateLimitWebFilterAuthenticationTest {

    private final Limiters limiters = Limiters.onRedis();
    private final Rules rules = limiters.rules(
            address("log-in", 6), Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(2)));
    private final Service service = Service.start(context -> {
        Service.filters(context, RateLimitResponses.standard(), rules);
        context.register(Security.class);
        context.registerBean(Handler.class);
    });

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void theCheckOfPasswordsIsProtected() {
        for (int i = 0; i < 6; i++) {
            assertThat(get("ann", "wrong " + i)).isEqualTo(401);
        }
        assertThat(get("ann", "wrong again")).isEqualTo(429);
        assertThat(get("ann", "secret")).isEqualTo(429);
    }

    @Test
    void everyUserHasASeparateLimit() {
        assertThat(get("ann", "secret")).isEqualTo(200);
        assertThat(get("ann", "secret")).isEqualTo(200);
        assertThat(get("ann", "secret")).isEqualTo(429);
        assertThat(get("bob", "secret")).isEqualTo(200);
    }

    @Test
    void anUnauthenticatedRequestUsesNoUserLimit() {
        assertThat(get("ann", "wrong")).isEqualTo(401);
        assertThat(get("ann", "wrong")).isEqualTo(401);
        assertThat(get("ann", "secret")).isEqualTo(200);
        assertThat(get("ann", "secret")).isEqualTo(200);
    }

    private int get(String user, String password) {
        String credentials =
                Base64.getEncoder().encodeToString((user + ":" + password).getBytes(StandardCharsets.UTF_8));
        return service.get("/hello", "Authorization", "Basic " + credentials).statusCode();
    }

    @Configuration
    @EnableWebFluxSecurity
    static class Security {

        @Bean
        SecurityWebFilterChain chain(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().authenticated())
                    .httpBasic(Customizer.withDefaults())
                    .build();
        }

        @Bean
        MapReactiveUserDetailsService users() {
            return new MapReactiveUserDetailsService(user("ann"), user("bob"));
        }

        private static UserDetails user(String name) {
            return User.withUsername(name)
                    .password("{noop}secret")
                    .roles("USER")
                    .build();
        }
    }

    @RestController
    static class Handler {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }
    }
}
