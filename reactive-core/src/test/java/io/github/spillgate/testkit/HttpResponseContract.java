package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static io.github.spillgate.testkit.RateLimitFields.field;
import static io.github.spillgate.testkit.RateLimitFields.items;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.local.LocalStore;
import java.io.IOException;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The response fields, statuses and bodies that a client sees, for pages of other origins as well. */
public abstract class HttpResponseContract extends HttpContract {

    private static final String ORIGIN = "https://shop.example";

    protected HttpResponseContract(HttpAdapter adapter) {
        super(adapter);
    }

    HttpResponseContract(HttpAdapter adapter, PostgresForTests postgres) {
        super(adapter, postgres);
    }

    @Test
    void anAllowedResponseHasTheRateLimitFields() {
        serve(address("address", 3));
        HttpResponse<String> response = client.get("/hello");
        assertThat(response.statusCode()).isEqualTo(200);
        assertThat(response.body()).isEqualTo("hello");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 3L, "w", 60L)));
        assertThat(items(response, "RateLimit")).singleElement().satisfies(item -> {
            assertThat(item.getKey()).isEqualTo("address-1m");
            assertThat(item.getValue()).containsOnlyKeys("r", "t").containsEntry("r", 2L);
            assertThat(item.getValue().get("t")).isBetween(1L, 60L);
        });
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("2");
        long now = System.currentTimeMillis() / 1000;
        assertThat(Long.parseLong(field(response, "X-RateLimit-Reset"))).isBetween(now, now + 61);
        assertThat(response.headers().firstValue("Retry-After")).isEmpty();
        assertThat(response.headers().firstValue("Cache-Control")).isEmpty();
    }

    @Test
    void aDenialHasAProblemBodyAndARetryAfter() {
        serve(address("address", 1));
        client.get("/hello");
        HttpResponse<String> response = client.get("/hello");
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(field(response, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(field(response, "Cache-Control")).isEqualTo("no-store");
        long retryAfter = Long.parseLong(field(response, "Retry-After"));
        assertThat(retryAfter).isBetween(1L, 61L);
        assertThat(response.body())
                .isEqualTo("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        + "\"title\":\"Request cannot be satisfied as assigned quota has been "
                        + "exceeded\",\"status\":429,"
                        + "\"violated-policies\":[\"address-1m\"],\"retry-after\":" + retryAfter + "}");
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("address-1m", Map.of("q", 1L, "w", 60L)));
        assertThat(items(response, "RateLimit"))
                .containsExactly(Map.entry("address-1m", Map.of("r", 0L, "t", Math.min(60L, retryAfter))));
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("1");
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(Long.parseLong(field(response, "X-RateLimit-Reset")))
                .isGreaterThanOrEqualTo(System.currentTimeMillis() / 1000);
    }

    /** The limit of a rule has its name, so the ban has too. */
    @Test
    void aBannedClientGetsAProblemOfItsOwn() {
        serve(address("login", 1)
                .limit(Limit.ban(Duration.ofHours(1), 2, Duration.ofMinutes(10)))
                .limit(Limit.pausable()));
        client.get("/hello");
        assertThat(client.get("/hello").body()).contains("#quota-exceeded", "[\"login-1m\"]");
        assertThat(Long.parseLong(field(client.get("/hello"), "Retry-After"))).isBetween(3_500L, 3_600L);
        HttpResponse<String> response = client.get("/hello");
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(response.body())
                .startsWith("{\"type\":\"https://iana.org/assignments/http-problem-types#abnormal-usage-detected\","
                        + "\"title\":\"Request not satisfied due to detection of abnormal request pattern\","
                        + "\"status\":429,\"violated-policies\":[\"login-1m\",\"login-ban\"],\"retry-after\":");
        // A ban is no quota.
        assertThat(items(response, "RateLimit-Policy"))
                .containsExactly(Map.entry("login-1m", Map.of("q", 1L, "w", 60L)));
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("1");
    }

    /** In the period that begins, clocks are set forward, so it is an hour shorter than the window of the policy. */
    @Test
    void theFieldsAroundABoundaryAreThoseOnThePageOfLimits() throws IOException {
        mayFallBack = true; // The local store decides.
        ManualClock clock = new ManualClock();
        RateLimiter limiter = RateLimiter.builder("boundary")
                .store(LocalStore.bounded(16, clock))
                .build();
        Limit quota = Limit.monthly(100).in(ZoneId.of("Europe/Berlin")).from(15);
        serve(
                limiter,
                (match, outcome, decision, took) -> {},
                Rule.named("plan").key(LimiterForTests.ADDRESS).limit(quota));
        String page = Files.readString(Snippets.ROOT.resolve("docs/limits.md"));
        List<String> rows =
                page.lines().filter(line -> line.startsWith("| 2027-")).toList();
        assertThat(rows).hasSize(4);
        int before = 99;
        for (String row : rows) {
            String time = row.split(" ", 3)[1];
            clock.set(OffsetDateTime.parse(time).toInstant().toEpochMilli());
            for (; before > 0; before--) {
                client.get("/hello");
            }
            HttpResponse<String> response = client.get("/hello");
            assertThat(page).contains("`RateLimit-Policy: " + field(response, "RateLimit-Policy") + "`");
            assertThat(row)
                    .isEqualTo(
                            "| %s | %d | `%s` | %s | %s |",
                            time,
                            response.statusCode(),
                            field(response, "RateLimit"),
                            field(response, "X-RateLimit-Reset"),
                            response.headers().firstValue("Retry-After").orElse("none"));
        }
        limiter.close();
    }

    @Test
    void aResponseToARequestWithoutARuleHasNoFields() {
        serve(address("address", 1).paths(pattern("/items/**")));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(RateLimitFields.all(response)).isEmpty();
        }
        assertThat(events.all()).isEmpty();
    }

    @Test
    void fieldsCanBeDisabled() {
        serve(RateLimitHeaders.all().xRateLimit(false).rateLimit(false), address("address", 1));
        assertThat(RateLimitFields.all(client.get("/hello"))).isEmpty();
        assertThat(RateLimitFields.all(client.get("/hello"))).containsExactly("Retry-After");
    }

    @Test
    void fieldsSetByAHandlerAreKept() {
        serve(address("address", 5));
        HttpResponse<String> response = client.get("/own");
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo(HttpAdapter.OWN);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @ParameterizedTest
    @ValueSource(ints = {204, 302, 401, 404, 500})
    void everyStatusHasTheRateLimitFields(int status) {
        serve(address("address", 5));
        HttpResponse<String> response = client.get("/status/" + status);
        assertThat(response.statusCode()).isEqualTo(status);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("4");
    }

    @Test
    void requestsWithoutAHandlerAreLimited() {
        serve(address("address", 1));
        HttpResponse<String> response = client.get("/nothing/there");
        assertThat(response.statusCode()).isEqualTo(404);
        assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(client.get("/nothing/there").statusCode()).isEqualTo(429);
    }

    @Test
    void aDeniedHeadRequestHasNoBody() {
        serve(address("address", 1));
        client.get("/hello");
        HttpResponse<String> response = client.send(client.request("/hello").method("HEAD", BodyPublishers.noBody()));
        assertThat(response.statusCode()).isEqualTo(429);
        assertThat(response.body()).isEmpty();
        assertThat(RateLimitFields.all(response)).hasSize(6);
    }

    // Other origins.

    @Test
    void theFieldsAreExposedToOtherOrigins() {
        serve(address("address", 1));
        HttpResponse<String> allowed = client.get("/open", "Origin", ORIGIN);
        assertThat(allowed.statusCode()).isEqualTo(200);
        HttpResponse<String> denied = client.get("/open", "Origin", ORIGIN);
        assertThat(denied.statusCode()).isEqualTo(429);
        for (HttpResponse<String> response : List.of(allowed, denied)) {
            assertThat(field(response, "Access-Control-Allow-Origin")).isEqualTo("*");
            assertThat(field(response, "Access-Control-Expose-Headers"))
                    .isEqualTo("X-Own, RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining,"
                            + " X-RateLimit-Reset, Retry-After");
        }
        HttpResponse<String> closed = client.get("/hello", "Origin", ORIGIN);
        assertThat(closed.statusCode()).isEqualTo(429);
        assertThat(closed.headers().firstValue("Access-Control-Allow-Origin")).isEmpty();
        assertThat(closed.headers().firstValue("Access-Control-Expose-Headers")).isEmpty();
    }

    @Test
    void aPreflightRequestIsNotLimited() {
        serve(address("address", 1));
        client.get("/hello");
        String[] asking = {"Origin", ORIGIN, "Access-Control-Request-Method", "GET"};
        HttpResponse<String> open = options("/open", asking);
        assertThat(open.statusCode()).isBetween(200, 299);
        assertThat(field(open, "Access-Control-Allow-Origin")).isEqualTo("*");
        assertThat(RateLimitFields.all(open)).isEmpty();
        // Whatever it is answered where no other origin is allowed.
        assertThat(options("/hello", asking).statusCode()).isNotEqualTo(429);
        // These are none.
        assertThat(options("/hello").statusCode()).isEqualTo(429);
        assertThat(options("/hello", "Origin", ORIGIN).statusCode()).isEqualTo(429);
        String[] withPassword = {
            "Origin", ORIGIN, "Access-Control-Request-Method", "GET", "Authorization", "Basic YW5uOnNlY3JldA=="
        };
        assertThat(options("/hello", withPassword).statusCode()).isEqualTo(429);
    }

    private HttpResponse<String> options(String path, String... headers) {
        return client.send(client.request(path, headers).method("OPTIONS", BodyPublishers.noBody()));
    }
}
