package io.github.spillgate.examples.webflux;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The streaming endpoint: an estimate of its tokens is reserved, and the real number is settled at the end. */
class CompletionTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private static ExampleRedis redis;
    private static Instance service;

    private final HttpClient client = HttpClient.newHttpClient();

    @BeforeAll
    static void start() throws IOException {
        redis = ExampleRedis.embedded();
        service = Instance.on(
                redis,
                "completions",
                IntStream.range(0, 5)
                        .mapToObj(i -> "--customers.keys.key-" + i + "=free")
                        .toArray(String[]::new));
    }

    @AfterAll
    static void stop() {
        service.close();
        redis.close();
    }

    @Test
    void aShortAnswerCostsLessThanTheEstimate() throws Exception {
        HttpResponse<String> answer = client.send(completion("key-0", 5), BodyHandlers.ofString());
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(answer.body()).contains("word-1", "word-5");
        assertThat(answer.headers().firstValue("RateLimit-Policy").orElseThrow())
                .contains("\"completions-1m\";q=20;w=60", "\"tokens-1m\";q=200;w=60");
        awaitUsed("key-0", "tokens-1m", 2 + 5);
        awaitUsed("key-0", "completions-1m", 1);
    }

    @Test
    void aLongAnswerIsChargedAndDelaysTheNextOne() throws Exception {
        assertThat(client.send(completion("key-1", 250), BodyHandlers.ofString())
                        .statusCode())
                .isEqualTo(200);
        awaitUsed("key-1", "tokens-1m", 2 + 250);
        HttpResponse<String> denied = client.send(completion("key-1", 1), BodyHandlers.ofString());
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("Retry-After")).isPresent();
        awaitUsed("key-1", "completions-1m", 1);
    }

    @Test
    void concurrentRequestsAreAdmittedByTheirEstimates() {
        List<CompletableFuture<HttpResponse<String>>> answers = IntStream.range(0, 5)
                .mapToObj(i -> client.sendAsync(completion("key-2", 40), BodyHandlers.ofString()))
                .toList();
        assertThat(answers.stream().filter(answer -> answer.join().statusCode() == 200))
                .hasSize(3);
        awaitUsed("key-2", "tokens-1m", 3 * (2 + 40));
    }

    @Test
    void aStreamThatTheClientCutsCostsWhatWasGenerated() throws Exception {
        HttpResponse<InputStream> answer = client.send(completion("key-3", 500), BodyHandlers.ofInputStream());
        try (InputStream body = answer.body()) {
            assertThat(new String(body.readNBytes(200), UTF_8)).contains("word-10");
        }
        await().atMost(PATIENCE).until(() -> used("key-3", "tokens-1m") != 52);
        assertThat(used("key-3", "tokens-1m")).isBetween(12L, 400L);
    }

    private static HttpRequest completion(String key, int words) {
        return HttpRequest.newBuilder(service.uri().resolve("/v1/completions?prompt=two+words&words=" + words))
                .header("X-Api-Key", key)
                .build();
    }

    private void awaitUsed(String key, String limit, long tokens) {
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(used(key, limit)).isEqualTo(tokens));
    }

    private long used(String key, String limit) throws IOException, InterruptedException {
        HttpResponse<String> usage = client.send(
                HttpRequest.newBuilder(service.uri().resolve("/v1/usage"))
                        .header("X-Api-Key", key)
                        .build(),
                BodyHandlers.ofString());
        Matcher found = Pattern.compile("\"" + limit + "\",\"permits\":\\d+,\"used\":(\\d+)")
                .matcher(usage.body());
        assertThat(found.find()).as(usage.body()).isTrue();
        return Long.parseLong(found.group(1));
    }
}
