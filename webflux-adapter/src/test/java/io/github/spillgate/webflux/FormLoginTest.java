package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.ClientForTests;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.http.HttpStatus;
import org.springframework.http.client.ReactorResourceFactory;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.core.userdetails.MapReactiveUserDetailsService;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.web.server.DefaultServerRedirectStrategy;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.security.web.server.authentication.RedirectServerAuthenticationSuccessHandler;
import org.springframework.security.web.server.authentication.ServerAuthenticationSuccessHandler;

/** The form login of Spring Security, limited as docs/cookbook.md shows. CSRF tokens are off only in this test. */
class FormLoginTest {

    private static final String[] SETTINGS = {
        "--server.port=0",
        "--spillgate.store=local",
        "--spillgate.rules[0].name=login",
        "--spillgate.rules[0].paths=/login",
        "--spillgate.rules[0].methods=POST",
        "--spillgate.rules[0].limits=3/15m",
        "--spillgate.rules[0].refund-when=303"
    };

    @Test
    void onlyFailedLoginsCount() {
        try (ConfigurableApplicationContext app = new SpringApplicationBuilder(App.class).run(SETTINGS)) {
            ClientForTests client = BootForTests.client(app);
            for (int i = 0; i < 5; i++) {
                assertThat(logIn(client, "secret").headers().firstValue("Location"))
                        .hasValue("/");
            }
            for (int i = 0; i < 3; i++) {
                HttpResponse<String> failed = logIn(client, "wrong");
                assertThat(failed.statusCode()).isEqualTo(302);
                assertThat(failed.headers().firstValue("Location")).hasValue("/login?error");
            }
            assertThat(logIn(client, "secret").statusCode()).isEqualTo(429);
        }
    }

    private static HttpResponse<String> logIn(ClientForTests client, String password) {
        String form = "username=ann&password=" + password;
        return client.post("/login", form, "Content-Type", "application/x-www-form-urlencoded");
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class App {

        @Bean
        ReactorResourceFactory loops() {
            return new BootForTests().loops();
        }

        @Bean
        MapReactiveUserDetailsService users() {
            return new MapReactiveUserDetailsService(User.withUsername("ann")
                    .password("{noop}secret")
                    .roles("USER")
                    .build());
        }

        @Bean
        SecurityWebFilterChain security(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().authenticated())
                    .formLogin(login -> login.authenticationSuccessHandler(seeOther()))
                    .csrf(csrf -> csrf.disable())
                    .build();
        }

        static ServerAuthenticationSuccessHandler seeOther() {
            DefaultServerRedirectStrategy redirect = new DefaultServerRedirectStrategy();
            redirect.setHttpStatus(HttpStatus.SEE_OTHER);
            RedirectServerAuthenticationSuccessHandler success = new RedirectServerAuthenticationSuccessHandler("/");
            success.setRedirectStrategy(redirect);
            return success;
        }
    }
}
