package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import java.net.http.HttpResponse;
import java.security.Principal;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpStatus;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.reactive.EnableWebFluxSecurity;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.test.web.reactive.server.WebTestClient;
import org.springframework.web.bind.annotation.CrossOrigin;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RequestPredicates;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.reactive.handler.SimpleUrlHandlerMapping;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebExceptionHandler;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebHandler;
import reactor.core.publisher.Mono;

/** What only WebFlux has; what clients of both adapters see is in {@code HttpContract}. */
class RateLimitWebFilterTest extends ServiceFixture {

    @Test
    void theDenialResponseIsReplaceable() {
        service = Service.start(context -> beans(
                context,
                RateLimitResponses.standard().denials((exchange, problem) -> {
                    exchange.getResponse().setStatusCode(HttpStatus.LOCKED);
                    return exchange.getResponse().setComplete();
                }),
                limiters.rules(address("address", 1))));
        service.get("/hello");
        HttpResponse<String> denied = service.get("/hello");
        assertThat(denied.statusCode()).isEqualTo(423);
        assertThat(denied.headers().firstValue("RateLimit")).isPresent();
    }

    @Test
    void aRequestThatIsDispatchedAgainIsChargedOnce() {
        Rules rules = limiters.rules(address("address", 5));
        service = Service.start(context -> {
            beans(context, RateLimitResponses.standard(), rules);
            context.registerBean("again", WebFilter.class, () -> (exchange, chain) -> {
                if (exchange.getRequest().getPath().value().equals("/old")) {
                    ServerWebExchange moved = exchange.mutate()
                            .request(request -> request.path("/hello"))
                            .build();
                    return context.getBean("webHandler", WebHandler.class).handle(moved);
                }
                return chain.filter(exchange);
            });
            // A second filter of the same rules is the same.
            context.registerBean(
                    "twice",
                    WebFilter.class,
                    () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard()));
        });
        assertThat(service.get("/old").headers().firstValue("X-RateLimit-Remaining"))
                .hasValue("4");
    }

    @Test
    void aRuleMayCountFailedLoginsOnly() {
        start(address("login", 2).paths("/login").refundWhen("2xx"));
        for (int i = 0; i < 5; i++) {
            assertThat(service.get("/login", "X-Password", "right").statusCode())
                    .isEqualTo(200);
        }
        assertThat(service.get("/login", "X-Password", "wrong").statusCode()).isEqualTo(401);
        assertThat(service.get("/login", "X-Password", "wrong").statusCode()).isEqualTo(401);
        assertThat(service.get("/login", "X-Password", "right").statusCode()).isEqualTo(429);
    }

    @Test
    void anOriginThatIsNoneMakesNoServerError() {
        start(address("address", 1));
        service.get("/hello");
        for (String origin : List.of("http://[", "http://a b", "http://x:port", "null", "http://a:99999", "%", "://")) {
            String status = service.answerTo("GET /hello HTTP/1.1", "Host: localhost", "Origin: " + origin);
            assertThat(status).as("Origin: " + origin).contains(" 429 ");
        }
    }

    @Test
    void aHostThatIsNoneMakesNoServerError() {
        start(address("address", 1));
        service.get("/hello");
        for (String host : List.of("a_b", "a_b:80", "[::1]", "", "localhost:0")) {
            String status = service.answerTo("GET /hello HTTP/1.1", "Host: " + host, "Origin: https://shop.example");
            assertThat(status).as("Host: " + host).doesNotContain(" 500 ");
        }
    }

    @Test
    void pathsWithoutALeadingSlashMatchLikeThoseOfControllers() {
        start(address("address", 1).paths("noslash"));
        assertThat(service.get("/noslash").statusCode()).isEqualTo(200);
        assertThat(service.get("/noslash").statusCode()).isEqualTo(429);
    }

    @Test
    void aRuleOfAProxiedControllerHasANameThatAllInstancesShare() {
        service = Service.start(context -> {
            adapter(context, KeySyntax.of(ClientAddress.ofPeer()));
            context.registerBean("proxied", ProxiedApi.class, () -> {
                ProxyFactory factory = new ProxyFactory(new Proxied());
                factory.setInterfaces(ProxiedApi.class);
                return (ProxiedApi) factory.getProxy();
            });
        });
        assertThat(service.get("/proxied").headers().firstValue("RateLimit-Policy"))
                .hasValueSatisfying(
                        policy -> assertThat(policy).contains("Proxied").doesNotContain(".Proxy"))
                .hasValueSatisfying(policy -> assertThat(policy).doesNotContainPattern("Proxy\\d"));
    }

    @Test
    void theSameRulesInAFilterOfEachKindAreOne() {
        Rules rules = limiters.rules(address("address", 10));
        service = Service.start(context -> {
            beans(context, RateLimitResponses.standard(), rules);
            context.registerBean(
                    RouterFunction.class,
                    () -> RouterFunctions.route()
                            .GET("/route", request -> ServerResponse.ok().bodyValue("route"))
                            .filter(RateLimitHandlerFilter.of(rules, RateLimitResponses.standard()))
                            .build());
        });
        assertThat(service.get("/route").headers().firstValue("X-RateLimit-Remaining"))
                .hasValue("9");
    }

    @Test
    void theOrderOfMappingsIsTheirsAndNotThatOfTheSupplier() {
        service = Service.start(context -> {
            WebHandler everything = exchange -> exchange.getResponse().setComplete();
            context.registerBean(
                    "everything",
                    SimpleUrlHandlerMapping.class,
                    () -> new SimpleUrlHandlerMapping(Map.of("/**", everything), Ordered.LOWEST_PRECEDENCE - 1));
            beans(context, RateLimitResponses.standard(), limiters.rules(address("address", 1)));
        });
        assertThat(service.get("/open", "Origin", "https://shop.example")
                        .headers()
                        .firstValue("Access-Control-Allow-Origin"))
                .hasValue("*");
        HttpResponse<String> denied = service.get("/open", "Origin", "https://shop.example");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("Access-Control-Allow-Origin")).hasValue("*");
    }

    @Test
    void aSupplierOfMappingsThatFailsMakesNoServerError() {
        service = Service.start(context -> {
            RateLimitResponses responses = RateLimitResponses.standard().corsOf(() -> {
                throw new IllegalStateException("no mappings");
            });
            Service.filter(context, responses, limiters.rules(address("address", 1)));
            context.registerBean(Handlers.class);
        });
        service.get("/open");
        assertThat(service.get("/open", "Origin", "https://shop.example").statusCode())
                .isEqualTo(429);
    }

    @Test
    void anAnonymousAuthenticationIsNoPrincipal() {
        service = Service.start(context -> {
            beans(
                    context,
                    RateLimitResponses.standard(),
                    limiters.rules(Rule.named("users")
                            .key(KeySource.firstOf(KeySource.principal(), KeySource.header("X-Device")))
                            .timeout(Duration.ofMinutes(1))
                            .limit(Limit.perMinute(1))));
            context.register(Anonymous.class);
        });
        assertThat(service.get("/hello", "X-Device", "one").statusCode()).isEqualTo(200);
        assertThat(service.get("/hello", "X-Device", "one").statusCode()).isEqualTo(429);
        assertThat(service.get("/hello", "X-Device", "two").statusCode()).isEqualTo(200);
    }

    @Test
    void theLimitOfAClassIsChargedOnceWhenARequestIsDispatchedAgain() {
        service = Service.start(context -> {
            adapter(context, KeySyntax.of(ClientAddress.ofPeer()));
            context.registerBean(OfAClass.class);
            context.registerBean("errors", WebExceptionHandler.class, () -> new ToErrorPage(context));
        });
        assertThat(service.get("/class/fails").body()).isEqualTo("sorry");
        assertThat(service.get("/class/ok").headers().firstValue("X-RateLimit-Remaining"))
                .hasValue("8");
    }

    @Test
    void aPrincipalWithoutANameDoesNotBypassALimit() {
        service = Service.start(context -> {
            beans(
                    context,
                    RateLimitResponses.standard(),
                    limiters.rules(Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(1))));
            Principal nameless = () -> null;
            context.registerBean("auth", WebFilter.class, () -> new Authenticating(nameless));
        });
        service.get("/hello");
        assertThat(service.get("/hello").statusCode()).isEqualTo(429);
    }

    @Test
    void aProblemCallsAPolicyAsTheHeadersDo() {
        service = Service.start(context -> {
            beans(context, RateLimitResponses.standard(), limiters.rules(address("x", 10)));
            context.registerBean(
                    RouterFunction.class,
                    () -> RouterFunctions.route()
                            .GET("/route", request -> ServerResponse.ok().bodyValue("route"))
                            .filter(RateLimitHandlerFilter.of(
                                    limiters.rules(Rule.named("x")
                                            .key(KeySource.constant("all"))
                                            .limit(Limit.perMinute(1))),
                                    RateLimitResponses.standard()))
                            .build());
        });
        service.get("/route");
        HttpResponse<String> denied = service.get("/route");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("RateLimit").orElseThrow()).contains("\"x-1m#2\";r=0");
        assertThat(denied.body()).contains("[\"x-1m#2\"]");
    }

    @Test
    void anAnnotationOnAGenericInterfaceHolds() {
        service = Service.start(context -> {
            adapter(context, KeySyntax.of(ClientAddress.ofPeer()));
            context.registerBean(Notes.class);
        });
        assertThat(service.post("/notes", "a", "Content-Type", "text/plain").statusCode())
                .isEqualTo(200);
        assertThat(service.post("/notes", "a", "Content-Type", "text/plain").statusCode())
                .isEqualTo(429);
        // The method's own annotation against that of the interface: the nearer one holds.
        assertThat(service.get("/notes").statusCode()).isEqualTo(200);
        assertThat(service.get("/notes").statusCode()).isEqualTo(200);
    }

    @Test
    void aNestedRouteHasAllItsVariables() {
        service = Service.start(context -> context.registerBean(RouterFunction.class, () -> nested()));
        assertThat(service.get("/tenants/a/items/1").statusCode()).isEqualTo(200);
        assertThat(service.get("/tenants/a/items/2").statusCode()).isEqualTo(429);
        assertThat(service.get("/tenants/b/items/1").statusCode()).isEqualTo(200);
    }

    @Test
    void aRouteWithoutADispatcherHasItsVariables() {
        WebTestClient client = WebTestClient.bindToRouterFunction(nested()).build();
        client.get().uri("/tenants/a/items/1").exchange().expectStatus().isEqualTo(200);
        client.get().uri("/tenants/a/items/2").exchange().expectStatus().isEqualTo(429);
        client.get().uri("/tenants/b/items/1").exchange().expectStatus().isEqualTo(200);
    }

    private RouterFunction<ServerResponse> nested() {
        RateLimitHandlerFilter byTenant = RateLimitHandlerFilter.of(
                limiters.rules(Rule.named("tenant")
                        .key(KeySource.pathVariable("tenant"))
                        .limit(Limit.perMinute(1))),
                RateLimitResponses.standard());
        return RouterFunctions.route()
                .nest(
                        RequestPredicates.path("/tenants/{tenant}"),
                        routes -> routes.GET(
                                        "/items/{id}",
                                        request -> ServerResponse.ok().bodyValue("item"))
                                .filter(byTenant))
                .build();
    }

    private void start(Rule.Builder... rules) {
        Rules built = limiters.rules(rules);
        service = Service.start(context -> beans(context, RateLimitResponses.standard(), built));
    }

    private static void beans(AnnotationConfigApplicationContext context, RateLimitResponses responses, Rules rules) {
        Service.filters(context, responses, rules);
        context.registerBean(Handlers.class);
    }

    private void adapter(AnnotationConfigApplicationContext context, KeySyntax keys) {
        context.registerBean(
                RateLimitedHandlerAdapter.class,
                () -> adapter(keys, context.getBean(RequestMappingHandlerAdapter.class)));
    }

    private RateLimitedHandlerAdapter adapter(KeySyntax keys, RequestMappingHandlerAdapter next) {
        return new RateLimitedHandlerAdapter(
                limiters.limiter(), keys, RateLimitResponses.standard(), RuleInstrumentation.none(), next);
    }

    @Order(-100)
    record Authenticating(Principal principal) implements WebFilter {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, org.springframework.web.server.WebFilterChain chain) {
            return chain.filter(
                    exchange.mutate().principal(Mono.just(principal)).build());
        }
    }

    @Order(-10)
    record ToErrorPage(AnnotationConfigApplicationContext context) implements WebExceptionHandler {

        @Override
        public Mono<Void> handle(ServerWebExchange exchange, Throwable ex) {
            return context.getBean("webHandler", WebHandler.class)
                    .handle(exchange.mutate()
                            .request(request -> request.path("/class/error"))
                            .build());
        }
    }

    @Configuration
    @EnableWebFluxSecurity
    static class Anonymous {

        @Bean
        SecurityWebFilterChain chain(ServerHttpSecurity http) {
            return http.authorizeExchange(exchanges -> exchanges.anyExchange().permitAll())
                    .anonymous(Customizer.withDefaults())
                    .build();
        }
    }

    @RestController
    static class Handlers {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }

        @GetMapping("noslash")
        Mono<String> noslash() {
            return Mono.just("noslash");
        }

        @CrossOrigin
        @GetMapping("/open")
        Mono<String> open() {
            return Mono.just("open");
        }

        @GetMapping("/login")
        Mono<String> login(ServerWebExchange exchange) {
            return "right".equals(exchange.getRequest().getHeaders().getFirst("X-Password"))
                    ? Mono.just("welcome")
                    : Mono.error(new ResponseStatusException(HttpStatus.UNAUTHORIZED));
        }
    }

    @RestController
    interface ProxiedApi {

        @RateLimited("5/1m")
        @GetMapping("/proxied")
        String proxied();
    }

    static class Proxied implements ProxiedApi {

        @Override
        public String proxied() {
            return "proxied";
        }
    }

    @RateLimited("10/1m")
    @RestController
    @RequestMapping("/class")
    static class OfAClass {

        @GetMapping("/fails")
        Mono<String> fails() {
            return Mono.error(new IllegalStateException("fails"));
        }

        @GetMapping("/error")
        Mono<String> error() {
            return Mono.just("sorry");
        }

        @GetMapping("/ok")
        Mono<String> ok() {
            return Mono.just("ok");
        }
    }

    interface Crud<T> {

        @RateLimited("1/1m")
        @PostMapping
        Mono<String> create(@RequestBody T thing);

        @RateLimited("1/1m")
        @GetMapping
        Mono<String> list();
    }

    @RestController
    @RequestMapping("/notes")
    static class Notes implements Crud<String> {

        @Override
        public Mono<String> create(String thing) {
            return Mono.just(thing);
        }

        @Override
        @RateLimited("100/1m")
        public Mono<String> list() {
            return Mono.just("list");
        }
    }
}
