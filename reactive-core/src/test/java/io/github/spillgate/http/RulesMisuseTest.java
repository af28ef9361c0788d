package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;

/** Attempts to evade a rule, and mistakes in the configuration of one. */
class RulesMisuseTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final KeySource ADDRESS = KeySource.clientAddress(ClientAddress.ofPeer());
    private static final KeySource API_KEY = KeySource.header("X-Api-Key");

    private final LocalStore store = LocalStore.bounded(10_000);
    private final RateLimiter limiter = RateLimiter.builder("test").store(store).build();

    @AfterEach
    void close() {
        limiter.close();
    }

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
        assertThat(decide(rules, SentRequest.get("/")).isAllowed()).isTrue();
        assertThat(decide(rules, SentRequest.get("/")).isAllowed()).isFalse();
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
                        Rule.named("login-ip").key(ADDRESS).limit(Limit.perMinute(2))))
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
        LimitStore slow = new Unprotected(LocalStore.bounded(100)) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                boolean isShadow = claims.get(0).limit().name().startsWith("shadow");
                return isShadow ? super.take(claims).delayElement(LONG.multipliedBy(2)) : super.take(claims);
            }
        };
        try (RateLimiter onSlow = RateLimiter.builder("slow").store(slow).build()) {
            Rules rules = Rules.of(
                    onSlow,
                    SentRequest.syntax(),
                    List.of(Rule.named("shadow")
                            .key(ADDRESS)
                            .limit(Limit.perMinute(5))
                            .refundWhen("200")
                            .shadow(true)
                            .build()));
            Verdict verdict = decide(rules, SentRequest.get("/"));
            assertThatCode(() -> verdict.refund(200).block(LONG))
                    .as("a request that waits fails after half of the delay")
                    .doesNotThrowAnyException();
        }
    }

    @Test
    void methodsAreMethods() {
        assertThatIllegalArgumentException().isThrownBy(() -> builder("a").methods("GET,POST"));
        assertThatIllegalArgumentException().isThrownBy(() -> builder("a").methods(""));
    }

    @Test
    void aStatusPredicateThatThrowsHarmsOnlyItsOwnRule() {
        Rules rules = rules(
                builder("broken").limit(Limit.perHour(100)).refundWhen(status -> {
                    throw new IllegalStateException("broken");
                }),
                Rule.named("fine").key(API_KEY).limit(Limit.perMinute(1)).refundWhen("2xx"));
        Verdict verdict = decide(rules, SentRequest.get("/").header("X-Api-Key", "k"));
        verdict.refund(200).onErrorComplete().block(LONG);
        assertThat(decide(rules, SentRequest.get("/").header("X-Api-Key", "k").from("192.0.2.9"))
                        .isAllowed())
                .isTrue();
        assertThat(decide(rules, SentRequest.get("/").header("X-Api-Key", "other"))
                        .isAllowed())
                .as("the rule that is broken gives nothing back")
                .isFalse();
    }

    @Test
    void aMatchIsEscapedForLogs() {
        RuleMatch match = new RuleMatch(
                builder("a").build(), SentRequest.get("/"), Map.of("id", "1\r\n2026-01-01 INFO admin logged in"));
        assertThat(match.toString()).doesNotContain("\n");
    }

    @Test
    void aKeyThatIsMissingIsKnownToBeMissingThoughTheRestHangs() {
        Rules rules = rules(Rule.named("a")
                .key(KeySource.joined(API_KEY, match -> Mono.never()))
                .limit(Limit.perMinute(1)));
        decide(rules, SentRequest.get("/"));
        assertThat(decide(rules, SentRequest.get("/")).isAllowed()).isFalse();
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
        Rules rules = rules(builder("a"));
        SentRequest request = SentRequest.get("/").remembering();
        assertThat(decide(rules, request).decision()).isPresent();
        assertThat(decide(rules, request).decision()).isEmpty();
        // Rules that are added later have not been applied.
        rules.replace(List.of(builder("b").build()));
        assertThat(decide(rules, request).decision()).isPresent();
    }

    /** A service that dispatches a request again, or retries, applies the rules again. */
    @Test
    void aDeniedRequestIsDeniedAgainUntilTheDenialIsSent() {
        Rules rules = rules(builder("a").paths("/a"), builder("b").paths("/b"));
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
        Rules rules = rules(builder("a"));
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
        assertThat(decide(rules, SentRequest.get("/")).isAllowed()).isFalse();
    }

    @Test
    void aPeekAtMoreCountsThanOneDecisionHoldsShowsAll() {
        Rule.Builder[] many =
                IntStream.range(0, 20).mapToObj(i -> builder("r" + i)).toArray(Rule.Builder[]::new);
        Decision look =
                Objects.requireNonNull(rules(many).peek(SentRequest.get("/")).block(LONG));
        assertThat(look.limits())
                .extracting(usage -> usage.limit().name())
                .containsExactlyElementsOf(
                        IntStream.range(0, 20).mapToObj(i -> "r" + i + "-1m").toList());
    }

    @Test
    void aLateResponseRefundsOnlyItsOwnPermits() {
        ManualClock clock = new ManualClock();
        LimitStore local = LocalStore.bounded(100, clock);
        try (RateLimiter onClock = RateLimiter.builder("clock").store(local).build()) {
            Rules rules = Rules.of(
                    onClock,
                    SentRequest.syntax(),
                    List.of(
                            Rule.named("all")
                                    .key(ADDRESS)
                                    .limit(Limit.perMinute(1_000))
                                    .build(),
                            builder("failures").refundWhen("2xx").build()));
            Verdict slow = decide(rules, SentRequest.get("/"));
            clock.advance(Duration.ofSeconds(61));
            // The window of the slow request is over, and another request has taken the permit.
            assertThat(decide(rules, SentRequest.get("/")).isAllowed()).isTrue();
            slow.refund(200).block(LONG);
            assertThat(decide(rules, SentRequest.get("/")).isAllowed())
                    .as("a second failure within the window")
                    .isFalse();
        }
    }

    private static Rule.Builder builder(String name) {
        return Rule.named(name).key(ADDRESS).limit(Limit.perMinute(1));
    }

    private Rules rules(Rule.Builder... rules) {
        return Rules.of(
                limiter,
                SentRequest.syntax(),
                Stream.of(rules).map(Rule.Builder::build).toList());
    }

    private static Verdict decide(Rules rules, SentRequest request) {
        return Objects.requireNonNull(rules.decide(request).block(LONG));
    }
}
