package io.github.spillgate.examples.webflux;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The service as users start it, with its own settings, a real Redis and a real client. */
class WebFluxServiceTest {

    private static final int MOST_TESTS = 30;
    private static final AtomicInteger TESTS = new AtomicInteger();

    private static ExampleRedis redis;
    private static Instance service;

    private final HttpClient client = HttpClient.newHttpClient();

    // Each test has its own customers and address, and so its own counts.
    private final int number = TESTS.getAndIncrement();
    private final String freeKey = "free-" + number;
    private final String anotherFreeKey = "another-free-" + number;
    private final String paidKey = "paid-" + number;
    private final String address = "192.0.2." + number;

    @BeforeAll
    static void start() throws IOException {
        redis = ExampleRedis.embedded();
        service = Instance.on(
                redis,
                "service",
                IntStream.range(0, MOST_TESTS)
                        .boxed()
                        .flatMap(i ->
                                Stream.of("free-" + i + "=free", "another-free-" + i + "=free", "paid-" + i + "=paid"))
                        .map(customer -> "--customers.keys." + customer)
                        .toArray(String[]::new));
    }

    @AfterAll
    static void stop() {
        service.close();
        redis.close();
    }

    @Test
    void eachValidationReportsAllThreeTiers() throws Exception {
        HttpResponse<String> answer = validate(freeKey);
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(answer.body()).isEqualTo("[{\"number\":\"FI12345678\",\"valid\":true}]");
        assertThat(header(answer, "RateLimit-Policy"))
                .isEqualTo("\"address-1m\";q=120;w=60, \"plan-monthly\";q=100;w=2678400, \"validate-1m\";q=30;w=60");
        assertThat(header(answer, "RateLimit")).contains("\"plan-monthly\";r=99;", "\"validate-1m\";r=29;");
        assertThat(header(answer, "X-RateLimit-Limit")).isEqualTo("30");
        assertThat(header(answer, "X-RateLimit-Remaining")).isEqualTo("29");
        assertThat(answer.headers().firstValue("Retry-After")).isEmpty();
    }

    @Test
    void aDenialByTheEndpointChargesNoTier() throws Exception {
        for (int i = 0; i < 30; i++) {
            assertThat(validate(freeKey).statusCode()).isEqualTo(200);
        }
        assertDeniedBy("validate-1m", validate(freeKey));
        assertDeniedBy("validate-1m", validate(freeKey));
        assertThat(usage(freeKey))
                .contains(tier("address-1m", 120, 30), tier("plan-monthly", 100, 30), tier("validate-1m", 30, 30));
        // Cheap requests are still allowed, and so are other customers.
        assertThat(rates(freeKey).statusCode()).isEqualTo(200);
        assertThat(validate(anotherFreeKey).statusCode()).isEqualTo(200);
    }

    @Test
    void aValidationTakesOnePermitForEachNumber() throws Exception {
        HttpResponse<String> two = validate(freeKey, "FI12345678", "nonsense");
        assertThat(two.body())
                .isEqualTo("[{\"number\":\"FI12345678\",\"valid\":true},{\"number\":\"nonsense\",\"valid\":false}]");
        assertThat(header(two, "X-RateLimit-Remaining")).isEqualTo("28");
        // The value is not split at the comma, or two numbers would cost one permit.
        assertThat(validate(freeKey, "FI12345678,DE123456789").body())
                .isEqualTo("[{\"number\":\"FI12345678,DE123456789\",\"valid\":false}]");
        HttpResponse<String> none = validate(freeKey, new String[0]);
        assertThat(none.statusCode()).isEqualTo(400);
        assertThat(none.body()).contains("expected at least one number, for example ?number=FI12345678");
        assertThat(usage(freeKey))
                .contains(tier("address-1m", 120, 3), tier("plan-monthly", 100, 4), tier("validate-1m", 30, 4));
        assertThat(validate(freeKey, numbers(27)).statusCode()).isEqualTo(429);
        assertThat(validate(freeKey, numbers(26)).statusCode()).isEqualTo(200);
        assertThat(usage(freeKey))
                .contains(tier("address-1m", 120, 4), tier("plan-monthly", 100, 30), tier("validate-1m", 30, 30));
    }

    @Test
    void aValidationAboveTheLimitHasNoRetryAfter() throws Exception {
        HttpResponse<String> tooMany = validate(paidKey, numbers(31));
        assertThat(tooMany.statusCode()).isEqualTo(429);
        assertThat(tooMany.body()).contains("\"violated-policies\":[\"validate-1m\"]");
        assertThat(tooMany.headers().firstValue("Retry-After")).isEmpty();
        assertThat(validate(paidKey, numbers(30)).statusCode()).isEqualTo(200);
    }

    @Test
    void eachPlanHasItsOwnDailyQuota() throws Exception {
        for (int i = 0; i < 100; i++) {
            assertThat(rates(freeKey).statusCode()).isEqualTo(200);
        }
        assertDeniedBy("plan-monthly", rates(freeKey));
        assertDeniedBy("plan-monthly", validate(freeKey));
        assertThat(header(rates(freeKey), "RateLimit-Policy")).contains("\"plan-monthly\";q=100;w=2678400");
        assertThat(usage(freeKey)).contains(tier("plan-monthly", 100, 100), tier("validate-1m", 30, 0));
        assertThat(usage(anotherFreeKey)).contains(tier("plan-monthly", 100, 0));
        HttpResponse<String> paid = rates(paidKey);
        assertThat(paid.statusCode()).isEqualTo(200);
        assertThat(header(paid, "RateLimit-Policy")).contains("\"plan-monthly\";q=10000;w=2678400");
        assertThat(usage(paidKey)).contains(tier("plan-monthly", 10_000, 1));
    }

    @Test
    void anAddressIsDeniedWithAnyKey() throws Exception {
        for (int i = 0; i < 120; i++) {
            assertThat(rates(paidKey).statusCode()).isEqualTo(200);
        }
        assertDeniedBy("address-1m", rates(paidKey));
        assertDeniedBy("address-1m", validate(freeKey));
        assertDeniedBy("address-1m", get("/v1/usage", "made-up"));
        // Reading the usage takes no permit, and is still allowed.
        assertThat(usage(freeKey)).contains(tier("address-1m", 120, 120), tier("plan-monthly", 100, 0));
        // The Actuator is not limited.
        assertThat(get("/actuator/health", "none").statusCode()).isEqualTo(200);
    }

    @Test
    void theClientAddressIsTheOneTheProxyAppended() throws Exception {
        assertThat(ratesFor("198.51.100.7").statusCode()).isEqualTo(200);
        assertThat(ratesFor("203.0.113.1, 198.51.100.7").statusCode()).isEqualTo(200);
        HttpResponse<String> third = ratesFor("203.0.113.2, 198.51.100.7");
        assertThat(header(third, "RateLimit")).contains("\"address-1m\";r=117;");
        assertThat(header(ratesFor("198.51.100.8"), "RateLimit")).contains("\"address-1m\";r=119;");
    }

    @Test
    void aRequestWithoutAKnownKeyIsChargedByAddressOnly() throws Exception {
        HttpResponse<String> unknown = validate("made-up");
        assertThat(unknown.statusCode()).isEqualTo(401);
        assertThat(unknown.body()).contains("expected the header X-Api-Key with a known key");
        assertThat(header(unknown, "RateLimit-Policy")).isEqualTo("\"address-1m\";q=120;w=60");
        HttpResponse<String> missing = send(request("/v1/usage").GET());
        assertThat(missing.statusCode()).isEqualTo(401);
        HttpResponse<String> two =
                send(request("/v1/rates").header("X-Api-Key", freeKey).header("X-Api-Key", paidKey));
        assertThat(two.statusCode()).isEqualTo(401);
        // Reading the usage was charged without a key, and is free with one.
        assertThat(usage(freeKey)).contains(tier("address-1m", 120, 3));
        for (int i = 3; i < 120; i++) {
            assertThat(rates("made-up-" + i).statusCode()).isEqualTo(401);
        }
        assertDeniedBy("address-1m", rates("another-one"));
    }

    @Test
    void theUsageShowsEveryTierAndTakesNoPermit() throws Exception {
        validate(freeKey);
        for (int i = 0; i < 3; i++) {
            assertThat(usage(freeKey))
                    .startsWith("{\"source\":\"REDIS\",\"tiers\":[" + tier("address-1m", 120, 1))
                    .contains(tier("plan-monthly", 100, 1), tier("validate-1m", 30, 1));
        }
        HttpResponse<String> look = get("/v1/usage", paidKey);
        assertThat(look.body()).contains(tier("plan-monthly", 10_000, 0), tier("validate-1m", 30, 0));
        assertThat(header(look, "RateLimit-Policy")).isEqualTo("\"address-1m\";q=120;w=60");
        assertThat(header(look, "X-RateLimit-Remaining")).isEqualTo("119");
    }

    @Test
    void theLimitHoldsDuringAnOutageOfRedis() throws Exception {
        assertThat(validate(freeKey, numbers(25)).statusCode()).isEqualTo(200);
        redis.stop();
        assertThat(validate(freeKey, numbers(5)).statusCode()).isEqualTo(200);
        assertThat(usage(freeKey)).startsWith("{\"source\":\"LOCAL\"");
        assertDeniedBy("validate-1m", validate(freeKey));
        assertThat(usage(freeKey)).contains(tier("plan-monthly", 100, 30), tier("validate-1m", 30, 30));
        // The state changes when the breaker opens, or when only the fallback has decided for half a second.
        await().until(() -> usage(freeKey).startsWith("{\"source\":\"LOCAL\"")
                && get("/actuator/spillgate", "none").body().contains("\"source\":\"LOCAL\""));
        assertThat(get("/actuator/health", "none").body())
                .startsWith("{\"components\":")
                .contains("\"status\":\"UP\"");

        redis.start();
        service.awaitDecisionsOf("REDIS");
        assertThat(validate(paidKey).statusCode()).isEqualTo(200);
    }

    @Test
    void twoInstancesShareALimit() {
        // For a while, an instance that has ended has a share of the limits of its name.
        String customer = "--customers.keys." + paidKey + "=paid";
        try (Instance one = Instance.on(redis, "two", customer);
                Instance another = Instance.on(redis, "two", customer)) {
            List<CompletableFuture<HttpResponse<String>>> answers = IntStream.range(0, 100)
                    .mapToObj(i -> request("/v1/validate?number=FI12345678")
                            .uri((i % 2 == 0 ? one : another).uri().resolve("/v1/validate?number=FI12345678"))
                            .header("X-Api-Key", paidKey)
                            .POST(BodyPublishers.noBody())
                            .build())
                    .map(request -> client.sendAsync(request, BodyHandlers.ofString()))
                    .toList();
            assertThat(answers.stream().map(answer -> answer.join().statusCode()))
                    .containsOnly(200, 429)
                    .filteredOn(status -> status == 200)
                    .hasSize(30);
        }
    }

    @Test
    void aStreamIsChargedWhatItCosts() throws Exception {
        HttpResponse<String> answer = get("/v1/completions?prompt=two+words&words=5", freeKey);
        assertThat(answer.body()).contains("word-1", "word-5");
        assertThat(header(answer, "RateLimit-Policy"))
                .contains("\"completions-1m\";q=20;w=60", "\"tokens-1m\";q=200;w=60");
        await().untilAsserted(() ->
                assertThat(usage(freeKey)).contains(tier("completions-1m", 20, 1), tier("tokens-1m", 200, 2 + 5)));
    }

    @Test
    void aStreamThatTheClientCutsCostsWhatWasGenerated() throws Exception {
        HttpRequest request = request("/v1/completions?prompt=two+words&words=500")
                .header("X-Api-Key", freeKey)
                .build();
        try (InputStream body =
                client.send(request, BodyHandlers.ofInputStream()).body()) {
            assertThat(new String(body.readNBytes(200), UTF_8)).contains("word-10");
        }
        Pattern used = Pattern.compile("\"tokens-1m\",\"permits\":200,\"used\":(\\d+)");
        // The estimate is 52.
        await().untilAsserted(() -> assertThat(used.matcher(usage(freeKey)).results())
                .map(found -> Integer.parseInt(found.group(1)))
                .singleElement()
                .satisfies(tokens -> assertThat(tokens).isBetween(12, 400).isNotEqualTo(52)));
    }

    @Test
    void operatorsSeeRulesHealthAndMetrics() throws Exception {
        validate(freeKey);
        assertThat(get("/actuator/spillgate", "none").body())
                .contains("\"source\":\"REDIS\"", "\"name\":\"plan\"", "\"limits\":[\"30/1m name=validate-1m\"]");
        assertThat(get("/actuator/health", "none").body()).contains("\"spillgate\":{", "\"source\":\"REDIS\"");
        assertThat(get("/actuator/metrics/spillgate.decisions", "none").body())
                .contains("\"validate\"", "\"allowed\"", "\"redis\"");
    }

    private HttpResponse<String> validate(String apiKey) throws Exception {
        return validate(apiKey, "FI12345678");
    }

    private HttpResponse<String> validate(String apiKey, String... numbers) throws Exception {
        String query = Stream.of(numbers).map(number -> "number=" + number).collect(Collectors.joining("&"));
        return send(request("/v1/validate?" + query).header("X-Api-Key", apiKey).POST(BodyPublishers.noBody()));
    }

    private static String[] numbers(int count) {
        return Collections.nCopies(count, "FI12345678").toArray(String[]::new);
    }

    private HttpResponse<String> rates(String apiKey) throws Exception {
        return get("/v1/rates", apiKey);
    }

    private HttpResponse<String> ratesFor(String forwardedFor) throws Exception {
        return send(HttpRequest.newBuilder(service.uri().resolve("/v1/rates"))
                .header("X-Api-Key", paidKey)
                .header("X-Forwarded-For", forwardedFor)
                .timeout(Duration.ofSeconds(30)));
    }

    private String usage(String apiKey) throws Exception {
        HttpResponse<String> answer = get("/v1/usage", apiKey);
        assertThat(answer.statusCode()).isEqualTo(200);
        return answer.body();
    }

    private HttpResponse<String> get(String path, String apiKey) throws Exception {
        return send(request(path).header("X-Api-Key", apiKey).GET());
    }

    private HttpRequest.Builder request(String path) {
        HttpRequest.Builder request =
                HttpRequest.newBuilder(service.uri().resolve(path)).timeout(Duration.ofSeconds(30));
        // The Actuator refuses requests through a proxy.
        return path.startsWith("/actuator") ? request : request.header("X-Forwarded-For", address);
    }

    private HttpResponse<String> send(HttpRequest.Builder builder) throws Exception {
        HttpRequest request = builder.build();
        // Use a new connection for each of these: Spring responds on another thread, and Reactor Netty up to 1.3.7 may
        // leave the next request on that connection unread (reactor/reactor-netty#4361).
        HttpClient its = request.uri().getPath().startsWith("/actuator") ? HttpClient.newHttpClient() : client;
        return its.send(request, BodyHandlers.ofString());
    }

    private static void assertDeniedBy(String limit, HttpResponse<String> answer) {
        assertThat(answer.statusCode()).isEqualTo(429);
        assertThat(answer.body()).contains("\"violated-policies\":[\"" + limit + "\"]");
        assertThat(header(answer, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(Long.parseLong(header(answer, "Retry-After"))).isPositive();
        assertThat(header(answer, "X-RateLimit-Remaining")).isEqualTo("0");
    }

    private static String header(HttpResponse<String> answer, String name) {
        return answer.headers().firstValue(name).orElseThrow();
    }

    private static String tier(String name, long permits, long used) {
        return "{\"name\":\"%s\",\"permits\":%d,\"used\":%d,\"remaining\":%d,"
                .formatted(name, permits, used, permits - used);
    }
}
