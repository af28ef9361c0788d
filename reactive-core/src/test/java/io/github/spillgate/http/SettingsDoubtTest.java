package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.LogForTests;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

class SettingsDoubtTest {

    private static final String UNTRUSTED = "no proxy is trusted";
    private static final String UNDECIDED = "could not be decided";

    private final LogForTests log = LogForTests.listen();
    private final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(100)).build();
    private final KeySyntax syntax = KeySyntax.of(ClientAddress.ofPeer());

    @AfterEach
    void close() {
        limiter.close();
        log.close();
    }

    @Test
    void proxiesThatNobodyTrustsAreToldOnceWithWhatSetsItRight() {
        Rules rules = rules(syntax, address());
        decide(rules, SentRequest.get("/"));
        assertThat(log.lines(UNTRUSTED)).isEmpty();
        for (int i = 0; i < 3; i++) {
            decide(rules, SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        }
        assertThat(log.lines(UNTRUSTED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains("a request with X-Forwarded-For came in", "expected the-setting if there is a proxy")
                        .doesNotContain("203.0.113.7"));
    }

    @Test
    void trustedProxiesAreNoDoubt() {
        for (ClientAddress client :
                List.of(ClientAddress.ofXForwardedFor("10.0.0.0/8"), ClientAddress.ofForwarded("10.0.0.0/8"))) {
            decide(
                    rules(KeySyntax.of(client), address()),
                    SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        }
        assertThat(log.lines(UNTRUSTED)).isEmpty();
    }

    @Test
    void bothAreToldOfOneRequestAlsoIfTheRuleIsTriedOutOnly() {
        Rules rules = rules(syntax, broken("broken").shadow(true));
        decide(rules, SentRequest.get("/").header("X-Forwarded-For", "203.0.113.7"));
        assertThat(log.lines(UNTRUSTED)).hasSize(1);
        assertThat(log.lines(UNDECIDED)).hasSize(1);
    }

    @Test
    void whatFailsIsToldOnceAndNothingInItEndsTheLineOrGoesOnForEver() {
        Rules rules = rules(syntax, broken("a\r\nWARN b\u001b[2K\u2028" + "x".repeat(1_000)));
        for (int i = 0; i < 3; i++) {
            decide(rules, SentRequest.get("/"));
        }
        assertThat(log.lines(UNDECIDED))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains("rule broken could", "IllegalStateException: a??WARN b?[2K?xxx")
                        .hasSizeLessThan(400));
        assertThat(log.lines("x".repeat(300))).isEmpty();
    }

    @Test
    void whatSetsItRightIsNamed() {
        assertThatNullPointerException()
                .isThrownBy(() -> RuleListener.doubts(syntax, null))
                .withMessageStartingWith("remedy is null: expected");
        assertThatNullPointerException()
                .isThrownBy(() -> RuleListener.doubts(null, "the-setting"))
                .withMessageStartingWith("keys are null: expected");
    }

    private static Rule.Builder address() {
        return Rule.named("address")
                .key(KeySource.clientAddress(ClientAddress.ofPeer()))
                .limit(Limit.perMinute(100));
    }

    private static Rule.Builder broken(String message) {
        return Rule.named("broken")
                .key(match -> Mono.error(new IllegalStateException(message)))
                .limit(Limit.perMinute(100));
    }

    private Rules rules(KeySyntax keys, Rule.Builder rule) {
        return Rules.of(limiter, SentRequest.syntax(), List.of(rule.build()), RuleListener.doubts(keys, "the-setting"));
    }

    private static void decide(Rules rules, SentRequest request) {
        assertThat(rules.decide(request).block(Duration.ofSeconds(30)).isAllowed())
                .isTrue();
    }
}
