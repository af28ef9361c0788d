package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.RateLimitHeaders;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.greenbytes.http.sfv.IntegerItem;
import org.greenbytes.http.sfv.ListElement;
import org.greenbytes.http.sfv.OuterList;
import org.greenbytes.http.sfv.Parser;
import org.greenbytes.http.sfv.StringItem;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.CrossOrigin;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

class RateLimitWebFilterTest {

    private final Limiters limiters = Limiters.onRedis();
    private Service service;

    @AfterEach
    void close() {
        if (service != null) {
            service.close();
        }
        limiters.close();
    }

    // What a client sees.

    @Test
    void whoIsAllowedIsToldWhatIsLeft() {
        start(address("address", 3));
        HttpResponse<String> response = service.get("/hello");
        assertThat(response.statusCode()).isEqualTo(200);
        assertThat(response.body()).isEqualTo("hello");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 3L, "w", 60L)));
        assertThat(items(response, "RateLimit")).singleElement().satisfies(item -> {
            assertThat(item.getKey()).isEqualTo("address-1m");
            assertThat(item.getValue()).containsEntry("r", 2L).containsKey("t");
            assertThat(item.getValue().get("t")).isBetween(59L, 61L);
        });
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("2");
        assertThat(Long.parseLong(field(response, "X-RateLimit-Reset")))
                .isBetween(System.currentTimeMillis() / 1000, System.currentTimeMillis() / 1000 + 61);
        assertThat(response.headers().firstValue("Retry-After")).isEmpty();
        assertThat(response.headers().firstValue("Cache-Control")).isEmpty();
    }

    @Test
    void whoIsDeniedIsToldWhyAndForHowLong() {
        start(address("address", 1));
        service.get("/hello");
        HttpResponse<String> response = service.get("/hello");
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(field(response, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(response, "Cache-Control")).isEqualTo("no-store");
        long retryAfter = Long.parseLong(field(response, "Retry-After"));
        assertThat(retryAfter).isBetween(59L, 61L);
        assertThat(response.body())
                .isEqualTo("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        + "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"status\":429,"
                        + "\"violated-policies\":[\"address-1m\"],\"retry-after\":" + retryAfter + "}");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 1L, "w", 60L)));
        assertThat(items(response, "RateLimit"))
                .containsExactly(Map.entry("address-1m", Map.of("r", 0L, "t", retryAfter)));
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("0");
    }

    @Test
    void whoKeepsToRetryAfterSucceeds() {
        start(Rule.named("address").key(Limiters.ADDRESS).limit(Limit.perSecond(1)));
        service.get("/hello");
        HttpResponse<String> denied = service.get("/hello");
        assertThat(denied.statusCode()).isEqualTo(429);
        Duration told = Duration.ofSeconds(Long.parseLong(field(denied, "Retry-After")));
        Mono.delay(told).block();
        HttpResponse<String> again = service.get("/hello");
        assertThat(again.statusCode()).isEqualTo(200);
    }

    @Test
    void aRequestThatNoRuleMatchesIsLeftAlone() {
        start(address("address", 1).paths("/other/**"));
        HttpResponse<String> response = service.get("/hello");
        assertThat(response.statusCode()).isEqualTo(200);
        assertThat(told(response)).isEmpty();
    }

    @Test
    void headersMayBeSwitchedOff() {
        service = Service.start(context -> beans(
                context,
                RateLimitResponses.standard()
                        .headers(RateLimitHeaders.all().xRateLimit(false).rateLimit(false)),
                limiters.rules(address("address", 1))));
        assertThat(told(service.get("/hello"))).isEmpty();
        assertThat(told(service.get("/hello"))).containsExactly("Retry-After");
    }

    @Test
    void theDenialMayBeWrittenBySomebodyElse() {
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
    void whatAHandlerSaysOfItsOwnLimitsStays() {
        start(address("address", 5));
        HttpResponse<String> response = service.get("/own");
        assertThat(response.headers().allValues("X-RateLimit-Limit")).containsExactly("of the handler");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @Test
    void alsoAnErrorTellsWhatIsLeft() {
        start(address("address", 5));
        HttpResponse<String> response = service.get("/fails");
        assertThat(response.statusCode()).isEqualTo(404);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @Test
    void headIsDeniedWithoutABody() {
        start(address("address", 1).methods("GET"));
        service.get("/hello");
        HttpResponse<String> response = service.send(service.request("/hello").method("HEAD", BodyPublishers.noBody()));
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(response.body()).isEmpty();
    }

    // Which requests.

    @Test
    void pathsAreThoseOfSpring() {
        start(
                Rule.named("user")
                        .paths("/users/{id}")
                        .key(KeySource.pathVariable("id"))
                        .limit(Limit.perMinute(1)),
                address("rest", 100).paths("/hello", "/rest/**"));
        assertThat(service.get("/users/1").statusCode()).isEqualTo(200);
        assertThat(service.get("/users/2").statusCode()).isEqualTo(200);
        assertThat(service.get("/users/%31").statusCode()).isEqualTo(429);
        assertThat(service.get("/users/2;x=y").statusCode()).isEqualTo(429);
        assertThat(service.get("/users/2?x=y").statusCode()).isEqualTo(429);
        assertThat(names(service.get("/rest/a/b"))).containsExactly("rest-1m");
        assertThat(names(service.get("/hello"))).containsExactly("rest-1m");
    }

    @Test
    void aQueryThatCannotBeReadIsNoWayAroundALimit() {
        start(Rule.named("key").key(KeySource.query("api_key")).limit(Limit.perMinute(1)));
        assertThat(service.get("/hello?other=1").statusCode()).isEqualTo(200);
        assertThat(service.get("/hello?other=1").statusCode()).isEqualTo(429);
        assertThat(service.statusLine("/hello?api_key=%zz")).contains(" 4");
        assertThat(service.statusLine("/hello?%zz=1&api_key")).contains(" 4");
        assertThat(service.statusLine("/hello?api_key=")).contains(" 429 ");
    }

    @Test
    void bothPhasesAreToldInOneResponse() {
        start(address("before", 5), address("after", 3).phase(Phase.AFTER_AUTHENTICATION));
        HttpResponse<String> response = service.get("/hello");
        assertThat(names(response)).containsExactly("before-1m", "after-1m");
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        IntStream.range(0, 3).forEach(i -> service.get("/hello"));
        assertThat(service.get("/hello").body()).contains("[\"after-1m\"]");
        assertThat(service.get("/hello").body()).contains("[\"before-1m\"]");
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
                    return context.getBean("webHandler", org.springframework.web.server.WebHandler.class)
                            .handle(moved);
                }
                return chain.filter(exchange);
            });
            // A second filter of the same rules is the same.
            context.registerBean(
                    "twice",
                    WebFilter.class,
                    () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard()));
        });
        assertThat(field(service.get("/old"), "X-RateLimit-Remaining")).isEqualTo("4");
    }

    // Other origins.

    @Test
    void aBrowserCanReadADenial() {
        start(address("address", 2));
        String origin = "https://shop.example";
        HttpResponse<String> allowed = service.get("/open", "Origin", origin);
        assertThat(allowed.statusCode()).isEqualTo(200);
        assertThat(field(allowed, "Access-Control-Allow-Origin")).isEqualTo("*");
        service.get("/hello");
        HttpResponse<String> denied = service.get("/open", "Origin", origin);
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(field(denied, "Access-Control-Allow-Origin")).isEqualTo("*");
        for (HttpResponse<String> response : List.of(allowed, denied)) {
            assertThat(String.join(", ", response.headers().allValues("Access-Control-Expose-Headers")))
                    .isEqualTo("X-Own, RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining,"
                            + " X-RateLimit-Reset, Retry-After");
        }
        HttpResponse<String> closed = service.get("/hello", "Origin", origin);
        assertThat(closed.statusCode()).isEqualTo(429);
        assertThat(closed.headers().firstValue("Access-Control-Allow-Origin")).isEmpty();
        assertThat(closed.headers().firstValue("Access-Control-Expose-Headers")).isEmpty();
    }

    @Test
    void aPreflightIsLetThrough() {
        start(address("address", 1));
        service.get("/hello");
        HttpResponse<String> preflight = service.send(
                service.request("/open", "Origin", "https://shop.example", "Access-Control-Request-Method", "GET")
                        .method("OPTIONS", BodyPublishers.noBody()));
        assertThat(preflight.statusCode()).isEqualTo(200);
        assertThat(service.send(service.request("/open").method("OPTIONS", BodyPublishers.noBody()))
                        .statusCode())
                .isEqualTo(429);
    }

    // The handler.

    @Test
    void aHandlerSeesWhatWasDecided() {
        start(address("address", 5));
        assertThat(service.get("/decision").body()).isEqualTo("allowed by REDIS, 4 left");
    }

    @Test
    void aHandlerNeverRunsOnTheThreadOfRedis() {
        start(address("address", 100));
        assertThat(service.get("/thread").body()).doesNotContain("lettuce");
    }

    @Test
    void theBodyOfARequestArrivesWhole() {
        start(address("address", 100));
        // As much as Spring reads into memory.
        String body = "0123456789abcdef".repeat(16_000);
        List<HttpResponse<String>> responses = IntStream.range(0, 20)
                .mapToObj(i -> service.sendLater(service.request("/length").POST(BodyPublishers.ofString(body))))
                .toList()
                .stream()
                .map(later -> later.join())
                .toList();
        assertThat(responses)
                .allSatisfy(response -> assertThat(response.body()).isEqualTo(Integer.toString(body.length())));
    }

    @Test
    void anUploadThatIsDeniedLeavesTheConnectionUsable() {
        start(address("address", 1).methods("POST"));
        service.post("/length", "a");
        for (int i = 0; i < 5; i++) {
            assertThat(service.post("/length", "0123456789abcdef".repeat(65_536))
                            .statusCode())
                    .isEqualTo(429);
            assertThat(service.get("/hello").statusCode()).isEqualTo(200);
        }
    }

    @Test
    void failedLogInsOnlyMayBeCounted() {
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
    void serverSentEventsAreChargedOnce() {
        start(address("address", 5));
        HttpResponse<String> response = service.get("/events", "Accept", "text/event-stream");
        assertThat(response.body()).isEqualTo("data:1\n\ndata:2\n\ndata:3\n\n");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    private void start(Rule.Builder... rules) {
        service = Service.start(context -> beans(context, RateLimitResponses.standard(), limiters.rules(rules)));
    }

    private static void beans(AnnotationConfigApplicationContext context, RateLimitResponses responses, Rules rules) {
        RateLimitResponses withCors = responses.corsOf(
                () -> context.getBeansOfType(HandlerMapping.class).values());
        for (Phase phase : Phase.values()) {
            context.registerBean(
                    "rateLimit" + phase, RateLimitWebFilter.class, () -> RateLimitWebFilter.of(rules, phase, withCors));
        }
        context.registerBean(Handlers.class);
    }

    /** The names of all fields that tell of limits. */
    private static List<String> told(HttpResponse<?> response) {
        return RateLimitHeaders.all().names().stream()
                .filter(name -> response.headers().firstValue(name).isPresent())
                .toList();
    }

    private static String field(HttpResponse<?> response, String name) {
        assertThat(response.headers().allValues(name)).as(name).hasSize(1);
        return response.headers().firstValue(name).orElseThrow();
    }

    private static List<String> names(HttpResponse<?> response) {
        return items(response, "RateLimit").stream().map(Map.Entry::getKey).toList();
    }

    /** The items of a list, by a parser that is not ours: the name and the numbers of each. */
    private static List<Map.Entry<String, Map<String, Long>>> items(HttpResponse<?> response, String name) {
        OuterList list = Parser.parseList(field(response, name));
        return list.get().stream().map(RateLimitWebFilterTest::item).toList();
    }

    private static Map.Entry<String, Map<String, Long>> item(ListElement<?> element) {
        Map<String, Long> numbers = new HashMap<>();
        element.getParams().forEach((name, value) -> numbers.put(name, ((IntegerItem) value).getAsLong()));
        return Map.entry(((StringItem) element).get(), numbers);
    }

    @RestController
    static class Handlers {

        @GetMapping("/hello")
        Mono<String> hello() {
            return Mono.just("hello");
        }

        @GetMapping({"/users/{id}", "/rest/a/b"})
        Mono<String> user() {
            return Mono.just("somebody");
        }

        @GetMapping("/own")
        Mono<String> own(ServerWebExchange exchange) {
            exchange.getResponse().getHeaders().set("X-RateLimit-Limit", "of the handler");
            return Mono.just("own");
        }

        @GetMapping("/fails")
        Mono<String> fails() {
            return Mono.error(new ResponseStatusException(HttpStatus.NOT_FOUND));
        }

        @CrossOrigin(exposedHeaders = "X-Own")
        @GetMapping("/open")
        Mono<String> open() {
            return Mono.just("open");
        }

        @GetMapping("/decision")
        Mono<String> decision(ServerWebExchange exchange) {
            Decision decision = RateLimitResponses.decisions(exchange).get(0);
            return Mono.just((decision.isAllowed() ? "allowed" : "denied") + " by " + decision.source() + ", "
                    + decision.remaining() + " left");
        }

        @GetMapping("/thread")
        Mono<String> thread() {
            return Mono.just(Thread.currentThread().getName());
        }

        @PostMapping("/length")
        Mono<String> length(@RequestBody Mono<String> body) {
            return body.map(text -> Integer.toString(text.length()));
        }

        @GetMapping("/login")
        Mono<String> login(ServerWebExchange exchange) {
            return "right".equals(exchange.getRequest().getHeaders().getFirst("X-Password"))
                    ? Mono.just("welcome")
                    : Mono.error(new ResponseStatusException(HttpStatus.UNAUTHORIZED));
        }

        @GetMapping(value = "/events", produces = MediaType.TEXT_EVENT_STREAM_VALUE)
        Flux<Integer> events() {
            return Flux.just(1, 2, 3);
        }
    }
}
