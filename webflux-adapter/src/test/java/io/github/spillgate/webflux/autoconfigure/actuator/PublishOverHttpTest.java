package io.github.spillgate.webflux.autoconfigure.actuator;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.BootForTests;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Import;

/** The write operation of the endpoint: limits for all instances, on a real server and a real Redis. */
class PublishOverHttpTest {

    private static final String LOGIN = "/actuator/spillgate/login";

    private final String name = "publish-" + UUID.randomUUID().toString().substring(0, 8);
    private ConfigurableApplicationContext context = start("--management.endpoint.spillgate.access=unrestricted");

    @AfterEach
    void close() {
        context.close();
    }

    private ConfigurableApplicationContext start(String... settings) {
        ConfigurableApplicationContext started = new SpringApplicationBuilder(Application.class)
                .run(Stream.concat(
                                Stream.of(
                                        "--server.port=0",
                                        "--server.address=127.0.0.1",
                                        "--spillgate.name=" + name,
                                        "--spillgate.redis.uri="
                                                + RedisForTests.first().uri().toURI(),
                                        "--spillgate.rules[0].name=login",
                                        "--spillgate.rules[0].paths=/login",
                                        "--spillgate.rules[0].limits=5/15m",
                                        "--spillgate.limiters.partner.limits=2/1h",
                                        "--management.endpoints.web.exposure.include=spillgate"),
                                Stream.of(settings))
                        .toArray(String[]::new));
        LimiterForTests.awaitReady(started.getBean(RateLimiter.class));
        return started;
    }

    @Test
    void aPublishedLimitAppliesToAllInstancesUntilItIsWithdrawn() {
        HttpResponse<String> published =
                publish(LOGIN, "{\"limits\":\"3/15m\",\"comment\":\"an attack \\u003c \\u202e\",\"version\":0}");
        assertThat(published.statusCode()).isEqualTo(200);
        assertThat(published.body())
                .contains("\"limits\":[\"3/15m", "\"shadow\":false", "\"comment\":\"an attack", "\"shared\":true");
        String version = version(published);
        assertThat(limitsOf(context)).contains("3/15m");
        assertThat(get(context, "/actuator/spillgate").body())
                .contains("\"published\":{\"login\":{\"limits\":[\"3/15m", "\"version\":" + version);
        try (ConfigurableApplicationContext another = start()) {
            assertThat(limitsOf(another)).as("an instance that starts later").contains("3/15m");
            assertThat(delete(LOGIN + "?version=" + version).statusCode()).isEqualTo(204);
            assertThat(limitsOf(context)).contains("5/15m");
            await().untilAsserted(() -> assertThat(limitsOf(another)).contains("5/15m"));
        }
    }

    @Test
    void aChangeOfAnotherOperatorIsAConflictWithThePresentValue() {
        String version = version(publish(LOGIN, "{\"limits\":\"3/15m\",\"comment\":\"mine\"}"));
        for (HttpResponse<String> conflict : List.of(
                publish(LOGIN, "{\"limits\":\"9/15m\"}"),
                publish(LOGIN, "{\"limits\":\"9/15m\",\"version\":1}"),
                delete(LOGIN + "?version=1"))) {
            assertThat(conflict.statusCode()).isEqualTo(409);
            assertThat(conflict.body())
                    .contains("\"message\":", "expected version", "\"present\":{\"limits\":[\"3/15m")
                    .contains("\"comment\":\"mine\"", "\"version\":" + version);
        }
        assertThat(limitsOf(context)).contains("3/15m");
        assertThat(publish(LOGIN, "{\"limits\":\"9/15m\",\"version\":" + version + "}")
                        .statusCode())
                .isEqualTo(200);
        assertThat(limitsOf(context)).contains("9/15m");
    }

    @Test
    void aLimiterHasPublishedLimitsToo() {
        String partner = "/actuator/spillgate/limiter:partner";
        HttpResponse<String> published = publish(partner, "{\"limits\":\"1/1h, 4 concurrent\"}");
        assertThat(published.statusCode()).isEqualTo(200);
        assertThat(get(context, "/actuator/spillgate").body())
                .contains("\"limiters\":[{\"name\":\"partner\",\"limits\":[\"1/1h\",\"4 concurrent\"]}]")
                .contains("\"limiter:partner\":{\"limits\":");
        HttpResponse<String> dryRun =
                publish(partner, "{\"limits\":\"1/1h\",\"shadow\":true,\"version\":" + version(published) + "}");
        assertThat(dryRun.statusCode()).isEqualTo(400);
        assertThat(dryRun.body()).contains("dry run");
    }

    @Test
    void aDryRunMakesTheRuleAShadow() {
        assertThat(publish(LOGIN, "{\"limits\":\"1/15m\",\"shadow\":true}").statusCode())
                .isEqualTo(200);
        assertThat(get(context, "/actuator/spillgate").body()).contains("\"shadow\":true,\"annotation\":false");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{}|limits are missing",
                "{'limits':''}|limits are missing",
                "{'limits':'many'}|many",
                "{'limits':'3/15m,'}|expected",
                "{'limits':'0/15m'}|expected",
                "{'limits':'3/15m, 3/15m'}|15m",
                "{'limits':'3/15m','shadwo':'true'}|is not a field: did you mean shadow",
                "{'limits':'3/15m','shadow':'maybe'}|expected true or false",
                "{'limits':'3/15m','version':'-1'}|version -1 is negative",
                "{'limits':'3/15m','version':'new'}|expected that of the published value",
                "{'limits':'3/15m','until':'tomorrow'}|for example 2030-01-31T12:00:00Z",
                "{'limits':'3/15m','until':'2001-01-31T12:00:00Z'}|expected",
                "{'limits':'3/15m','comment':'two\\nlines'}|characters on one line",
                "{'limits':'3/15m','comment':'half of \\ud83d'}|characters on one line"
            })
    void aWrongValueIsRefusedAndNothingIsPublished(String body, String message) {
        HttpResponse<String> refused = publish(LOGIN, body.replace('\'', '"'));
        assertThat(refused.statusCode()).isEqualTo(400);
        assertThat(refused.body()).startsWith("{\"message\":\"").contains(message);
        assertThat(get(context, "/actuator/spillgate").body()).contains("\"published\":{}");
        assertThat(limitsOf(context)).contains("5/15m");
    }

    @Test
    void sizesAreBounded() {
        for (String body : List.of(
                "{\"limits\":\"" + "3/15m, ".repeat(1_000) + "\"}",
                "{\"limits\":\"3/15m\",\"comment\":\"" + "x".repeat(201) + "\"}")) {
            assertThat(publish(LOGIN, body).statusCode()).isEqualTo(400);
        }
        assertThat(get(context, "/actuator/spillgate").body()).contains("\"published\":{}");
    }

    @Test
    void anUnknownNameIsNotFound() {
        HttpResponse<String> unknown = publish("/actuator/spillgate/logni", "{\"limits\":\"3/15m\"}");
        assertThat(unknown.statusCode()).isEqualTo(404);
        assertThat(unknown.body()).contains("did you mean login? Expected one of login, limiter:partner");
        HttpResponse<String> both = delete(LOGIN + "?key=127.0.0.1&version=1");
        assertThat(both.statusCode()).isEqualTo(400);
        assertThat(both.body()).contains("both key and version");
    }

    @Test
    void withoutConfigurationThereIsNoWriteOperation() {
        try (ConfigurableApplicationContext readOnly = start()) {
            ClientForTests client = BootForTests.client(readOnly);
            assertThat(client.get(LOGIN + "?key=127.0.0.1").statusCode()).isEqualTo(200);
            for (HttpResponse<String> refused : List.of(
                    client.send(client.request(LOGIN, "Content-Type", "application/json")
                            .POST(BodyPublishers.ofString("{\"limits\":\"3/15m\"}"))),
                    client.send(client.request(LOGIN + "?version=0").DELETE()))) {
                assertThat(refused.statusCode()).isEqualTo(405);
            }
            assertThat(limitsOf(readOnly)).contains("5/15m");
        }
    }

    private HttpResponse<String> publish(String path, String body) {
        ClientForTests client = BootForTests.client(context);
        return client.send(
                client.request(path, "Content-Type", "application/json").POST(BodyPublishers.ofString(body)));
    }

    private HttpResponse<String> delete(String path) {
        ClientForTests client = BootForTests.client(context);
        return client.send(client.request(path).DELETE());
    }

    private static HttpResponse<String> get(ConfigurableApplicationContext of, String path) {
        return BootForTests.client(of).get(path);
    }

    private static String limitsOf(ConfigurableApplicationContext of) {
        return get(of, LOGIN + "?key=nobody").body();
    }

    private static String version(HttpResponse<String> published) {
        Matcher version = Pattern.compile("\"version\":(\\d+)").matcher(published.body());
        assertThat(version.find()).as(published.body()).isTrue();
        return version.group(1);
    }

    @SpringBootConfiguration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(BootForTests.class)
    static class Application {}
}
