package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.webflux.first.Reports;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

class RateLimitedTest {

    private final Limiters limiters = Limiters.onRedis();
    private final KeySyntax keys = KeySyntax.of(ClientAddress.ofPeer())
            .beans(name -> name.equals("tenantKey")
                    ? Optional.of(match -> Mono.just("tenant-" + match.request().headers("X-Tenant")))
                    : Optional.<KeySource>empty());
    private final Service service = Service.start(this::beans);

    private void beans(AnnotationConfigApplicationContext context) {
        context.registerBean(
                RateLimitedHandlerAdapter.class, () -> adapter(context.getBean(RequestMappingHandlerAdapter.class)));
        context.registerBean(Free.class);
        context.registerBean(Limited.class);
    }

    @AfterEach
    void close() {
        service.close();
        limiters.close();
    }

    @Test
    void aMethodIsLimitedByItsAnnotation() {
        HttpResponse<String> first = service.get("/free/one");
        assertThat(first.statusCode()).isEqualTo(200);
        assertThat(first.headers().firstValue("RateLimit-Policy")).hasValue("\"RateLimitedTest.Free.one-1m\";q=1;w=60");
        HttpResponse<String> denied = service.get("/free/one");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("RateLimitedTest.Free.one-1m");
        assertThat(service.get("/free/unlimited").headers().firstValue("RateLimit"))
                .isEmpty();
    }

    @Test
    void aMethodAndItsClassAreOneVerdict() {
        assertThat(service.get("/limited/a").statusCode()).isEqualTo(200);
        HttpResponse<String> denied = service.get("/limited/a");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("[\"RateLimitedTest.Limited.a-1m\"]");
        // What the method has denied, the class was not charged with.
        assertThat(service.get("/limited/b").statusCode()).isEqualTo(200);
        assertThat(service.get("/limited/b").statusCode()).isEqualTo(200);
        assertThat(service.get("/limited/b").body()).contains("[\"RateLimitedTest.Limited-1m\"]");
    }

    @Test
    void keysAndCostsAreAsWritten() {
        assertThat(service.get("/free/tenant", "X-Tenant", "a").statusCode()).isEqualTo(200);
        assertThat(service.get("/free/tenant", "X-Tenant", "a").statusCode()).isEqualTo(429);
        assertThat(service.get("/free/tenant", "X-Tenant", "b").statusCode()).isEqualTo(200);
        assertThat(service.get("/free/items/7").statusCode()).isEqualTo(200);
        assertThat(service.get("/free/items/7").statusCode()).isEqualTo(429);
        assertThat(service.get("/free/items/8").statusCode()).isEqualTo(200);
        assertThat(service.get("/free/key").statusCode()).isEqualTo(429);
    }

    @Test
    void aMethodHoldsAPermitUntilItsStreamEnds() {
        ClientForTests streaming = ClientForTests.of(service.uri("/").getPort());
        streaming.readAndDisconnect("/free/held", 4, () -> {
            HttpResponse<String> denied = service.get("/free/held");
            assertThat(denied.statusCode()).isEqualTo(429);
            assertThat(denied.headers().firstValue("Retry-After")).hasValue("1");
        });
        await().atMost(Duration.ofSeconds(60)).until(() -> streaming.readAndDisconnect("/free/held", 4) == 200);
    }

    @Test
    void theRealCostOfAMethodIsSettledWhenItsResponseEnds() {
        for (int i = 0; i < 4; i++) {
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> service.get("/free/cost").statusCode() == 200);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theRealCostOfAStreamIsSettledWhenTheClientDisconnects(boolean isHttp2) {
        Service served = isHttp2 ? Service.startWithHttp2(this::beans) : service;
        ClientForTests client = isHttp2 ? ClientForTests.ofHttp2(served.port()) : ClientForTests.of(served.port());
        client.get("/free/unlimited");
        for (int i = 0; i < 3; i++) {
            await().atMost(Duration.ofSeconds(60)).until(() -> client.readAndDisconnect("/free/endless", 5_000) == 200);
        }
        if (isHttp2) {
            served.close();
        }
    }

    @Test
    void aMethodLimitOnThePrincipalSkipsUnauthenticatedRequests() {
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = service.get("/free/user");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(response.headers().firstValue("RateLimit")).isEmpty();
        }
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void anIntendedSharedCountLogsNoWarning(CapturedOutput log) throws ReflectiveOperationException {
        adapter(new RequestMappingHandlerAdapter())
                .prepare(List.of(new HandlerMethod(new Free(), Free.class.getDeclaredMethod("device"))));
        assertThat(log.getAll()).doesNotContain("share one count");
    }

    @Test
    void theBodyIsReadOnlyIfTheRequestIsAllowed() {
        assertThat(service.post("/free/length", "four").body()).isEqualTo("4");
        assertThat(service.post("/free/length", "four").statusCode()).isEqualTo(429);
        assertThat(service.get("/free/stream").body()).isEqualTo("ab");
    }

    @Test
    void anInvalidAnnotationIsReportedAtTheStart() throws ReflectiveOperationException {
        RateLimitedHandlerAdapter adapter = adapter(new RequestMappingHandlerAdapter());
        for (List<String> wrong : List.of(
                List.of("limit", "@RateLimited of RateLimitedTest.Wrong.limit: limit \"often\""),
                List.of("key", "@RateLimited of RateLimitedTest.Wrong.key: key \"adress\" cannot be read"),
                List.of("bean", "names a key source \"missing\" that is not there"),
                List.of(
                        "cost",
                        "@RateLimited of RateLimitedTest.Wrong.cost: rule RateLimitedTest.Wrong.cost: cost 6 exceeds"
                                + " limit 5/1m, so every request would be denied: expected at most 5"),
                List.of("twice", "whenMissing [SKIP, DENY] are several: expected one at most, for example"))) {
            HandlerMethod method = new HandlerMethod(new Wrong(), Wrong.class.getDeclaredMethod(wrong.get(0)));
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> adapter.prepare(List.of(method)))
                    .withMessageContaining(wrong.get(1));
        }
    }

    @Test
    void twoClassesOfOneNameDoNotShareTheirLimits() throws ReflectiveOperationException {
        RateLimitedHandlerAdapter adapter = adapter(new RequestMappingHandlerAdapter());
        Class<?> other = io.github.spillgate.webflux.second.Reports.class;
        adapter.prepare(List.of(new HandlerMethod(new Reports(), Reports.class.getDeclaredMethod("list"))));
        HandlerMethod method =
                new HandlerMethod(other.getDeclaredConstructor().newInstance(), other.getDeclaredMethod("list"));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> adapter.prepare(List.of(method)))
                .withMessage("@RateLimited of Reports.list: its name would be Reports.list, like that of"
                        + " io.github.spillgate.webflux.first.Reports.list: expected a unique name, for example"
                        + " @RateLimited(name = \"reports\")");
    }

    @Test
    void anyNameOfAClassAndAMethodMakesAName() throws ReflectiveOperationException {
        RateLimitedHandlerAdapter adapter = adapter(new RequestMappingHandlerAdapter());
        HandlerMethod isLong = new HandlerMethod(
                new CustomerSubscriptionManagementController(),
                CustomerSubscriptionManagementController.class.getDeclaredMethod(
                        "findAllActiveSubscriptionsByCustomer"));
        HandlerMethod isOdd = new HandlerMethod(new Odd(), Odd.class.getDeclaredMethod("list$app_main"));
        assertThatCode(() -> adapter.prepare(List.of(isLong, isOdd))).doesNotThrowAnyException();
    }

    private RateLimitedHandlerAdapter adapter(RequestMappingHandlerAdapter next) {
        return new RateLimitedHandlerAdapter(
                limiters.limiter(), keys, RateLimitResponses.standard(), RuleInstrumentation.none(), next);
    }

    @RestController
    @RequestMapping("/free")
    static class Free {

        @GetMapping("/unlimited")
        Mono<String> unlimited() {
            return Mono.just("free");
        }

        @RateLimited("1/1m")
        @GetMapping("/one")
        Mono<String> one() {
            return Mono.just("one");
        }

        @RateLimited("1 concurrent hold=1h")
        @GetMapping(path = "/held", produces = "text/event-stream")
        Flux<String> held() {
            return Flux.interval(Duration.ofMillis(1)).onBackpressureDrop().map(tick -> "tick");
        }

        @RateLimited(value = "3/1m", cost = 2)
        @GetMapping("/cost")
        Mono<String> cost(ServerWebExchange exchange) {
            RateLimitResponses.cost(exchange, 0);
            return Mono.just("cost");
        }

        @RateLimited(value = "1/1m")
        @GetMapping(path = "/endless", produces = "text/event-stream")
        Flux<String> endless(ServerWebExchange exchange) {
            return Flux.interval(Duration.ofMillis(1))
                    .onBackpressureDrop()
                    .doOnNext(part -> RateLimitResponses.cost(exchange, 0))
                    .map(part -> "part ".repeat(100));
        }

        @RateLimited(value = "5/1m", key = "bean:tenantKey", cost = 3)
        @GetMapping("/tenant")
        Mono<String> tenant() {
            return Mono.just("tenant");
        }

        @RateLimited(value = "1/1m", key = "path:id")
        @GetMapping("/items/{id}")
        Mono<String> item() {
            return Mono.just("item");
        }

        @RateLimited(value = "5/1m", key = "header:X-Api-Key", whenMissing = WhenMissing.DENY)
        @GetMapping("/key")
        Mono<String> key() {
            return Mono.just("key");
        }

        @RateLimited(value = "1/1m", key = "principal")
        @GetMapping("/user")
        Mono<String> user() {
            return Mono.just("user");
        }

        @RateLimited(value = "1/1m", key = "header:X-Device")
        @GetMapping("/device")
        Mono<String> device() {
            return Mono.just("device");
        }

        @RateLimited("1/1m")
        @PostMapping("/length")
        Mono<String> length(@RequestBody String body) {
            return Mono.just(Integer.toString(body.length()));
        }

        @RateLimited({"5/1s", "100/1m"})
        @GetMapping("/stream")
        Flux<String> stream() {
            return Flux.just("a", "b");
        }
    }

    @RateLimited("3/1m")
    @RestController
    @RequestMapping("/limited")
    static class Limited {

        @RateLimited("1/1m")
        @GetMapping("/a")
        String a() {
            return "a";
        }

        @GetMapping("/b")
        String b() {
            return "b";
        }
    }

    static class Wrong {

        @RateLimited(
                value = "1/1m",
                whenMissing = {WhenMissing.SKIP, WhenMissing.DENY})
        void twice() {}

        @RateLimited("often")
        void limit() {}

        @RateLimited(
                value = {"100/1h", "5/1m"},
                cost = 6)
        void cost() {}

        @RateLimited(value = "1/1m", key = "adress")
        void key() {}

        @RateLimited(value = "1/1m", key = "bean:missing")
        void bean() {}
    }

    static class CustomerSubscriptionManagementController {

        @RateLimited("5/1m")
        void findAllActiveSubscriptionsByCustomer() {}
    }

    static class Odd {

        @RateLimited("5/1m")
        void list$app_main() {}
    }
}
