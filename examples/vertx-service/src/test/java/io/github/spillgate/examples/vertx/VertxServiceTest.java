package io.github.spillgate.examples.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The service with its own settings, a real Redis and a real client. */
class VertxServiceTest {

    private static final String EXAMPLE = "https://example.com/?a=b";
    private static final int LIMIT = 10;

    private static ExampleRedis redis;

    private final HttpClient client = HttpClient.newHttpClient();
    private final Vertx vertx = Vertx.vertx();
    private VertxService service;
    private int elsewhere;

    @BeforeAll
    static void startRedis() throws IOException {
        redis = ExampleRedis.embedded();
    }

    @AfterAll
    static void stopRedis() {
        redis.close();
    }

    @BeforeEach
    void start() throws Exception {
        redis.start();
        service = started(vertx);
        awaitRedis();
    }

    @AfterEach
    void close() throws Exception {
        service.close().await(30, TimeUnit.SECONDS);
        vertx.close().await(30, TimeUnit.SECONDS);
    }

    @Test
    void aLinkIsCreatedAndFollowed() throws Exception {
        HttpResponse<String> created = create();

        assertThat(created.statusCode()).isEqualTo(201);
        String path = header(created, "Location");
        assertThat(new JsonObject(created.body()))
                .isEqualTo(new JsonObject().put("code", path.substring(1)).put("url", EXAMPLE));
        HttpResponse<String> followed = get(path);
        assertThat(followed.statusCode()).isEqualTo(302);
        assertThat(header(followed, "Location")).isEqualTo(EXAMPLE);
        assertThat(get("/00000000").statusCode()).isEqualTo(404);
    }

    @Test
    void anAddressCreatesExactlyTheLimitAndGetsTheRemainingPermits() throws Exception {
        for (int left = LIMIT - 1; left >= 0; left--) {
            HttpResponse<String> created = create();
            assertThat(created.statusCode()).isEqualTo(201);
            assertThat(header(created, "RateLimit-Policy")).isEqualTo("\"create-1m\";q=10;w=60");
            assertThat(header(created, "RateLimit")).startsWith("\"create-1m\";r=" + left + ";");
            assertThat(header(created, "X-RateLimit-Limit")).isEqualTo("10");
            assertThat(header(created, "X-RateLimit-Remaining")).isEqualTo(Integer.toString(left));
            assertThat(created.headers().firstValue("Retry-After")).isEmpty();
        }
        assertDenied(create());
        // Behind the trusted proxy, each client has its own address.
        assertThat(create("X-Forwarded-For", "192.0.2.1").statusCode()).isEqualTo(201);
        // A value that a client sends comes before the one that the proxy appends.
        for (int i = 1; i < LIMIT; i++) {
            assertThat(create("X-Forwarded-For", "203.0.113." + i + ", 192.0.2.1")
                            .statusCode())
                    .isEqualTo(201);
        }
        assertDenied(create("X-Forwarded-For", "203.0.113.100, 192.0.2.1"));
    }

    @Test
    void allVerticlesShareTheLimit() {
        List<CompletableFuture<HttpResponse<String>>> answers = IntStream.range(0, 3 * LIMIT)
                // Each client opens its own connection; Vert.x distributes connections over the verticles.
                .mapToObj(i ->
                        HttpClient.newHttpClient().sendAsync(creation(EXAMPLE).build(), BodyHandlers.ofString()))
                .toList();

        assertThat(answers.stream().map(answer -> answer.join().statusCode()))
                .filteredOn(status -> status == 201)
                .hasSize(LIMIT);
    }

    @Test
    void followingIsNeverLimited() throws Exception {
        String path = header(create(), "Location");
        for (int i = 1; i < LIMIT; i++) {
            assertThat(create().statusCode()).isEqualTo(201);
        }
        assertDenied(create());

        for (int i = 0; i < 3 * LIMIT; i++) {
            HttpResponse<String> followed = get(path);
            assertThat(followed.statusCode()).isEqualTo(302);
            assertThat(followed.headers().map()).doesNotContainKeys("ratelimit", "x-ratelimit-remaining");
        }
    }

    @Test
    void eachKnownApiKeyHasItsOwnLimit() throws Exception {
        for (int i = 0; i < LIMIT; i++) {
            assertThat(create().statusCode()).isEqualTo(201);
        }
        assertDenied(create("X-Api-Key", "made-up"));
        for (int i = 0; i < LIMIT; i++) {
            assertThat(create("X-Api-Key", "key-of-ann", "X-Forwarded-For", "192.0.2." + i)
                            .statusCode())
                    .isEqualTo(201);
        }
        assertDenied(create("X-Api-Key", "key-of-ann", "X-Forwarded-For", "192.0.2.100"));
        assertThat(create("X-Api-Key", "key-of-bob").statusCode()).isEqualTo(201);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "nonsense",
                "[]",
                "{}",
                "{\"url\": 5}",
                "{\"url\": {}}",
                "{\"url\": \"example.com\"}",
                "{\"url\": \"/path\"}",
                "{\"url\": \"https:\"}",
                "{\"url\": \"https:///path\"}",
                "{\"url\": \"ftp://example.com/\"}",
                "{\"url\": \"javascript:alert(1)\"}",
                "{\"url\": \"https://example.com/\\r\\nSet-Cookie: a=b\"}"
            })
    void aUrlThatIsNotHttpIsRefused(String body) throws Exception {
        HttpResponse<String> refused = send(request("/urls").POST(BodyPublishers.ofString(body)));

        assertThat(refused.statusCode()).isEqualTo(400);
        assertThat(new JsonObject(refused.body()).getString("error"))
                .startsWith("url is ")
                .endsWith(": expected one of http or https, for example {\"url\": \"https://example.com/\"}");
    }

    @Test
    void aBodyThatIsTooLongIsRefused() throws Exception {
        assertThat(send(creation(EXAMPLE + "x".repeat(5_000))).statusCode()).isEqualTo(413);
    }

    @Test
    void theLimitHoldsDuringAnOutageOfRedisAndAfterIt() throws Exception {
        String path = header(create(), "Location");
        redis.stop();
        await().until(() -> {
            createFromElsewhere();
            return limiter().getString("source").equals("LOCAL");
        });
        assertThat(limiter().getString("problem")).isNotEmpty();
        assertThat(health().getString("status")).isEqualTo("UP");
        for (int i = 1; i < LIMIT; i++) {
            assertThat(create().statusCode()).isEqualTo(201);
        }
        assertDenied(create());
        assertThat(get(path).statusCode()).isEqualTo(302);

        redis.start();
        awaitRedis();
        await().until(() -> limiter().getLong("toReconcile") == 0);
        assertThat(limiter().getString("source")).isEqualTo("REDIS");
        // Redis is back without data. The first permit is restored, and those of the outage are reconciled.
        assertDenied(create());
    }

    @Test
    void operatorsSeeHealthAndMetrics() throws Exception {
        create();

        assertThat(limiter().getString("source")).isEqualTo("REDIS");
        HttpResponse<String> metrics = get("/metrics");
        assertThat(header(metrics, "Content-Type")).isEqualTo("text/plain; charset=utf-8");
        assertThat(metrics.body()).contains("spillgate.decisions", "rule='create'", "outcome='allowed'");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "http", "8080x", "-1", "65536", "99999999999"})
    void anInvalidPortIsReported(String port) {
        assertThatThrownBy(() -> VertxService.port(port))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "SERVER_PORT is \"" + port + "\": expected a port from 0 to 65535, where 0 stands for any that"
                                + " is free, for example SERVER_PORT=8081");
        assertThat(VertxService.port("65535")).isEqualTo(65_535);
        assertThat(VertxService.port(" 0 ")).isZero();
    }

    @Test
    void closeStopsTheServer() throws Exception {
        Vertx its = Vertx.vertx();
        VertxService other = started(its);
        URI there = URI.create("http://127.0.0.1:" + other.port() + "/health");
        assertThat(send(HttpRequest.newBuilder(there)).statusCode()).isEqualTo(200);

        other.close().await(30, TimeUnit.SECONDS);
        its.close().await(30, TimeUnit.SECONDS);

        assertThatThrownBy(() -> send(HttpRequest.newBuilder(there))).isInstanceOf(IOException.class);
    }

    private VertxService started(Vertx vertx) throws Exception {
        JsonObject config = VertxService.config(vertx).put("port", 0);
        config.getJsonObject("limiter")
                // A unique name, so that no other test shares its counts.
                .put("name", UUID.randomUUID().toString())
                .put("redis", new JsonObject().put("uri", redis.uri()))
                // A busy machine must not cause fallbacks.
                .put("deadline", "5s");
        return VertxService.start(vertx, config).await(30, TimeUnit.SECONDS);
    }

    /** Waits until Redis decides: connecting may take longer than the deadline of the first decision. */
    private void awaitRedis() {
        await().until(() -> {
            List<String> before = decidedByRedis();
            createFromElsewhere();
            return !decidedByRedis().equals(before);
        });
    }

    private List<String> decidedByRedis() throws Exception {
        return get("/metrics")
                .body()
                .lines()
                .filter(line -> line.contains("source='redis'"))
                .toList();
    }

    private void createFromElsewhere() throws Exception {
        elsewhere++;
        create("X-Forwarded-For", "198.18." + elsewhere / 256 + "." + elsewhere % 256);
    }

    private HttpResponse<String> create(String... headers) throws Exception {
        HttpRequest.Builder request = creation(EXAMPLE);
        return send(headers.length == 0 ? request : request.headers(headers));
    }

    private HttpRequest.Builder creation(String url) {
        return request("/urls")
                .POST(BodyPublishers.ofString(new JsonObject().put("url", url).encode()));
    }

    private HttpResponse<String> get(String path) throws Exception {
        return send(request(path));
    }

    private JsonObject limiter() throws Exception {
        return health().getJsonArray("checks").getJsonObject(0).getJsonObject("data");
    }

    private JsonObject health() throws Exception {
        return new JsonObject(get("/health").body());
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + service.port() + path))
                .timeout(Duration.ofSeconds(30));
    }

    private HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofString());
    }

    private static void assertDenied(HttpResponse<String> answer) {
        assertThat(answer.statusCode()).isEqualTo(429);
        assertThat(answer.body()).contains("\"violated-policies\":[\"create-1m\"]");
        assertThat(header(answer, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(Long.parseLong(header(answer, "Retry-After"))).isPositive();
        assertThat(header(answer, "X-RateLimit-Remaining")).isEqualTo("0");
    }

    private static String header(HttpResponse<String> answer, String name) {
        return answer.headers().firstValue(name).orElseThrow();
    }
}
