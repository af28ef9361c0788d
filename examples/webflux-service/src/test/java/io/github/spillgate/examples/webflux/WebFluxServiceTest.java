package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** The service as it is started by users, with its own settings, on a real Redis and asked by a real client. */
class WebFluxServiceTest {

    private static final String VALIDATE = "/v1/validate?number=FI12345678";

    private static ExampleRedis redis;

    private ConfigurableApplicationContext service;

    @BeforeAll
    static void startRedis() throws IOException {
        redis = ExampleRedis.embedded();
    }

    @AfterAll
    static void stopRedis() throws IOException {
        redis.close();
    }

    @BeforeEach
    void start() throws Exception {
        redis.start();
        // A name of its own, so counts of its own.
        service = new SpringApplicationBuilder(WebFluxService.class)
                .run(
                        "--server.port=0",
                        "--spillgate.redis.uri=" + redis.uri(),
                        "--spillgate.name=" + UUID.randomUUID(),
                        // That the machine is busy is not what is tested.
                        "--spillgate.deadline=5s");
        awaitDecisionsOf("REDIS");
    }

    @AfterEach
    void stop() {
        service.close();
    }

    @Test
    void allThreeTiersAreToldWithEachValidation() throws Exception {
        HttpResponse<String> answer = validate("free-key");
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(answer.body()).isEqualTo("{\"number\":\"FI12345678\",\"valid\":true}");
        assertThat(header(answer, "RateLimit-Policy"))
                .isEqualTo("\"address-1m\";q=120;w=60, \"plan-24h\";q=100;w=86400, \"validate-1m\";q=30;w=60");
        assertThat(header(answer, "RateLimit")).contains("\"plan-24h\";r=99;", "\"validate-1m\";r=25;");
        assertThat(header(answer, "X-RateLimit-Limit")).isEqualTo("30");
        assertThat(header(answer, "X-RateLimit-Remaining")).isEqualTo("25");
        assertThat(answer.headers().firstValue("Retry-After")).isEmpty();
    }

    @Test
    void whomTheEndpointDeniesItChargesNowhere() throws Exception {
        for (int i = 0; i < 6; i++) {
            assertThat(validate("free-key").statusCode()).isEqualTo(200);
        }
        String before = usage("free-key");
        assertDeniedBy("validate-1m", validate("free-key"));
        assertDeniedBy("validate-1m", validate("free-key"));
        String after = usage("free-key");
        assertThat(after).contains(tier("plan-24h", 100, 6), tier("validate-1m", 30, 30));
        // Each look at the usage counts by address, and neither denial has.
        assertThat(used(after, "address-1m")).isEqualTo(used(before, "address-1m") + 1);
        // What is cheap goes on, and so do others.
        assertThat(rates("free-key").statusCode()).isEqualTo(200);
        assertThat(validate("another-free-key").statusCode()).isEqualTo(200);
    }

    @Test
    void aPlanGrantsItsOwnQuotaEachDay() throws Exception {
        for (int i = 0; i < 100; i++) {
            assertThat(rates("free-key").statusCode()).isEqualTo(200);
        }
        assertDeniedBy("plan-24h", rates("free-key"));
        assertDeniedBy("plan-24h", validate("free-key"));
        assertThat(header(rates("free-key"), "RateLimit-Policy")).contains("\"plan-24h\";q=100;w=86400");
        assertThat(usage("free-key")).contains(tier("plan-24h", 100, 100), tier("validate-1m", 30, 0));
        assertThat(usage("another-free-key")).contains(tier("plan-24h", 100, 0));
        HttpResponse<String> pro = rates("pro-key");
        assertThat(pro.statusCode()).isEqualTo(200);
        assertThat(header(pro, "RateLimit-Policy")).contains("\"plan-24h\";q=10000;w=86400");
        assertThat(usage("pro-key")).contains(tier("plan-24h", 10_000, 1));
    }

    @Test
    void anAddressIsDeniedWhateverKeyItShows() throws Exception {
        long already = used(usage("pro-key"), "address-1m");
        for (long i = already; i < 120; i++) {
            assertThat(rates("pro-key").statusCode()).isEqualTo(200);
        }
        assertDeniedBy("address-1m", rates("pro-key"));
        assertDeniedBy("address-1m", validate("free-key"));
        assertDeniedBy("address-1m", get("/v1/usage", "free-key"));
        // Nothing to do with the API.
        assertThat(get("/actuator/health", "none").statusCode()).isEqualTo(200);
    }

    @Test
    void whoShowsNoKeyThatIsKnownIsChargedByAddressAndByNothingElse() throws Exception {
        HttpResponse<String> unknown = validate("made-up");
        assertThat(unknown.statusCode()).isEqualTo(401);
        assertThat(unknown.body()).contains("expected the header X-Api-Key with a key that is known");
        assertThat(header(unknown, "RateLimit-Policy")).isEqualTo("\"address-1m\";q=120;w=60");
        HttpResponse<String> missing = send(request("/v1/usage").GET());
        assertThat(missing.statusCode()).isEqualTo(401);
        HttpResponse<String> two =
                send(request("/v1/rates").header("X-Api-Key", "free-key").header("X-Api-Key", "pro-key"));
        assertThat(two.statusCode()).isEqualTo(401);
        for (long i = used(usage("free-key"), "address-1m"); i < 120; i++) {
            assertThat(rates("made-up-" + i).statusCode()).isEqualTo(401);
        }
        assertDeniedBy("address-1m", rates("another-one"));
    }

    @Test
    void aLookAtTheUsageIsChargedByAddressAlone() throws Exception {
        String first = usage("free-key");
        String second = usage("free-key");
        assertThat(second)
                .startsWith("{\"source\":\"REDIS\",\"tiers\":[{\"name\":\"address-1m\",\"permits\":120,\"used\":")
                .contains(tier("plan-24h", 100, 0), tier("validate-1m", 30, 0));
        assertThat(used(second, "address-1m")).isEqualTo(used(first, "address-1m") + 1);
        assertThat(header(get("/v1/usage", "free-key"), "RateLimit-Policy")).isEqualTo("\"address-1m\";q=120;w=60");
    }

    @Test
    void withoutRedisItGoesOnWithWhatItKnowsAndComesBack() throws Exception {
        for (int i = 0; i < 5; i++) {
            assertThat(validate("free-key").statusCode()).isEqualTo(200);
        }
        redis.stop();
        assertThat(validate("free-key").statusCode()).isEqualTo(200);
        assertThat(usage("free-key")).startsWith("{\"source\":\"LOCAL\"");
        assertDeniedBy("validate-1m", validate("free-key"));
        assertThat(usage("free-key")).contains(tier("plan-24h", 100, 6), tier("validate-1m", 30, 30));
        assertThat(get("/actuator/spillgate", "none").body()).contains("\"decides\":\"LOCAL\"");
        assertThat(get("/actuator/health", "none").body())
                .startsWith("{\"components\":")
                .contains("\"status\":\"UP\"");

        redis.start();
        awaitDecisionsOf("REDIS");
        assertThat(validate("pro-key").statusCode()).isEqualTo(200);
    }

    @Test
    void operatorsSeeRulesHealthAndMetrics() throws Exception {
        validate("free-key");
        assertThat(get("/actuator/spillgate", "none").body())
                .contains("\"decides\":\"REDIS\"", "\"name\":\"plan\"", "\"limits\":[\"30/1m name=validate-1m\"]");
        assertThat(get("/actuator/health", "none").body()).contains("\"spillgate\":{", "\"decides\":\"REDIS\"");
        assertThat(get("/actuator/metrics/spillgate.decisions", "none").body())
                .contains("\"validate\"", "\"allowed\"", "\"redis\"");
    }

    /** Looks at the usage charge no plan. A connection may take longer than the deadline of the first decision. */
    private void awaitDecisionsOf(String source) {
        await().until(() -> usage("free-key").startsWith("{\"source\":\"" + source + "\""));
    }

    private HttpResponse<String> validate(String apiKey) throws Exception {
        return send(request(VALIDATE).header("X-Api-Key", apiKey).POST(BodyPublishers.noBody()));
    }

    private HttpResponse<String> rates(String apiKey) throws Exception {
        return get("/v1/rates", apiKey);
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
        String port = service.getEnvironment().getProperty("local.server.port");
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .timeout(Duration.ofSeconds(30));
    }

    private HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        // Each on a connection of its own: Spring answers health on another thread, and Reactor Netty up to 1.3.7 may
        // leave the next
        // request on that connection unread (reactor/reactor-netty#4361).
        return HttpClient.newHttpClient().send(request.build(), BodyHandlers.ofString());
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

    private static long used(String usage, String name) {
        String text = usage.substring(usage.indexOf("\"" + name + "\""));
        String value = text.substring(text.indexOf("\"used\":") + "\"used\":".length());
        return Long.parseLong(value.substring(0, value.indexOf(',')));
    }
}
