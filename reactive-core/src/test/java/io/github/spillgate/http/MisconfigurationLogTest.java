package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.VirtualTime;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

class MisconfigurationLogTest extends RulesFixture {

    private static final String UNTRUSTED = "no proxy is trusted";
    private static final String UNDECIDED = "could not be decided";

    @AutoClose
    private final LogForTests log = LogForTests.listen();

    private final ClientAddress peer = ClientAddress.ofPeer();

    @Test
    void anUntrustedProxyIsLoggedOnceWithItsRemedy() {
        Rules rules = rules(address("address", 100));
        assertAllowed(rules, SentRequest.get("/"));
        assertThat(log.lines(UNTRUSTED)).isEmpty();
        for (int i = 0; i < 3; i++) {
            assertAllowed(rules, SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        }
        assertThat(log.lines(UNTRUSTED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains(
                                "Request with X-Forwarded-For, but no proxy is trusted",
                                "expected the-setting if there is a proxy")
                        .doesNotContain("203.0.113.7"));
    }

    @Test
    void trustedProxiesAreNotLogged() {
        for (ClientAddress client :
                List.of(ClientAddress.ofXForwardedFor("10.0.0.0/8"), ClientAddress.ofForwarded("10.0.0.0/8"))) {
            assertAllowed(
                    rules(limiter, warnings(client), address("address", 100)),
                    SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        }
        assertThat(log.lines(UNTRUSTED)).isEmpty();
    }

    @Test
    void aShadowRuleLogsBothForOneRequest() {
        Rules rules = rules(broken("broken").shadow(true));
        assertAllowed(rules, SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        assertThat(log.lines(UNTRUSTED)).hasSize(1);
        assertThat(log.lines(UNDECIDED)).hasSize(1);
    }

    @Test
    void aFailureIsLoggedOnceEscapedAndCut() {
        Rules rules = rules(broken("broken", "a\r\nWARN b\u001b[2K\u2028" + "x".repeat(1_000)));
        for (int i = 0; i < 3; i++) {
            assertAllowed(rules, SentRequest.get("/"));
        }
        assertThat(log.lines(UNDECIDED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains(
                                "rule broken could", "IllegalStateException: a\\u000d\\u000aWARN b\\u001b[2K\\u2028xxx")
                        .hasSizeLessThan(400));
        assertThat(log.lines("x".repeat(300))).isEmpty();
    }

    @Test
    void eachRuleAndCauseIsLoggedAtMostOnceAMinute() {
        List<Exception> causes = List.of(new IllegalStateException("x"), new IOException("y"), new IOException("z"));
        try (VirtualTime time = new VirtualTime()) {
            AtomicReference<Exception> cause = new AtomicReference<>();
            Rule.Builder a =
                    Rule.named("a").key(match -> Mono.error(cause.get())).limit(Limit.perMinute(100));
            Rules rules = rules(a, broken("b"));
            for (int minute = 0; minute < 2; minute++) {
                for (Exception e : causes) {
                    cause.set(e);
                    decide(rules);
                }
                time.pass(Duration.ofMinutes(1));
            }
        }
        assertThat(lines(UNDECIDED)).hasSize(6);
        assertThat(lines(UNDECIDED).subList(3, 6))
                .containsExactlyInAnyOrder(
                        undecided("a", "lang.IllegalStateException: x"),
                        undecided("a", "lang.IllegalStateException: java.io.IOException: y"),
                        undecided("b", "lang.IllegalStateException: b"));
    }

    private static String undecided(String rule, String cause) {
        return "rule " + rule + " could not be decided: \"java." + cause + "\"; it lets such requests through"
                + " (when-undecided: allow)";
    }

    @Test
    void aFailedLookupIsLoggedAgainAfterAMinute() {
        try (VirtualTime time = new VirtualTime()) {
            Rules rules = rules(address("address", 100).limits((match, key) -> Mono.error(new IOException("x"))));
            decide(rules);
            time.pass(Duration.ofMinutes(1));
            decide(rules);
            decide(rules);
        }
        assertThat(lines("limits-from failed")).hasSize(2);
    }

    @Test
    void theConsequenceForUndecidedRequestsIsLoggedWithItsSetting() {
        Rules rules = rules(
                broken("a"),
                broken("b").whenUndecided(WhenUndecided.DENY),
                broken("c").shadow(true));
        decide(rules);
        decide(rules);
        assertThat(lines(UNDECIDED))
                .containsExactlyInAnyOrder(
                        "rule a could not be decided: \"java.lang.IllegalStateException: a\";"
                                + " it lets such requests through (when-undecided: allow)",
                        "rule b could not be decided: \"java.lang.IllegalStateException: b\";"
                                + " such requests are denied with 503 (when-undecided: deny)");
        assertAllowed(rules(broken("c").shadow(true)), SentRequest.get("/"));
        assertThat(lines("rule c could not be decided"))
                .containsExactly("rule c could not be decided: \"java.lang.IllegalStateException: c\";"
                        + " it is a shadow rule, so no request is affected");
    }

    @Test
    void aVerdictOverTooManyCountsIsLoggedAsDenied() {
        Rule.Builder[] many = IntStream.range(0, 40)
                .mapToObj(i -> Rule.named("r" + i).key(KeySource.constant("k")).limit(Limit.perMinute(1)))
                .toArray(Rule.Builder[]::new);
        assertDenied(503, decide(rules(many)));
        assertThat(lines(UNDECIDED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .startsWith("rule r0 could not be decided: ")
                        .contains("a verdict over more than 16 counts is too large: expected at most 16")
                        .endsWith("; such requests are denied with 503"));
    }

    @Test
    void aFailedLookupIsLoggedOnceWithWhatAppliesInstead() {
        Rule.Builder plan = address("address", 100)
                .limits((match, key) -> Mono.never())
                .cost(match -> Mono.error(new IllegalStateException("no\r\ncost")))
                .timeout(Duration.ofMillis(7));
        Rules rules = rules(plan);
        for (int i = 0; i < 3; i++) {
            assertAllowed(rules, SentRequest.get("/"));
        }
        assertThat(lines("rule address"))
                .containsExactlyInAnyOrder(
                        "rule address: limits-from did not answer within 7 ms (timeout);"
                                + " its own limits apply; see when-lookup-fails",
                        "rule address: cost-from failed: \"java.lang.IllegalStateException: no\\u000d\\u000acost\";"
                                + " its own cost applies; see when-lookup-fails");
    }

    @Test
    void aLookupThatLeavesARuleUndecidedIsLoggedOnceWithBothSettings() {
        Rule.Builder plan = address("address", 100)
                .limits((match, key) -> Mono.error(new IllegalStateException("no plan")))
                .whenLookupFails(WhenLookupFails.UNDECIDED);
        Rules rules = rules(plan);
        assertAllowed(rules, SentRequest.get("/"));
        assertAllowed(rules, SentRequest.get("/"));
        rules.replace(List.of(plan.whenUndecided(WhenUndecided.DENY).build()));
        decide(rules);
        String failed = "rule address: limits-from failed: \"java.lang.IllegalStateException: no plan\"; ";
        assertThat(lines("rule address"))
                .containsExactly(
                        failed + "it lets such requests through (when-lookup-fails: undecided, when-undecided: allow)",
                        failed
                                + "such requests are denied with 503 (when-lookup-fails: undecided, when-undecided: "
                                + "deny)");
    }

    @Test
    void nullIsRejected() {
        assertThatNullPointerException()
                .isThrownBy(() -> RuleInstrumentation.none().warnings(peer, null))
                .withMessageStartingWith("remedy is null: expected");
        assertThatNullPointerException()
                .isThrownBy(() -> RuleInstrumentation.none().warnings(null, "the-setting"))
                .withMessageStartingWith("client is null: expected");
    }

    private static Rule.Builder broken(String name) {
        return broken(name, name);
    }

    private static Rule.Builder broken(String name, String message) {
        return Rule.named(name)
                .key(match -> Mono.error(new IllegalStateException(message)))
                .limit(Limit.perMinute(100));
    }

    /** Returns the lines that contain the text, without the prefix of the logger. */
    private List<String> lines(String part) {
        return log.lines(part).stream()
                .map(line -> line.substring(line.indexOf("rule ")))
                .toList();
    }

    @Override
    Rules rules(Rule.Builder... rules) {
        return rules(limiter, warnings(peer), rules);
    }

    private static RuleInstrumentation warnings(ClientAddress client) {
        return RuleInstrumentation.none().warnings(client, "the-setting");
    }
}
