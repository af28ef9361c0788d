package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static io.github.spillgate.testkit.RateLimitFields.field;
import static io.github.spillgate.testkit.RateLimitFields.items;
import static io.github.spillgate.testkit.RateLimitFields.names;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;

/** The rules that apply to a request, and what each of them charges. */
public abstract class HttpRuleContract extends HttpContract {

    protected HttpRuleContract(HttpAdapter adapter) {
        super(adapter);
    }

    HttpRuleContract(HttpAdapter adapter, PostgresForTests postgres) {
        super(adapter, postgres);
    }

    @Test
    void matchingRulesAreDecidedTogether() {
        serve(
                address("wide", 100),
                address("narrow", 1).paths(pattern("/items/**")),
                address("other", 100).paths(pattern("/other")));
        HttpResponse<String> allowed = client.get("/items/1");
        assertThat(names(allowed)).containsExactly("wide-1m", "narrow-1m");
        assertThat(field(allowed, "X-RateLimit-Limit")).isEqualTo("1");
        HttpResponse<String> denied = client.get("/items/2");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("[\"narrow-1m\"]");
        assertThat(items(denied, "RateLimit").get(0).getValue()).containsEntry("r", 99L);
        assertThat(items(client.get("/hello"), "RateLimit").get(0).getValue()).containsEntry("r", 98L);
        assertThat(events.all())
                .containsExactly(
                        "wide ALLOWED", "narrow ALLOWED", "wide DENIED_BY_OTHERS", "narrow DENIED", "wide ALLOWED");
    }

    @Test
    void theResponseHasTheFieldsOfBothPhases() {
        serve(address("before", 5), address("after", 3).phase(Phase.AFTER_AUTHENTICATION));
        HttpResponse<String> response = client.get("/hello");
        assertThat(names(response)).containsExactly("before-1m", "after-1m");
        assertThat(field(response, "X-RateLimit-Limit")).isEqualTo("3");
        client.get("/hello");
        client.get("/hello");
        HttpResponse<String> after = client.get("/hello");
        assertThat(after.statusCode()).isEqualTo(429);
        assertThat(after.body()).contains("[\"after-1m\"]");
        assertThat(items(after, "RateLimit").get(0).getValue()).containsEntry("r", 1L);
        client.get("/hello");
        HttpResponse<String> before = client.get("/hello");
        assertThat(before.body()).contains("[\"before-1m\"]");
        assertThat(names(before)).containsExactly("before-1m");
        assertThat(handled).hasValue(3);
    }

    @Test
    void aRuleOnMethodsSkipsOtherMethods() {
        serve(address("address", 1).paths("/hello").methods("POST"));
        assertThat(RateLimitFields.all(client.get("/hello"))).isEmpty();
        assertThat(client.post("/hello", "").statusCode()).isEqualTo(200);
        assertThat(client.post("/hello", "").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello").statusCode()).isEqualTo(200);
    }

    @Test
    void aShadowRuleAllowsAndReports() {
        serve(address("tried", 1).shadow(true), address("real", 10));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(names(response)).containsExactly("real-1m");
        }
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(events.of("tried"))
                        .containsExactlyInAnyOrder("tried ALLOWED", "tried DENIED", "tried DENIED"));
    }

    @Test
    void aRuleMayCountFailuresOnly() {
        Rules rules = serve(address("login", 2).paths(pattern("/status/**")).refundWhen("2xx"), address("all", 100));
        for (int i = 0; i < 5; i++) {
            assertThat(client.get("/status/200").statusCode()).isEqualTo(200);
            awaitRemaining(rules, "login", 2);
        }
        assertThat(client.get("/status/401").statusCode()).isEqualTo(401);
        assertThat(client.get("/status/401").statusCode()).isEqualTo(401);
        assertThat(client.get("/status/200").statusCode()).isEqualTo(429);
        awaitRemaining(rules, "login", 0);
        awaitRemaining(rules, "all", 93);
    }
}
