package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.address;
import static io.github.spillgate.testkit.RateLimitFields.field;
import static io.github.spillgate.testkit.RateLimitFields.items;
import static io.github.spillgate.testkit.RateLimitFields.names;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rules;
import io.lettuce.core.RedisURI;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** The rules that apply to a request, and what each of them charges. */
public abstract class HttpRuleContract extends HttpContract {

    protected HttpRuleContract(HttpAdapter adapter) {
        super(adapter);
    }

    protected HttpRuleContract(HttpAdapter adapter, RedisURI redis) {
        super(adapter, redis);
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
    void aRuleOnThePrincipalSkipsUnauthenticatedRequests() {
        serve(Rule.named("user").key(KeySource.principal()).limit(Limit.perMinute(1)), address("address", 100));
        assertThat(names(client.get("/hello"))).containsExactly("address-1m");
        assertThat(names(client.get("/hello", "X-User", "ann"))).containsExactly("address-1m", "user-1m");
    }

    @Test
    void aHeadRequestMatchesLikeAGetRequest() {
        serve(address("address", 1).methods("get"));
        HttpResponse<String> head = client.send(client.request("/hello").method("HEAD", BodyPublishers.noBody()));
        assertThat(head.statusCode()).isEqualTo(200);
        assertThat(field(head, "X-RateLimit-Remaining")).isEqualTo("0");
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
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
    void anExceptedRequestIsNotLimited() {
        serve(address("address", 1)
                .unless(match -> match.request().headers("X-Internal").contains("yes")));
        for (int i = 0; i < 3; i++) {
            assertThat(RateLimitFields.all(client.get("/hello", "X-Internal", "yes")))
                    .isEmpty();
        }
        assertThat(client.get("/hello", "X-Internal", "no").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello", "X-Internal", "yes").statusCode()).isEqualTo(200);
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
    void aShadowRuleAddsNoFields() {
        serve(address("tried", 1).shadow(true));
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> response = client.get("/hello");
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(RateLimitFields.all(response)).isEmpty();
        }
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(events.of("tried")).hasSize(3));
    }

    // Costs, limits and refunds.

    @Test
    void aCostMayBeLookedUp() {
        serve(address("units", 10)
                .cost(match -> Mono.justOrEmpty(
                        match.request().headers("X-Units").stream().findFirst().map(Long::valueOf))));
        assertThat(field(client.get("/hello", "X-Units", "4"), "X-RateLimit-Remaining"))
                .isEqualTo("6");
        assertThat(field(client.get("/hello"), "X-RateLimit-Remaining")).isEqualTo("5");
        assertThat(client.get("/hello", "X-Units", "6").statusCode()).isEqualTo(429);
        assertThat(client.get("/hello", "X-Units", "5").statusCode()).isEqualTo(200);
        // A cost that never fits is denied without a retry time.
        HttpResponse<String> never = client.get("/hello", "X-Units", "11");
        assertThat(never.statusCode()).isEqualTo(429);
        assertThat(never.headers().firstValue("Retry-After")).isEmpty();
    }

    @Test
    void everyPlanHasItsOwnLimits() {
        serve(Rule.named("plan")
                .key(KeySource.principal())
                .limit(Limit.perMinute(1))
                .limits((match, user) -> switch (user) {
                    case "gold" -> Mono.delay(Duration.ofMillis(1)).thenReturn(List.of(Limit.perMinute(3)));
                    case "silver" -> Mono.just(List.of(Limit.perMinute(2)));
                    default -> Mono.empty();
                })
                .timeout(PATIENCE));
        Map.of("gold", 3, "silver", 2, "unknown", 1).forEach((user, permits) -> {
            for (int left = permits - 1; left >= 0; left--) {
                HttpResponse<String> response = client.get("/hello", "X-User", user);
                assertThat(response.statusCode()).as(user).isEqualTo(200);
                assertThat(field(response, "X-RateLimit-Limit")).isEqualTo(permits.toString());
                assertThat(field(response, "X-RateLimit-Remaining")).isEqualTo(Integer.toString(left));
            }
            assertThat(client.get("/hello", "X-User", user).statusCode())
                    .as(user)
                    .isEqualTo(429);
        });
    }

    /** As in the first seconds of a cold service: some plans are found in time, and others are not. */
    @Test
    void aFailedPlanLookupNeverDisablesTheLimit() {
        mayFallBack = true;
        Duration lookup = Duration.ofMillis(3);
        AtomicInteger asked = new AtomicInteger();
        serve(
                Rule.named("plan")
                        .key(KeySource.header("X-Api-Key"))
                        .limit(Limit.perHour(5))
                        .limits((match, key) -> {
                            Mono<List<Limit>> plan = Mono.delay(lookup).thenReturn(List.of(Limit.perHour(8)));
                            return switch (asked.getAndIncrement() % 4) {
                                case 0 -> Mono.never();
                                case 1 -> plan.then(Mono.error(new IllegalStateException("no plan")));
                                default -> plan;
                            };
                        })
                        .timeout(lookup),
                address("address", 1_000));
        List<CompletableFuture<HttpResponse<String>>> answers = IntStream.range(0, 60)
                .mapToObj(i -> client.sendLater(
                        client.request("/hello").header("X-Api-Key", "ann").GET()))
                .toList();
        // Of one name and window the two share a count, so the higher of them is the most.
        assertThat(answers.stream().filter(answer -> answer.join().statusCode() == 200))
                .hasSizeBetween(5, 8);
        assertThat(answers)
                .allSatisfy(answer -> assertThat(answer.join().statusCode()).isIn(200, 429));
        assertThat(handled.get()).isBetween(5, 8);
        assertThat(events.of("plan")).doesNotContain("plan undecided");
        assertThat(events.of("address")).hasSize(60).doesNotContain("address undecided");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aClientThatMakesACostFailIsLimitedAllTheSame(boolean isAtOnce) {
        serve(address("units", 10)
                .cost(5)
                .cost(match -> isAtOnce
                        ? Mono.just(Long.parseLong(
                                match.request().headers("X-Units").get(0)))
                        : Mono.delay(Duration.ofMillis(1))
                                .map(late -> Long.parseLong(
                                        match.request().headers("X-Units").get(0))))
                .timeout(PATIENCE));
        assertThat(client.get("/hello", "X-Units", "none").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello", "X-Units", "-1").statusCode()).isEqualTo(200);
        assertThat(client.get("/hello").statusCode()).isEqualTo(429);
        assertThat(handled).hasValue(2);
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

    private void awaitRemaining(Rules rules, String rule, long remaining) {
        await().atMost(PATIENCE)
                .untilAsserted(
                        () -> assertThat(rules.peek(rule, "127.0.0.1").block().remaining())
                                .isEqualTo(remaining));
    }
}
