package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.StoreForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;

/** Attempts to evade a rule, and mistakes in the configuration of one. */
class RulesMisuseTest extends RulesFixture {

    @Test
    void aHeaderThatAddsARuleDoesNotBypassTheOthers() {
        List<Rule.Builder> some = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            some.add(Rule.named("r" + i)
                    .key(ADDRESS)
                    .limit(Limit.perSecond(1))
                    .limit(Limit.perMinute(1))
                    .limit(Limit.perHour(1))
                    .limit(Limit.perDay(1)));
        }
        some.add(Rule.named("key").key(API_KEY).limit(Limit.perMinute(1)).whenMissing(Rule.WhenMissing.SKIP));
        Rules rules = rules(some.toArray(Rule.Builder[]::new));
        assertAllowed(rules, SentRequest.get("/"));
        assertDenied(rules, SentRequest.get("/"));
        assertThat(decide(rules, SentRequest.get("/").header("X-Api-Key", "x")).isAllowed())
                .as("with a header")
                .isFalse();
    }

    @Test
    void twoRulesAreRejectedIfTheirLimitsGetOneName() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rules(
                        Rule.named("login")
                                .key(ADDRESS)
                                .limit(Limit.perMinute(3).named("ip-1m")),
                        address("login-ip", 2)))
                .withMessageContaining("a limit that is called login-ip-1m");
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT0S", "PT-1S", "PT1M0.000000001S", "PT61S"})
    void aTimeoutOutOfRangeIsRejected(String timeout) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Rule.named("a").timeout(Duration.parse(timeout)))
                .withMessageContaining(Duration.parse(timeout) + " is out of range");
    }

    @Test
    void noRequestWaitsForTheRefundOfAShadowRule() {
        LocalStore local = LocalStore.bounded(100);
        LimitStore slow = StoreForTests.taking(
                local, claims -> local.take(StoreRequest.take(claims)).delayElement(LONG.multipliedBy(2)));
        try (RateLimiter onSlow = RateLimiter.builder("slow").store(slow).build()) {
            Rules rules = rules(onSlow, address("shadow", 5).refundWhen("200").shadow(true));
            Verdict verdict = decide(rules, SentRequest.get("/"));
            assertThatCode(() -> verdict.refund(200).block(LONG))
                    .as("a request that waits fails after half of the delay")
                    .doesNotThrowAnyException();
        }
    }

    @Test
    void methodsAreMethods() {
        assertThatIllegalArgumentException().isThrownBy(() -> address("a", 1).methods("GET,POST"));
        assertThatIllegalArgumentException().isThrownBy(() -> address("a", 1).methods(""));
    }

    @Test
    void aStatusPredicateThatThrowsHarmsOnlyItsOwnRule() {
        Rules rules = rules(
                address("broken", 1).limit(Limit.perHour(100)).refundWhen(status -> {
                    throw new IllegalStateException("broken");
                }),
                Rule.named("fine").key(API_KEY).limit(Limit.perMinute(1)).refundWhen("2xx"));
        Verdict verdict = decide(rules, SentRequest.get("/").header("X-Api-Key", "k"));
        verdict.refund(200).onErrorComplete().block(LONG);
        assertAllowed(rules, SentRequest.get("/").header("X-Api-Key", "k").from("192.0.2.9"));
        assertThat(decide(rules, SentRequest.get("/").header("X-Api-Key", "other"))
                        .isAllowed())
                .as("the rule that is broken gives nothing back")
                .isFalse();
    }

    @Test
    void aMatchIsEscapedForLogs() {
        RuleMatch match = new RuleMatch(
                address("a", 1).build(), SentRequest.get("/"), Map.of("id", "1\r\n2026-01-01 INFO admin logged in"));
        assertThat(match.toString()).doesNotContain("\n");
    }

    @Test
    void aKeyThatIsMissingIsKnownToBeMissingThoughTheRestHangs() {
        Rules rules = rules(Rule.named("a")
                .key(KeySource.joined(API_KEY, match -> Mono.never()))
                .limit(Limit.perMinute(1)));
        decide(rules, SentRequest.get("/"));
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void aKeyFromAnotherThreadDoesNotMoveTheRequestThere() {
        Rules rules = rules(Rule.named("a")
                .key(match ->
                        Mono.<String>create(sink -> new Thread(sink::success, "lettuce-epollEventLoop-9").start()))
                .whenMissing(Rule.WhenMissing.SKIP)
                .limit(Limit.perMinute(1)));
        String thread = rules.decide(SentRequest.get("/"))
                .map(verdict -> Thread.currentThread().getName())
                .block(LONG);
        assertThat(thread).doesNotStartWith("lettuce");
    }

    @Test
    void aRuleIsAppliedToARequestOnce() {
        Rules rules = rules(address("a", 1));
        SentRequest request = SentRequest.get("/").remembering();
        assertThat(decide(rules, request).decision()).isPresent();
        assertThat(decide(rules, request).decision()).isEmpty();
        // Rules that are added later have not been applied.
        rules.replace(List.of(address("b", 1).build()));
        assertThat(decide(rules, request).decision()).isPresent();
    }

    /** A service that dispatches a request again, or retries, applies the rules again. */
    @Test
    void aDeniedRequestIsDeniedAgainUntilTheDenialIsSent() {
        Rules rules = rules(address("a", 1).paths("/a"), address("b", 1).paths("/b"));
        decide(rules, SentRequest.get("/a"));
        SentRequest request = SentRequest.get("/a").remembering();
        Verdict denied = decide(rules, request);
        assertThat(denied.isAllowed()).isFalse();
        assertThat(decide(rules, request)).isSameAs(denied);
        request.verdicts().denialSent();
        assertThat(decide(rules, request).isAllowed())
                .as("the page for denied clients")
                .isTrue();
    }

    @Test
    void cancellingAfterTheVerdictKeepsTheCharge() {
        Rules rules = rules(address("a", 1));
        SentRequest request = SentRequest.get("/").remembering();
        AtomicReference<Verdict> emitted = new AtomicReference<>();
        rules.decide(request).subscribe(new BaseSubscriber<>() {
            @Override
            protected void hookOnNext(Verdict verdict) {
                emitted.set(verdict);
                cancel();
            }
        });
        assertThat(emitted.get().isAllowed()).isTrue();
        assertThat(decide(rules, request).isAllowed()).as("charged once").isTrue();
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void aPeekAtMoreCountsThanOneDecisionHoldsShowsAll() {
        Rule.Builder[] many =
                IntStream.range(0, 20).mapToObj(i -> address("r" + i, 1)).toArray(Rule.Builder[]::new);
        Decision look =
                Objects.requireNonNull(rules(many).peek(SentRequest.get("/")).block(LONG));
        assertThat(names(look))
                .containsExactlyElementsOf(
                        IntStream.range(0, 20).mapToObj(i -> "r" + i + "-1m").toList());
    }
}
