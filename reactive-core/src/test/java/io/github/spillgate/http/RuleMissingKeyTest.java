package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.testkit.LogForTests;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** The default handling of requests without a key, and its warning in the log. */
class RuleMissingKeyTest extends RulesFixture {

    private static final KeySource DEVICE = KeySource.header("X-Device");
    private static final KeySource PRINCIPAL = KeySource.principal();
    private static final String WARNING = "requests without a key share one count on every path";

    @AutoClose
    private final LogForTests log = LogForTests.listen();

    static Stream<KeySource> keysOfUsers() {
        return Stream.of(
                PRINCIPAL,
                PRINCIPAL.hashed(new byte[16]),
                KeySource.joined(PRINCIPAL, ADDRESS),
                KeySource.joined(DEVICE, PRINCIPAL));
    }

    @ParameterizedTest
    @MethodSource("keysOfUsers")
    void aRuleForUsersDoesNotApplyToRequestsThatAreNotAuthenticated(KeySource key) {
        Rules rules = rules(rule(key).timeout(LONG));
        for (int i = 0; i < 3; i++) {
            assertThat(decide(rules, SentRequest.get("/login")).decision()).isEmpty();
            assertThat(decide(
                                    rules,
                                    SentRequest.get("/login")
                                            .by(Mono.<String>empty().delaySubscription(Duration.ofMillis(1))))
                            .decision())
                    .isEmpty();
        }
        assertThat(log.lines(WARNING)).isEmpty();
    }

    /**
     * A rule that names an alternative to the user is about other requests, too: a client must not leave the rule by
     * omitting a header.
     */
    @Test
    void aRuleWithAnAlternativeToTheUserAppliesToRequestsThatAreNotAuthenticated() {
        for (KeySource key : List.of(
                KeySource.firstOf(PRINCIPAL, DEVICE),
                KeySource.firstOf(PRINCIPAL, DEVICE).hashed(new byte[16]))) {
            Rules rules = rules(rule(key).paths("/login"));
            assertAllowed(rules, SentRequest.get("/login"));
            assertDenied(rules, SentRequest.get("/login"));
            limiter.reset(Charge.of("no-key", rules.list().get(0).limits()).group("no-key"))
                    .block();
        }
    }

    @Test
    void aUserCannotLeaveARuleByOmittingAHeader() {
        Rules rules = rules(rule(KeySource.joined(PRINCIPAL, DEVICE)).timeout(LONG));
        assertAllowed(rules, SentRequest.get("/").by("ann"));
        assertDenied(rules, SentRequest.get("/").by("ann"));
        assertDenied(
                rules, SentRequest.get("/").by(Mono.delay(Duration.ofMillis(1)).thenReturn("bob")));
        assertAllowed(rules, SentRequest.get("/").by("ann").header("X-Device", "one"));
    }

    @Test
    void aUserWithoutANameCannotEvadeARule() {
        Rules rules = rules(rule(PRINCIPAL));
        assertAllowed(rules, SentRequest.get("/").by(""));
        assertDenied(rules, SentRequest.get("/").by(""));
    }

    @Test
    void aFailedAuthenticationLookupLeavesTheRuleUndecided() {
        Rules rules = rules(rule(KeySource.joined(DEVICE, PRINCIPAL)).whenUndecided(Rule.WhenUndecided.DENY));
        for (Mono<String> principal : List.<Mono<String>>of(
                Mono.error(new IllegalStateException("broken")),
                Mono.<String>error(new IllegalStateException("broken")).delaySubscription(Duration.ofMillis(1)),
                Mono.never())) {
            assertDenied(503, decide(rules, SentRequest.get("/").by(principal)));
        }
    }

    @Test
    void unauthenticatedRequestsCanShareOneCountOrBeDenied() {
        Rules sharing = rules(rule(PRINCIPAL).whenMissing(WhenMissing.SHARE));
        assertAllowed(sharing, SentRequest.get("/"));
        assertDenied(sharing, SentRequest.get("/"));
        Rules denying = rules(rule(PRINCIPAL).whenMissing(WhenMissing.DENY));
        assertDenied(denying, SentRequest.get("/"));
    }

    // The warning.

    @ParameterizedTest
    @ValueSource(strings = {"", "/**"})
    void aCountThatAllPathsShareIsWarnedOfOnce(String path) {
        Rule.Builder rule = rule(DEVICE);
        if (!path.isEmpty()) {
            rule.paths("/login", path);
        }
        Rules rules = rules(rule);
        assertThat(log.lines(WARNING))
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .endsWith("rule a: requests without a key share one count on every path, login included: "
                                + "expected paths"
                                + " or exclude-paths that leave some out, or when-missing: skip"));
        decide(rules, SentRequest.get("/"));
        rules.replace(List.of(rule.limit(Limit.perHour(9)).build()));
        assertThat(log.lines(WARNING)).hasSize(1);
        rules.replace(List.of(
                rule.build(),
                Rule.named("b").key(DEVICE).limit(Limit.perMinute(1)).build()));
        assertThat(log.lines(WARNING)).hasSize(2).last().asString().contains("rule b:");
    }

    static Stream<Rule.Builder> doubtful() {
        return Stream.of(
                rule(DEVICE).whenMissing(WhenMissing.SHARE),
                rule(PRINCIPAL).whenMissing(WhenMissing.SHARE),
                rule(match -> Mono.empty()),
                rule(KeySource.query("k").hashed(new byte[16])),
                rule(KeySource.joined(ADDRESS, KeySource.cookie("session"))),
                rule(KeySource.firstOf(KeySource.attribute("tenant"), DEVICE)));
    }

    @ParameterizedTest
    @MethodSource("doubtful")
    void aSharedCountIsLoggedForEveryKindOfKey(Rule.Builder rule) {
        rules(rule);
        assertThat(log.lines(WARNING)).hasSize(1);
    }

    static Stream<Rule.Builder> harmless() {
        return Stream.of(
                rule(ADDRESS),
                rule(ADDRESS.hashed(new byte[16])),
                rule(KeySource.constant("all")),
                rule(KeySource.firstOf(DEVICE, ADDRESS)),
                rule(KeySource.joined(ADDRESS, KeySource.constant("all"))),
                rule(PRINCIPAL),
                rule(DEVICE).whenMissing(WhenMissing.SKIP),
                rule(DEVICE).whenMissing(WhenMissing.DENY),
                rule(DEVICE).paths("/account"));
    }

    @ParameterizedTest
    @MethodSource("harmless")
    void aRuleWithoutASharedKeyLogsNoWarning(Rule.Builder rule) {
        rules(rule);
        assertThat(log.lines(WARNING)).isEmpty();
    }

    private static Rule.Builder rule(KeySource key) {
        return Rule.named("a").key(key).limit(Limit.perMinute(1));
    }
}
