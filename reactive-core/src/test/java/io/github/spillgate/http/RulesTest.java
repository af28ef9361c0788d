package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.test.publisher.TestPublisher;

class RulesTest extends RulesFixture {

    // Which rules apply.

    @Test
    void aRequestThatNoRuleMatchesIsNotCharged() {
        Rules rules = rules(address("a", 1).paths("/a").methods("post"));
        assertThat(decide(rules, SentRequest.of("POST", "/b")).decision()).isEmpty();
        assertThat(decide(rules, SentRequest.get("/a")).decision()).isEmpty();
        assertThat(decide(rules, SentRequest.of("POST", "/a")).decision()).isPresent();
    }

    @Test
    void headIsLimitedAsGetIs() {
        Rules rules = rules(address("a", 1).methods("GET"));
        assertAllowed(rules, SentRequest.of("HEAD", "/"));
        assertDenied(rules, SentRequest.get("/"));
        assertAllowed(rules, SentRequest.of("POST", "/"));
    }

    @Test
    void allRulesThatMatchAreOneVerdict() {
        Rules rules = rules(address("all", 10), address("a", 1).paths("/a"));
        assertAllowed(rules, SentRequest.get("/a"));
        Verdict denied = decide(rules, SentRequest.get("/a"));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(decision(denied).violated()).extracting(Limit::name).containsExactly("a-1m");
        assertThat(used("192.0.2.1", Limit.perMinute(10).named("all-1m"))).isEqualTo(1);
        assertAllowed(rules, SentRequest.get("/b"));
    }

    @Test
    void anExcludedPathIsNotLimited() {
        Rules everything = rules(address("a", 1).excludePaths("/health", "/static*"));
        Rules some = rules(address("b", 1).paths("/a*", "/b").excludePaths("/ab*", "/b"));
        for (int i = 0; i < 3; i++) {
            for (String path : List.of("/health", "/static/x")) {
                assertThat(decide(everything, SentRequest.get(path)).decision()).isEmpty();
            }
            for (String path : List.of("/abc", "/b", "/health")) {
                assertThat(decide(some, SentRequest.get(path)).decision()).isEmpty();
            }
        }
        for (Rules rules : List.of(everything, some)) {
            assertAllowed(rules, SentRequest.get("/a"));
            assertDenied(rules, SentRequest.get("/a"));
        }
    }

    @Test
    void rulesThatAreOffLetEveryRequestPass() {
        Rules off = Rules.off(limiter, SentRequest.syntax());
        off.replace(List.of(Rule.named("a")
                .key(API_KEY)
                .whenMissing(WhenMissing.DENY)
                .limit(Limit.perMinute(1))
                .build()));
        for (int i = 0; i < 3; i++) {
            assertAllowed(off, SentRequest.get("/"));
            assertThat(decide(off, SentRequest.get("/").header("X-Api-Key", "k"))
                            .decision())
                    .isEmpty();
        }
        assertThat(off.list()).hasSize(1);
    }

    @Test
    void adapterCanTellThatNoRuleMatches() {
        Rules rules = rules(address("a", 1).paths("/a"));
        assertThat(isUnmatched(rules, "/b")).isTrue();
        assertThat(isUnmatched(rules, "/a")).isFalse();
        assertThat(isUnmatched(Rules.off(limiter, SentRequest.syntax()), "/a")).isTrue();
    }

    /** The rules of such a request are unknown, so it must not bypass them. */
    @Test
    void requestThatCannotBeMatchedIsNotUnmatched() {
        PathSyntax failing = pattern -> new PathSyntax.PathMatcher() {

            @Override
            public Map<String, String> match(Request request) {
                throw new IllegalStateException("no such path");
            }

            @Override
            public Map<String, String> match(String path) {
                throw new IllegalStateException("no such path");
            }
        };
        Rules rules =
                Rules.of(limiter, failing, List.of(address("a", 1).paths("/a").build()));
        assertThat(isUnmatched(rules, "/a")).isFalse();
        assertDenied(rules, SentRequest.get("/a"));
    }

    private static boolean isUnmatched(Rules rules, String path) {
        return Rules.isUnmatched(rules.decide(SentRequest.get(path)));
    }

    @Test
    void rulesOfOnePhaseApplyInThatPhase() {
        Rules rules = rules(
                address("before", 5),
                Rule.named("after").key(KeySource.principal()).limit(Limit.perMinute(5)));
        SentRequest request = SentRequest.get("/").by("ann");
        assertThat(names(rules.decide(request, Phase.BEFORE_AUTHENTICATION).block(LONG)))
                .containsExactly("before-1m");
        assertThat(names(rules.decide(request, Phase.AFTER_AUTHENTICATION).block(LONG)))
                .containsExactly("after-1m");
        assertThat(names(rules.decide(request).block(LONG))).containsExactly("before-1m", "after-1m");
    }

    @Test
    void equalLimitsOfTwoRulesHaveCountsOfTheirOwn() {
        Rules rules = rules(address("a", 1).paths("/a"), address("b", 1).paths("/b"));
        assertAllowed(rules, SentRequest.get("/a"));
        assertAllowed(rules, SentRequest.get("/b"));
        assertDenied(rules, SentRequest.get("/b"));
    }

    @Test
    void anExemptRequestIsNotCharged() {
        Rules rules = rules(address("a", 1)
                .unless(match -> match.request().headers("X-Probe").contains("yes")));
        SentRequest probe = SentRequest.get("/").header("X-Probe", "yes");
        assertThat(decide(rules, probe).decision()).isEmpty();
        assertThat(decide(rules, probe).decision()).isEmpty();
        assertAllowed(rules, SentRequest.get("/"));
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void pathVariablesComeFromTheMatchingPattern() {
        Rules rules = rules(Rule.named("a")
                .paths("/b", "/a*")
                .key(KeySource.pathVariable("pattern"))
                .limit(Limit.perMinute(5)));
        assertThat(keys(decide(rules, SentRequest.get("/abc")))).containsExactly("/a*");
        Rules without = rules(Rule.named("a").key(KeySource.pathVariable("id")).limit(Limit.perMinute(5)));
        assertThat(keys(decide(without, SentRequest.get("/abc").variable("id", "7"))))
                .containsExactly("7");
    }

    // Requests without a key.

    @Test
    void requestsWithoutAKeyShareOneThatNoClientCanSend() {
        Rules rules = rules(Rule.named("a").key(API_KEY).limit(Limit.perMinute(1)));
        assertAllowed(rules, SentRequest.get("/"));
        assertDenied(rules, SentRequest.get("/").header("X-Api-Key", ""));
        assertAllowed(rules, SentRequest.get("/").header("X-Api-Key", "no-key"));
    }

    @Test
    void aRequestWithoutAKeyCanBeSkipped() {
        Rules rules =
                rules(Rule.named("a").key(API_KEY).limit(Limit.perMinute(1)).whenMissing(WhenMissing.SKIP));
        Verdict skipped = decide(rules, SentRequest.get("/"));
        assertThat(skipped.isAllowed()).isTrue();
        assertThat(skipped.decision()).isEmpty();
        assertThat(decide(rules, SentRequest.get("/").header("X-Api-Key", "k")).decision())
                .isPresent();
    }

    @Test
    void aRequestWithoutAKeyCanBeDeniedWithoutACharge() {
        Rules rules = rules(
                address("b", 5),
                Rule.named("a").key(API_KEY).limit(Limit.perMinute(1)).whenMissing(WhenMissing.DENY));
        Verdict verdict = decide(rules, SentRequest.get("/"));
        assertThat(verdict.isAllowed()).isFalse();
        assertThat(verdict.decision()).isEmpty();
        assertThat(verdict.problem().orElseThrow().status()).isEqualTo(429);
        assertThat(verdict.problem().orElseThrow())
                .asString()
                .contains("\"violated-policies\":[\"a-1m\"]")
                .doesNotContain("retry-after");
        assertThat(used("192.0.2.1", Limit.perMinute(5).named("b-1m"))).isZero();
    }

    // Costs and limits.

    @Test
    void aRequestIsChargedItsCost() {
        Rules rules = rules(
                address("fixed", 10).cost(4),
                address("found", 10)
                        .cost(match -> Mono.just(
                                (long) match.request().headers("X-Items").size())),
                address("later", 10)
                        .cost(match -> Mono.delay(Duration.ofMillis(1)).thenReturn(3L))
                        .timeout(LONG),
                address("none", 10).cost(5).cost(match -> Mono.empty()));
        SentRequest request = SentRequest.get("/").header("X-Items", "1").header("X-Items", "2");
        assertThat(decision(decide(rules, request)).limits())
                .extracting(Decision.Usage::used)
                .containsExactly(4L, 2L, 3L, 5L);
    }

    @Test
    void theLimitsOfThePlanReplaceThoseOfTheRule() {
        Rules rules = rules(Rule.named("plan")
                .key(API_KEY)
                .limits((match, key) -> switch (key) {
                    case "pro" -> Mono.just(List.of(Limit.perDay(10_000)));
                    case "slow" -> Mono.delay(Duration.ofMillis(1)).thenReturn(List.of(Limit.perDay(500)));
                    case "empty" -> Mono.just(List.of());
                    default -> Mono.empty();
                })
                .limit(Limit.perDay(100))
                .timeout(LONG));
        assertThat(permits(rules, "pro")).isEqualTo(10_000);
        assertThat(permits(rules, "slow")).isEqualTo(500);
        assertThat(permits(rules, "empty")).isEqualTo(100);
        assertThat(permits(rules, "free")).isEqualTo(100);
        assertThat(names(decide(rules, SentRequest.get("/").header("X-Api-Key", "pro"))))
                .containsExactly("plan-24h");
    }

    // Failed lookups.

    @Test
    void aFailedFunctionAllowsTheRequestUnlessTheRuleDenies() {
        for (KeySource broken : List.<KeySource>of(
                match -> Mono.error(new IllegalStateException("broken")),
                match -> {
                    throw new IllegalStateException("broken");
                },
                match -> null,
                match -> Mono.delay(Duration.ofMillis(1))
                        .flatMap(tick -> Mono.error(new IllegalStateException("broken"))))) {
            assertAllowed(rules(Rule.named("a").key(broken).limit(Limit.perMinute(1))), SentRequest.get("/"));
            Verdict denied = decide(
                    rules(Rule.named("a").key(broken).limit(Limit.perMinute(1)).whenUndecided(WhenUndecided.DENY)),
                    SentRequest.get("/"));
            assertThat(denied.problem().orElseThrow().status()).isEqualTo(503);
        }
        assertThat(events).hasSize(8).allSatisfy(event -> assertThat(event).startsWith("undecided a"));
    }

    @Test
    void aHangingLookupTimesOut() {
        TestPublisher<String> key = TestPublisher.create();
        Rules rules = rules(Rule.named("a")
                .key(match -> key.mono())
                .limit(Limit.perMinute(1))
                .timeout(Duration.ofMillis(20))
                .whenUndecided(WhenUndecided.DENY));
        Verdict verdict = decide(rules, SentRequest.get("/"));
        assertThat(verdict.problem().orElseThrow().status()).isEqualTo(503);
        key.assertCancelled();
        assertThat(events).containsExactly("undecided a: the key of rule a was not found within 20 ms (timeout)");
    }

    @Test
    void ifNoStoreDecidesTheRuleDoes() {
        RateLimiter closed =
                RateLimiter.builder("closed").store(LocalStore.bounded(100)).build();
        closed.close();
        Rules allows = rules(closed, address("a", 1));
        Rules denies = rules(closed, address("a", 1).whenUndecided(WhenUndecided.DENY));
        assertAllowed(allows, SentRequest.get("/"));
        assertDenied(503, decide(denies, SentRequest.get("/")));
        assertThat(events).hasSize(2);
    }

    // Refunds.

    @Test
    void permitsAreRefundedForTheStatus() {
        Rules rules = rules(address("failures", 1).refundWhen("2xx", "304"));
        Verdict verdict = decide(rules, SentRequest.get("/"));
        assertThat(verdict.dependsOnStatus()).isTrue();
        assertDenied(rules, SentRequest.get("/"));
        verdict.refund(204).block(LONG);
        Verdict second = decide(rules, SentRequest.get("/"));
        assertThat(second.isAllowed()).isTrue();
        // A verdict refunds once.
        verdict.refund(204).block(LONG);
        assertDenied(rules, SentRequest.get("/"));
        second.refund(401).block(LONG);
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void everyStatusCanRefund() {
        Rule ends = address("ends", 1).refundWhen("100", "599").build();
        Rule classes = address("classes", 1).refundWhen("1xx", "5XX").build();
        for (int status : new int[] {100, 599}) {
            assertThat(ends.refundsWhen(status)).isTrue();
            assertThat(classes.refundsWhen(status)).isTrue();
        }
        for (int status : new int[] {-1, 0, 99, 200, 499, 600}) {
            assertThat(ends.refundsWhen(status)).isFalse();
            assertThat(classes.refundsWhen(status)).isFalse();
        }
        for (String none : List.of("99", "099", "600", "0xx", "6xx", "x00", "4x0", "+99", "")) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> address("a", 1).refundWhen(none))
                    .withMessageStartingWith("status \"" + none + "\" is not a status");
        }
    }

    @Test
    void onlyThePermitsOfTheRuleAreRefunded() {
        Rules rules = rules(
                address("all", 10), address("failures", 10).refundWhen("200").cost(3));
        decide(rules, SentRequest.get("/")).refund(200).block(LONG);
        assertThat(used("192.0.2.1", Limit.perMinute(10).named("all-1m"))).isEqualTo(1);
        assertThat(used("192.0.2.1", Limit.perMinute(10).named("failures-1m"))).isZero();
    }

    @Test
    void aDenialRefundsNothing() {
        Rules rules = rules(address("a", 1).refundWhen("429"));
        decide(rules, SentRequest.get("/"));
        Verdict denied = decide(rules, SentRequest.get("/"));
        denied.refund(429).block(LONG);
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void ifAFallbackDeniesEveryRuleHasDenied() {
        try (RateLimiter denying =
                RateLimiter.builder("denying").store(Fallback.deny()).build()) {
            Rules rules = rules(denying, address("all", 10), address("all-1", 1));
            assertDenied(503, decide(rules, SentRequest.get("/")));
        }
        assertThat(events).containsExactly("denied all", "denied all-1");
    }

    // Peeks.

    @Test
    void aPeekShowsEveryRuleOfTheClientAndChargesNothing() {
        Rules rules = rules(
                address("address", 5).paths("/a"),
                Rule.named("plan")
                        .methods("POST")
                        .key(API_KEY)
                        .limit(Limit.perMinute(5))
                        .limits((match, key) -> Mono.just(List.of(Limit.perMinute(50)))),
                Rule.named("dear")
                        .key(API_KEY)
                        .limit(Limit.perMinute(7))
                        .cost(match -> Mono.error(new BrokenLookupException())),
                address("tried-out", 5).shadow(true),
                address("excepted", 5).unless(match -> true),
                Rule.named("keyless").key(KeySource.pathVariable("id")).limit(Limit.perMinute(5)));
        SentRequest request = SentRequest.get("/usage").header("X-Api-Key", "ann");
        decide(rules, SentRequest.get("/a").header("X-Api-Key", "bob"));
        for (int i = 0; i < 2; i++) {
            Decision look = Objects.requireNonNull(rules.peek(request).block(LONG));
            assertThat(look.limits())
                    .extracting(usage -> usage.limit().name() + " " + usage.used() + "/"
                            + usage.limit().permits())
                    .containsExactly("address-1m 1/5", "plan-1m 0/50", "dear-1m 0/7");
        }
        assertThat(rules().peek(request).block(LONG)).isNull();
    }

    @Test
    void aPeekDecidesOnOnePermit() {
        Rules rules = rules(address("address", 2));
        SentRequest request = SentRequest.get("/");
        decide(rules, request);
        assertThat(rules.peek(request).block(LONG).isAllowed())
                .as("with one left")
                .isTrue();
        decide(rules, request);
        Decision denied = rules.peek(request).block(LONG);
        assertThat(denied.isAllowed()).as("with none left").isFalse();
        assertThat(denied.retryAfter()).isPresent();
    }

    @Test
    void aPeekThatWouldMissALimitFails() {
        Rules rules = rules(
                address("address", 5),
                Rule.named("plan")
                        .key(match -> match.request().headers("X-Api-Key").isEmpty()
                                ? Mono.empty()
                                : Mono.<String>error(new BrokenLookupException())
                                        .delaySubscription(Duration.ofMillis(1)))
                        .timeout(LONG)
                        .limit(Limit.perMinute(5)));
        assertThatExceptionOfType(BrokenLookupException.class)
                .isThrownBy(() -> rules.peek(SentRequest.get("/usage").header("X-Api-Key", "ann"))
                        .block(LONG));
        assertThat(Objects.requireNonNull(rules.peek(SentRequest.get("/usage")).block(LONG))
                        .limits())
                .hasSize(1);
    }

    // Shadow rules.

    @Test
    void aShadowRuleDecidesAndReportsAndDeniesNoRequest() {
        Rules rules = rules(address("real", 2), address("shadow", 1).shadow(true));
        for (int i = 0; i < 3; i++) {
            Verdict verdict = decide(rules, SentRequest.get("/"));
            assertThat(verdict.isAllowed()).isEqualTo(i < 2);
            assertThat(names(verdict)).containsExactly("real-1m");
        }
        // The shadow rule is not applied to a request that the real rule has denied.
        await().untilAsserted(() -> assertThat(events)
                .containsExactlyInAnyOrder(
                        "allowed real", "allowed shadow", "allowed real", "denied shadow", "denied real"));
    }

    @Test
    void aShadowRuleWithoutOtherRulesIsReported() {
        Rules rules = rules(address("shadow", 1).shadow(true).refundWhen("200"));
        Verdict verdict = decide(rules, SentRequest.get("/"));
        assertThat(verdict.decision()).isEmpty();
        verdict.refund(200).block(LONG);
        decide(rules, SentRequest.get("/"));
        decide(rules, SentRequest.get("/"));
        assertThat(events).containsExactly("allowed shadow", "allowed shadow", "denied shadow");
    }

    // Changing rules.

    @Test
    void replacedRulesKeepTheirCounts() {
        Rules rules = rules(address("a", 2));
        decide(rules, SentRequest.get("/"));
        decide(rules, SentRequest.get("/"));
        rules.replace(List.of(address("a", 3).paths("/x*").build()));
        assertAllowed(rules, SentRequest.get("/x"));
        assertDenied(rules, SentRequest.get("/x"));
        assertThat(decide(rules, SentRequest.get("/")).decision()).isEmpty();
        assertThat(rules.list()).extracting(Rule::name).containsExactly("a");
    }

    @Test
    void ifSomethingIsWrongWithOneRuleNoneIsReplaced() {
        Rules rules = rules(address("a", 2));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rules.replace(List.of(
                        address("b", 1).build(),
                        address("c", 1).paths("no pattern").build())))
                .withMessage("rule c: path \"no pattern\" is no pattern: expected one, for example /a");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rules.replace(
                        List.of(address("b", 1).build(), address("b", 2).build())))
                .withMessage("two rules are called b: expected each to have a name of its own, for example b-2");
        assertThat(rules.list()).extracting(Rule::name).containsExactly("a");
    }

    // Wrong rules.

    @Test
    void anInvalidRuleIsRejected() {
        assertThatIllegalStateException()
                .isThrownBy(() -> Rule.named("a").limit(Limit.perMinute(1)).build())
                .withMessageStartingWith("rule a has no key: expected one");
        assertThatIllegalStateException()
                .isThrownBy(() -> Rule.named("a").key(ADDRESS).build())
                .withMessageStartingWith("rule a has no limit: expected one");
        assertThatIllegalStateException()
                .isThrownBy(() -> Rule.named("a")
                        .key(ADDRESS)
                        .limits((match, key) -> Mono.empty())
                        .build())
                .withMessageStartingWith("rule a has no limit for keys that the lookup does not find: expected one");
        assertThatIllegalStateException()
                .isThrownBy(() -> Rule.named("a")
                        .key(KeySource.firstOf(KeySource.principal(), ADDRESS))
                        .limit(Limit.perMinute(1))
                        .phase(Phase.BEFORE_AUTHENTICATION)
                        .build())
                .withMessage(
                        "rule a is decided before authentication, and its key principal | address is not known then:"
                                + " expected .phase(Phase.AFTER_AUTHENTICATION), or another key");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Rule.named("no name"))
                .withMessageContaining("\"no name\"");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> address("a", 1).cost(-1))
                .withMessage("rule a: cost -1 is negative: expected 0 or more, for example 5");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> address("a", 5).cost(6).build())
                .withMessage("rule a: cost 6 exceeds limit 5/1m, so every request would be denied: expected at most 5,"
                        + " or this limit in a rule of its own");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> address("a", 1).limit(Limit.perMinute(5)).build())
                .withMessageContaining("would share its count");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> address("a", 1).refundWhen("OK"))
                .withMessage(
                        "status \"OK\" is not a status: expected one from 100 to 599, or a class of them, for example"
                                + " \"401\" or \"2xx\"");
        assertThatNullPointerException().isThrownBy(() -> address("a", 1).unless(null));
        assertThatNullPointerException().isThrownBy(() -> address("a", 1).whenMissing(null));
        assertThatNullPointerException()
                .isThrownBy(() -> Rules.of(limiter, SentRequest.syntax(), null))
                .withMessageContaining("expected");
    }

    /** For keys or requests of which nothing is found, such a cost may be intended. */
    @Test
    void aCostAboveALimitIsForRulesWithALookup() {
        address("limits", 5).cost(6).limits((match, key) -> Mono.empty()).build();
        address("cost", 5).cost(6).cost(match -> Mono.empty()).build();
    }

    @Test
    void aHoldTimeIsLongerThanTheDeadline() {
        RateLimiter slow = RateLimiter.builder("slow")
                .store(new Unprotected(LocalStore.bounded(16)) {
                    @Override
                    public Optional<Duration> deadline() {
                        return Optional.of(Duration.ofMillis(1_900));
                    }
                })
                .build();
        Rule brief = Rule.named("uploads")
                .key(ADDRESS)
                .limit(Limit.perMinute(1))
                .limit(Limit.concurrent(2).hold(Duration.ofSeconds(2)))
                .build();
        String message = "rule uploads: permits of limit 2 concurrent hold=2s name=uploads-concurrent could expire"
                + " before a request begins, because the limiter's deadline is 1900 ms: expected a hold time of at"
                + " least three times the deadline, for example hold=5700ms";
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Rules.of(slow, SentRequest.syntax(), List.of(brief)))
                .withMessage(message);
        Rules rules = Rules.of(slow, SentRequest.syntax(), List.of());
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rules.replace(List.of(brief)))
                .withMessage(message);
        rules.replace(List.of(Rule.named("uploads")
                .key(ADDRESS)
                .limit(Limit.concurrent(2).hold(Duration.ofMillis(2_001)))
                .build()));
    }

    private static Decision decision(Verdict verdict) {
        return verdict.decision().orElseThrow();
    }

    private static List<String> keys(Verdict verdict) {
        return decision(verdict).limits().stream().map(Decision.Usage::key).toList();
    }

    private long permits(Rules rules, String apiKey) {
        return decision(decide(rules, SentRequest.get("/").header("X-Api-Key", apiKey)))
                .limits()
                .get(0)
                .limit()
                .permits();
    }

    private long used(String key, Limit limit) {
        return Objects.requireNonNull(limiter.peek(Charge.of(key, limit)).block(LONG))
                .limits()
                .get(0)
                .used();
    }

    /** The error of a function of the user. */
    private static final class BrokenLookupException extends RuntimeException {

        private static final long serialVersionUID = 1L;
    }
}
