package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The service, and its page, with counts in PostgreSQL. */
class PostgresWebFluxServiceTest {

    private static ExamplePostgres postgres;
    private static Instance service;

    @BeforeAll
    static void start() {
        postgres = ExamplePostgres.open();
        service = Instance.on(postgres, "postgres");
    }

    @AfterAll
    static void stop() {
        service.close();
        postgres.close();
    }

    @Test
    void thePageStopsPostgresAndTheLimitHolds() throws Exception {
        for (int i = 0; i < 30; i++) {
            assertThat(validate().statusCode()).isEqualTo(200);
        }
        HttpResponse<String> denied = validate();
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("\"violated-policies\":[\"validate-1m\"]");
        assertThat(get("/v1/usage"))
                .startsWith("{\"source\":\"POSTGRES\"")
                .contains("{\"name\":\"validate-1m\",\"permits\":30,\"used\":30,\"remaining\":0,");
        assertThat(get("/actuator/spillgate")).contains("\"source\":\"POSTGRES\"");
        assertThat(get("/actuator/metrics/spillgate.decisions")).contains("\"postgres\"");
        assertThat(traffic())
                .contains(
                        "\"source\":\"POSTGRES\"",
                        "\"store\":{\"product\":\"PostgreSQL\",\"name\":\"" + postgres.name()
                                + "\",\"ours\":true,\"running\":true}");

        assertThat(post("/playground/store/stop").statusCode()).isEqualTo(204);
        service.awaitDecisionsOf("LOCAL");
        assertThat(validate().statusCode()).isEqualTo(429);
        await().until(() -> traffic().contains("\"source\":\"LOCAL\""));
        assertThat(traffic()).contains("\"running\":false");

        assertThat(post("/playground/store/start").statusCode()).isEqualTo(204);
        service.awaitDecisionsOf("POSTGRES");
        assertThat(validate().statusCode()).isEqualTo(429);
    }

    private static HttpResponse<String> validate() throws Exception {
        return post("/v1/validate?number=FI12345678");
    }

    private static HttpResponse<String> post(String path) throws Exception {
        return send(request(path).POST(BodyPublishers.noBody()));
    }

    private static String traffic() throws Exception {
        return post("/playground/traffic?rate=0").body();
    }

    private static String get(String path) throws Exception {
        return send(request(path).GET()).body();
    }

    private static HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(service.uri().resolve(path))
                .timeout(Duration.ofSeconds(30))
                .header("X-Playground", "1")
                .header("X-Api-Key", "paid-key");
    }

    /** Uses a new connection for each request: see WebFluxServiceTest. */
    private static HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return HttpClient.newHttpClient().send(request.build(), BodyHandlers.ofString());
    }
}
