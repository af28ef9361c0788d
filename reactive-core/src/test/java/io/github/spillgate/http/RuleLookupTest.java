package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.Rule.CostSource;
import io.github.spillgate.http.Rule.LimitSource;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.test.publisher.TestPublisher;

/** Failed lookups of limits and costs. */
class RuleLookupTest extends RulesFixture {

    private static final Duration SHORT = Duration.ofMillis(5);
    private static final Duration DEADLINE = Duration.ofMillis(100);
    private static final Duration LONGER_THAN_DEADLINE = Duration.ofMillis(300);

    @AfterEach
    void resetHooks() {
        Hooks.resetOnErrorDropped();
    }

    static Stream<Arguments> brokenLimits() {
        Limit some = Limit.perMinute(1_000);
        return Stream.of(
                Arguments.of("hangs", (LimitSource) (match, key) -> Mono.never()),
                Arguments.of("fails", (LimitSource) (match, key) -> Mono.error(broken())),
                Arguments.of("fails later", (LimitSource)
                        (match, key) -> Mono.delay(Duration.ofMillis(1)).then(Mono.error(broken()))),
                Arguments.of("throws", (LimitSource) (match, key) -> {
                    throw broken();
                }),
                Arguments.of("returns null", (LimitSource) (match, key) -> null),
                Arguments.of("finds equal limits", (LimitSource) (match, key) -> Mono.just(List.of(some, some))),
                Arguments.of("finds equal limits later", (LimitSource)
                        (match, key) -> Mono.delay(Duration.ofMillis(1)).thenReturn(List.of(some, some))),
                Arguments.of("finds null", (LimitSource) (match, key) -> Mono.just(Arrays.asList(some, null))),
                Arguments.of("finds a name that is too long", (LimitSource)
                        (match, key) -> Mono.just(List.of(some.named("n".repeat(62))))));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("brokenLimits")
    void theLimitsOfTheRuleApplyIfTheLookupFails(String how, LimitSource source) {
        Rules rules = rules(address("plan", 2).limits(source).timeout(SHORT));
        assertThat(decide(rules).decision().orElseThrow().limits())
                .singleElement()
                .satisfies(usage -> {
                    assertThat(usage.limit()).isEqualTo(Limit.perMinute(2).named("plan-1m"));
                    assertThat(usage.key()).isEqualTo("192.0.2.1");
                });
        assertAllowed(rules, SentRequest.get("/"));
        assertThat(decide(rules).isAllowed()).as("the third of two").isFalse();
    }

    static Stream<Arguments> brokenCosts() {
        return Stream.of(
                Arguments.of("hangs", (CostSource) match -> Mono.never()),
                Arguments.of("fails", (CostSource) match -> Mono.error(broken())),
                Arguments.of("fails later", (CostSource)
                        match -> Mono.delay(Duration.ofMillis(1)).then(Mono.error(broken()))),
                Arguments.of("throws", (CostSource) match -> {
                    throw broken();
                }),
                Arguments.of("returns null", (CostSource) match -> null),
                Arguments.of("is negative", (CostSource) match -> Mono.just(-1L)),
                Arguments.of("is negative later", (CostSource)
                        match -> Mono.delay(Duration.ofMillis(1)).thenReturn(-1L)));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("brokenCosts")
    void aCostThatCannotBeLookedUpIsThatOfTheRule(String how, CostSource source) {
        Rules rules = rules(address("dear", 10).cost(5).cost(source).timeout(SHORT));
        assertThat(decide(rules).decision().orElseThrow().remaining()).isEqualTo(5);
        assertAllowed(rules, SentRequest.get("/"));
        assertThat(decide(rules).isAllowed()).as("the third of two").isFalse();
    }

    @Test
    void aFoundLimitOrCostAppliesIfTheOtherLookupFails() {
        Rules rules = rules(
                address("limits", 10)
                        .limits((match, key) -> Mono.just(List.of(Limit.perMinute(20))))
                        .cost(match -> Mono.never())
                        .timeout(SHORT),
                address("cost", 10)
                        .limits((match, key) -> Mono.never())
                        .cost(match -> Mono.delay(Duration.ofMillis(1)).thenReturn(4L))
                        .timeout(Duration.ofSeconds(2)));
        assertThat(decide(rules).decision().orElseThrow().limits())
                .extracting(usage -> usage.limit().name() + " " + usage.used() + "/"
                        + usage.limit().permits())
                .containsExactly("limits-1m 1/20", "cost-1m 4/10");
    }

    @Test
    void aLateLookupIsCancelledAndItsErrorIsNotLogged() {
        Queue<Throwable> dropped = new ConcurrentLinkedQueue<>();
        Hooks.onErrorDropped(dropped::add);
        TestPublisher<Collection<Limit>> plan = TestPublisher.create();
        CompletableFuture<Collection<Limit>> limits = new CompletableFuture<>();
        CompletableFuture<Long> cost = new CompletableFuture<>();
        CompletableFuture<String> name = new CompletableFuture<>();
        Rules rules = rules(
                address("plan", 2).limits((match, key) -> plan.mono()).timeout(SHORT),
                address("limits", 2)
                        .limits((match, key) -> Mono.fromFuture(limits, true))
                        .timeout(SHORT),
                address("cost", 2).cost(match -> Mono.fromFuture(cost, true)).timeout(SHORT),
                Rule.named("key")
                        .key(match -> Mono.fromFuture(name, true))
                        .limit(Limit.perMinute(2))
                        .timeout(SHORT));
        assertAllowed(rules, SentRequest.get("/"));
        plan.assertCancelled();
        Stream.of(limits, cost, name).forEach(late -> late.completeExceptionally(broken()));
        assertThat(dropped).isEmpty();
    }

    @Test
    void aClientThatDisconnectsCancelsItsLookups() {
        TestPublisher<Collection<Limit>> plan = TestPublisher.create();
        TestPublisher<Long> cost = TestPublisher.create();
        Rules rules = rules(address("plan", 2)
                .limits((match, key) -> plan.mono())
                .cost(match -> cost.mono())
                .timeout(LONG));
        rules.decide(SentRequest.get("/")).subscribe().dispose();
        plan.assertCancelled();
        cost.assertCancelled();
    }

    // The other rules of the verdict.

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aHangingLookupTakesNoTimeOfTheStore(boolean isStrict) {
        RedisClient client = RedisClient.create(RedisForTests.first().uri());
        try (VirtualTime time = new VirtualTime();
                RedisStore redis = RedisStore.builder(client)
                        .deliverOn(Schedulers.immediate())
                        .build();
                RateLimiter onRedis = RateLimiter.builder("test-" + UUID.randomUUID())
                        .store(redis)
                        .fallback(isStrict ? Fallback.error() : Fallback.local(100))
                        .deadline(DEADLINE)
                        .build()) {
            onRedis.tryAcquire(Charge.of("warm-up", Limit.perSecond(1_000))).block(LONG);
            Rules rules = rules(
                    onRedis,
                    address("plan", 1).limits((match, key) -> Mono.never()).timeout(LONGER_THAN_DEADLINE),
                    Rule.named("key")
                            .key(match -> Mono.never())
                            .limit(Limit.perMinute(1))
                            .timeout(LONGER_THAN_DEADLINE),
                    address("address", 5));
            Decision decision = decideAtTheTimeout(rules, time).decision().orElseThrow();
            assertThat(decision.source()).isEqualTo(Source.REDIS);
            assertThat(decision.limits())
                    .extracting(usage -> usage.limit().name())
                    .containsExactly("plan-1m", "address-1m");
            assertThat(decideAtTheTimeout(rules, time).isAllowed())
                    .as("the second of one")
                    .isFalse();
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    private static Verdict decideAtTheTimeout(Rules rules, VirtualTime time) {
        CompletableFuture<Verdict> verdict = rules.decide(SentRequest.get("/")).toFuture();
        time.pass(LONGER_THAN_DEADLINE.minusNanos(1));
        assertThat(verdict).isNotDone();
        time.pass(Duration.ofNanos(1));
        assertThat(verdict).succeedsWithin(LONG);
        return verdict.join();
    }

    @Test
    void theLimitsOfTheRuleApplyIfTooManyAreLookedUp() {
        List<Limit> many = IntStream.range(0, 16)
                .mapToObj(i -> Limit.perMinute(100).named("n" + i))
                .toList();
        Rules rules = rules(
                address("plan", 3).limits((match, key) -> Mono.just(many)),
                address("cost", 5).cost(match -> Mono.error(broken())),
                address("address", 2));
        assertThat(names(decide(rules))).containsExactly("plan-1m", "cost-1m", "address-1m");
        assertAllowed(rules, SentRequest.get("/"));
        assertThat(decide(rules).isAllowed()).as("the third of two").isFalse();
        // Without other rules they are not too many.
        assertThat(names(decide(rules(address("plan", 3).limits((match, key) -> Mono.just(many))))))
                .hasSize(16);
    }

    @Test
    void theLimitsOfTheRuleApplyIfLookedUpOnesClashWithAnotherRule() {
        Rules rules = rules(
                address("plan", 3)
                        .limits((match, key) ->
                                Mono.just(List.of(Limit.perMinute(1_000).named("b-1m")))),
                address("plan-b", 2));
        assertThat(names(decide(rules))).containsExactly("plan-1m", "plan-b-1m");
        assertAllowed(rules, SentRequest.get("/"));
        assertThat(decide(rules).isAllowed()).as("the third of two").isFalse();
    }

    // Reports and settings.

    @Test
    void aLookUpThatFailsIsReportedAndThenTheDecision() {
        Rules rules = rules(
                address("plan", 2).limits((match, key) -> Mono.error(broken())),
                address("cost", 2).cost(match -> Mono.never()).timeout(SHORT),
                address("both", 2).limits((match, key) -> null).cost(match -> null),
                address("address", 2));
        decide(rules);
        assertThat(events)
                .containsExactly(
                        "failed plan: limits-from failed by IllegalStateException",
                        "failed cost: cost-from did not answer within 5 ms (timeout)",
                        "failed both: limits-from failed by NullPointerException",
                        "failed both: cost-from failed by NullPointerException",
                        "allowed plan",
                        "allowed cost",
                        "allowed both",
                        "allowed address");
    }

    @Test
    void aFailedLookupCanLeaveTheRuleUndecided() {
        Rule.Builder plan = address("plan", 1)
                .limits((match, key) -> Mono.error(broken()))
                .whenLookupFails(WhenLookupFails.UNDECIDED);
        Rules open = rules(plan, address("address", 2));
        assertThat(names(decide(open))).containsExactly("address-1m");
        assertAllowed(open, SentRequest.get("/"));
        assertThat(decide(open).isAllowed()).as("the third of two").isFalse();
        assertThat(events)
                .startsWith(
                        "failed plan: limits-from failed by IllegalStateException",
                        "undecided plan: limits-from failed",
                        "allowed address");
        events.clear();
        Rules closed = rules(plan.whenUndecided(WhenUndecided.DENY), address("other", 2));
        assertDenied(503, decide(closed));
        assertThat(events)
                .containsExactly(
                        "failed plan: limits-from failed by IllegalStateException",
                        "undecided plan: limits-from failed");
    }

    @Test
    void limitsThatConflictCanLeaveTheRuleUndecided() {
        List<Limit> many = IntStream.range(0, 16)
                .mapToObj(i -> Limit.perMinute(100).named("n" + i))
                .toList();
        Rules rules = rules(
                address("plan", 3).limits((match, key) -> Mono.just(many)).whenLookupFails(WhenLookupFails.UNDECIDED),
                address("address", 1));
        assertThat(names(decide(rules))).containsExactly("address-1m");
        assertThat(decide(rules).isAllowed()).as("the second of one").isFalse();
        assertThat(events)
                .startsWith(
                        "failed plan: limits-from failed by IllegalArgumentException",
                        "undecided plan: limits-from failed",
                        "allowed address");
    }

    @Test
    void anEmptyLookupIsNoFailure() {
        Rules rules = rules(address("plan", 2)
                .limits((match, key) -> Mono.empty())
                .cost(match -> Mono.empty())
                .whenLookupFails(WhenLookupFails.UNDECIDED));
        assertThat(names(decide(rules))).containsExactly("plan-1m");
        assertThat(events).containsExactly("allowed plan");
    }

    @Test
    void aShadowRuleReportsFailedLookups() {
        decide(rules(
                address("tried", 2).limits((match, key) -> Mono.error(broken())).shadow(true)));
        assertThat(events)
                .containsExactly("failed tried: limits-from failed by IllegalStateException", "allowed tried");
    }

    @Test
    void aRequestWithoutAKeyTakesTheFixedCostIfItsOwnCannotBeFound() {
        Rules rules = rules(Rule.named("key")
                .key(API_KEY)
                .limit(Limit.perMinute(10))
                .cost(6)
                .cost(match -> Mono.error(broken())));
        assertThat(decide(rules).decision().orElseThrow().remaining()).isEqualTo(4);
        assertDenied(rules, SentRequest.get("/"));
    }

    @Test
    void aPeekShowsTheLimitsThatADecisionWouldUse() {
        Rule.Builder plan = address("plan", 2)
                .limits((match, key) -> Mono.<List<Limit>>error(broken()).delaySubscription(Duration.ofMillis(1)))
                .timeout(LONG);
        Rules rules = rules(plan);
        assertThat(Objects.requireNonNull(rules.peek(SentRequest.get("/")).block(LONG))
                        .limits())
                .extracting(usage -> usage.limit().name())
                .containsExactly("plan-1m");
        Rules strict = rules(plan.whenLookupFails(WhenLookupFails.UNDECIDED));
        assertThatExceptionOfType(RuleLookupException.class)
                .isThrownBy(() -> strict.peek(SentRequest.get("/")).block(LONG))
                .withMessage("limits-from failed")
                .withCauseInstanceOf(IllegalStateException.class);
    }

    private static IllegalStateException broken() {
        return new IllegalStateException("broken");
    }
}
