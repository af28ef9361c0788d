package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.testkit.RedisForTests;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.handler.BodyHandler;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The handler for published limits, behind an authentication of the test. */
class PublishedLimitsHandlerTest extends HandlerFixture {

    private static final String LOGIN = "/admin/limits?rule=login";

    private RateLimiting limiting;

    @BeforeEach
    void start() throws Exception {
        limiting = RateLimiting.of(
                        vertx,
                        new RateLimitOptions()
                                .setName("publish-"
                                        + UUID.randomUUID().toString().substring(0, 8))
                                .setRedisUri(RedisForTests.first().uri().toURI().toString())
                                .addRule(new RuleOptions().setName("login").setLimits(Limit.parse("5/15m")))
                                .addLimiter("partner", Limit.perHour(2)))
                .start();
        done(limiting.ready());
        start(router -> router.route("/admin/limits")
                .handler(BodyHandler.create(false).setBodyLimit(100_000))
                .handler(ctx -> {
                    if ("Bearer operator".equals(ctx.request().getHeader("Authorization"))) {
                        ctx.next();
                    } else {
                        ctx.fail(401);
                    }
                })
                .handler(limiting.publishedLimits()));
    }

    @AfterEach
    void end() throws Exception {
        done(limiting.close());
    }

    @Test
    void limitsArePublishedListedAndWithdrawn() {
        assertThat(read().body()).isEqualTo("{}");
        HttpResponse<String> published =
                publish(LOGIN, "{\"limits\":[\"3/15m\",\"9/1h\"],\"comment\":\"an <attack>\"}");
        assertThat(published.statusCode()).isEqualTo(200);
        JsonObject value = new JsonObject(published.body());
        assertThat(value.getString("comment")).isEqualTo("an <attack>");
        assertThat(value.getBoolean("shared")).isTrue();
        assertThat(limits()).contains("3/15m", "9/1h");
        assertThat(new JsonObject(read().body()).getJsonObject("login")).isEqualTo(value);

        HttpResponse<String> conflict = publish(LOGIN, "{\"limits\":\"4/15m\",\"version\":0}");
        assertThat(conflict.statusCode()).isEqualTo(409);
        assertThat(new JsonObject(conflict.body()).getJsonObject("present")).isEqualTo(value);
        assertThat(limits()).contains("3/15m");

        assertThat(delete(LOGIN + "&version=1").statusCode()).isEqualTo(409);
        assertThat(delete(LOGIN + "&version=" + value.getLong("version")).statusCode())
                .isEqualTo(204);
        assertThat(limits()).contains("5/15m");
        assertThat(read().body()).isEqualTo("{}");
    }

    @Test
    void aLimiterHasPublishedLimitsToo() {
        assertThat(publish("/admin/limits?rule=limiter:partner", "{\"limits\":\"1/1h\"}")
                        .statusCode())
                .isEqualTo(200);
        assertThat(limiting.limiter("partner").limits()).hasToString("[1/1h]");
        assertThat(publish("/admin/limits?rule=partner", "{\"limits\":\"1/1h\"}")
                        .body())
                .contains("expected one of login, limiter:partner");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "[]|expected a JSON object",
                "nonsense|expected a JSON object",
                "null|expected a JSON object",
                "{}|limits are missing",
                "{'limits':{'a':1}}|expected",
                "{'limits':'3/15m','durration':'1h'}|is not a field",
                "{'limits':'3/15m','shadow':1}|expected true or false",
                "{'limits':'3/15m','version':1.5}|is not a number",
                "{'limits':'3/15m','until':'2001-01-31T12:00:00Z'}|expected"
            })
    void aWrongValueIsRefusedAndNothingIsPublished(String body, String message) {
        HttpResponse<String> refused = publish(LOGIN, body.replace('\'', '"'));
        assertThat(refused.statusCode()).isEqualTo(400);
        assertThat(new JsonObject(refused.body()).getString("message")).contains(message);
        assertThat(read().body()).isEqualTo("{}");
        assertThat(limits()).contains("5/15m");
    }

    @Test
    void otherRequestsAreRefused() {
        assertThat(publish(LOGIN, "{\"limits\":\"" + "3/15m,".repeat(2_000) + "\"}")
                        .statusCode())
                .isEqualTo(413);
        assertThat(publish("/admin/limits", "{\"limits\":\"3/15m\"}").body()).contains("for example ?rule=login");
        assertThat(client.send(client.request(LOGIN, "Authorization", "Bearer operator", "Content-Type", "text/plain")
                                .POST(BodyPublishers.ofString("{\"limits\":\"3/15m\"}")))
                        .statusCode())
                .isEqualTo(415);
        assertThat(client.send(client.request(LOGIN, "Authorization", "Bearer operator")
                                .PUT(BodyPublishers.noBody()))
                        .statusCode())
                .isEqualTo(405);
        assertThat(get("/admin/limits").statusCode()).isEqualTo(401);
        assertThat(read().body()).isEqualTo("{}");
    }

    private HttpResponse<String> read() {
        return get("/admin/limits", "Authorization", "Bearer operator");
    }

    private HttpResponse<String> publish(String path, String body) {
        return client.send(client.request(
                        path, "Authorization", "Bearer operator", "Content-Type", "application/json; charset=utf-8")
                .POST(BodyPublishers.ofString(body)));
    }

    private HttpResponse<String> delete(String path) {
        return client.send(
                client.request(path, "Authorization", "Bearer operator").DELETE());
    }

    private String limits() {
        return limiting.rules().list().get(0).limits().toString();
    }
}
