package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.metrics.DecisionObservationContext;
import io.github.spillgate.metrics.DecisionObservationConvention;
import io.github.spillgate.metrics.RuleObservations;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.StoreForTests;
import io.micrometer.common.KeyValue;
import io.micrometer.common.KeyValues;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.observation.tck.TestObservationRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.test.publisher.TestPublisher;

class ObservationsTest extends RulesFixture {

    private static final String NAME = "spillgate.decision";
    private static final String CURRENT = "micrometer.observation";
    private final TestObservationRegistry registry = TestObservationRegistry.create();
    private final Queue<String> signals = new ConcurrentLinkedQueue<>();
    private final List<DecisionObservationContext> stopped = new CopyOnWriteArrayList<>();

    @BeforeEach
    void listen() {
        registry.observationConfig().observationHandler(new SignalLog());
    }

    // Content.

    @Test
    void allRulesOfADecisionAreOneObservation() {
        Rules rules = rules(rule("all", 20), rule("some", 1));
        decide(rules, "k");
        assertKeys(
                "rules", "all,some", "outcome", "allowed", "source", "local", "shadow", "false", "denied.by", "none");
        decide(rules, "k");
        assertKeys("rules", "all,some", "outcome", "denied", "source", "local", "shadow", "false", "denied.by", "some");
        assertThat(registry).hasNumberOfObservationsEqualTo(2).forAllObservationsWithNameEqualTo(NAME, observation -> {
            observation.doesNotHaveError().doesNotHaveParentObservation();
        });
        assertThat(signals).containsExactly("start", "stop", "start", "stop");
    }

    @Test
    void aShadowRuleHasItsOwnObservation() {
        decide(rules(rule("all", 20), rule("tried", 0).shadow(true)), "k");
        assertThat(registry)
                .hasNumberOfObservationsEqualTo(2)
                .hasAnObservation(observation -> observation
                        .hasLowCardinalityKeyValue("rules", "all")
                        .hasLowCardinalityKeyValue("outcome", "allowed")
                        .hasLowCardinalityKeyValue("shadow", "false"))
                .hasAnObservation(observation -> observation
                        .hasLowCardinalityKeyValue("rules", "tried")
                        .hasLowCardinalityKeyValue("outcome", "denied")
                        .hasHighCardinalityKeyValue("denied.by", "tried")
                        .hasLowCardinalityKeyValue("shadow", "true"));
        registry.clear();
        decide(rules(failing("tried").shadow(true)), "k");
        assertThat(registry)
                .hasSingleObservationThat()
                .hasBeenStopped()
                .hasError()
                .hasLowCardinalityKeyValue("outcome", "undecided")
                .hasLowCardinalityKeyValue("shadow", "true");
    }

    @Test
    void theObservationOfAShadowRuleIsCancelledByADenial() {
        AtomicReference<Object> seen = new AtomicReference<>();
        Rules rules = rules(
                rule("all", 1),
                rule("tried", 5)
                        .key(match -> Mono.deferContextual(context -> {
                            seen.set(context.get(CURRENT));
                            return Mono.just("k");
                        }))
                        .shadow(true));
        decide(rules, "k");
        seen.set(null);
        registry.clear();
        stopped.clear();

        decide(rules, "k");

        assertThat(stopped).hasSize(2);
        DecisionObservationContext tried = (DecisionObservationContext) ((Observation) seen.get()).getContext();
        assertThat(tried.isShadow()).isTrue();
        assertThat(registry)
                .hasNumberOfObservationsEqualTo(2)
                .hasAnObservation(observation -> observation
                        .doesNotHaveError()
                        .hasLowCardinalityKeyValue("rules", "tried")
                        .hasLowCardinalityKeyValue("outcome", "cancelled"));
    }

    @Test
    void aRequestWithoutAKeyIsRefusedOrSkipped() {
        decide(rules(rule("key", 5).whenMissing(WhenMissing.DENY)), "");
        assertKeys("rules", "key", "outcome", "refused", "source", "none", "shadow", "false", "denied.by", "key");
        decide(rules(rule("key", 5).whenMissing(WhenMissing.SKIP)), "");
        assertKeys("rules", "key", "outcome", "none", "source", "none", "shadow", "false", "denied.by", "none");
    }

    @Test
    void aRequestThatNoRuleMatchesIsNotObserved() {
        decide(rules(rule("all", 5).paths("/elsewhere")), "k");
        assertThat(registry).doesNotHaveAnyObservation();
    }

    @Test
    void anUndecidedRequestHasAnError() {
        decide(rules(rule("all", 5), failing("plan").whenUndecided(WhenUndecided.DENY), failing("fails")), "k");
        assertKeys("rules", "all,plan,fails", "outcome", "undecided", "source", "none", "shadow", "false");
        assertThat(stopped.get(0).getError()).hasMessage("plan,fails: java.lang.IllegalStateException");
        registry.clear();
        // If another rule decides, its outcome counts, and the error is still reported.
        decide(rules(rule("all", 5), failing("plan")), "k");
        assertThat(registry)
                .hasSingleObservationThat()
                .hasError()
                .hasLowCardinalityKeyValue("outcome", "allowed")
                .hasLowCardinalityKeyValue("source", "local");
    }

    @Test
    void anUndecidedRuleReportsTheCauseOfItsFailedLookup() {
        Rule.Builder plan = rule("plan", 5)
                .limits((match, key) -> Mono.error(new UnsupportedOperationException("of secret-key")))
                .whenLookupFails(Rule.WhenLookupFails.UNDECIDED);
        decide(rules(plan), "k");
        assertThat(stopped.get(0).getError()).hasMessage("plan: java.lang.UnsupportedOperationException");
    }

    @Test
    void aStoreThatFailsIsAnError() {
        RateLimiter closed =
                RateLimiter.builder("closed").store(LocalStore.bounded(100)).build();
        closed.close();
        decide(observed(closed, RuleObservations.of(registry), rule("all", 5)), "k");
        assertThat(registry)
                .hasSingleObservationThat()
                .hasBeenStopped()
                .hasError()
                .hasLowCardinalityKeyValue("outcome", "undecided")
                .hasLowCardinalityKeyValue("source", "none");
        assertThat(signals).containsExactly("start", "error", "stop");
    }

    @Test
    void observationsContainNothingFromTheClient() {
        Rules rules = rules(
                rule("all", 2),
                rule("refuses", 5).key(KeySource.header("X-Other")).whenMissing(WhenMissing.SKIP),
                failing("fails"),
                failing("tried").shadow(true),
                rule("tries", 1).shadow(true));
        for (int i = 0; i < 3; i++) {
            rules.decide(SentRequest.get("/secret-path")
                            .header("X-Api-Key", "secret-key")
                            .query("secret", "secret")
                            .from("192.0.2.66"))
                    .block(LONG);
        }
        assertThat(stopped).hasSizeGreaterThan(6);
        for (DecisionObservationContext context : stopped) {
            assertThat(context.getAllKeyValues().stream().map(KeyValue::getValue))
                    .noneMatch(value -> value.contains("secret") || value.contains("192"));
            assertThat(context.toString()).doesNotContain("secret").doesNotContain("192.0.2.66");
            Throwable error = context.getError();
            if (error != null) {
                assertThat(error).hasNoCause().hasNoSuppressedExceptions();
                assertThat(error.toString()).doesNotContain("secret");
                assertThat(error.getStackTrace()).isEmpty();
            }
        }
    }

    // Start and end.

    @Test
    void anObservationCoversLookupsAndDecisionOnly() {
        Rules rules = rules(Rule.named("all")
                .key(match -> {
                    signals.add("key");
                    return Mono.delay(Duration.ofMillis(1)).thenReturn("k");
                })
                .timeout(LONG)
                .limit(Limit.perMinute(5)));
        rules.decide(SentRequest.get("/"))
                .flatMap(verdict -> Mono.fromRunnable(() -> signals.add("goes on")))
                .block(LONG);
        assertThat(signals).containsExactly("start", "key", "stop", "goes on");
    }

    @Test
    void eachSubscriptionIsObserved() {
        Mono<Verdict> verdict = rules(rule("all", 5)).decide(SentRequest.get("/"));
        assertThat(registry).doesNotHaveAnyObservation();
        verdict.block(LONG);
        verdict.block(LONG);
        assertThat(registry).hasNumberOfObservationsEqualTo(2);
    }

    @Test
    void cancellingStopsTheObservation() {
        TestPublisher<StoreDecision> answer = TestPublisher.create();
        Rules rules = observed(held(answer.mono()), RuleObservations.of(registry), rule("all", 5));
        Disposable asking =
                rules.decide(SentRequest.get("/").header("X-Api-Key", "k")).subscribe();
        answer.assertWasSubscribed();
        assertThat(signals).containsExactly("start");
        asking.dispose();
        assertThat(signals).containsExactly("start", "stop");
        assertKeys("rules", "all", "outcome", "cancelled", "source", "none", "shadow", "false");
        assertThat(registry).hasSingleObservationThat().hasBeenStopped().doesNotHaveError();
    }

    @Test
    void cancellingAfterTheVerdictKeepsTheOutcome() {
        Sinks.Empty<Void> handler = Sinks.empty();
        Disposable asking = rules(rule("all", 5))
                .decide(SentRequest.get("/"))
                .flatMap(verdict -> handler.asMono())
                .subscribe();
        asking.dispose();
        assertThat(signals).containsExactly("start", "stop");
        assertThat(registry).hasSingleObservationThat().hasLowCardinalityKeyValue("outcome", "allowed");
    }

    // Parent and children.

    @Test
    void theParentIsInTheContextOfTheSubscriber() {
        Observation request = Observation.start("http.server.requests", registry);
        rules(rule("all", 5), rule("tried", 5).shadow(true))
                .decide(SentRequest.get("/"))
                .contextWrite(context -> context.put(CURRENT, request))
                .block(LONG);
        request.stop();
        assertThat(registry)
                .hasNumberOfObservationsWithNameEqualTo(NAME, 2)
                .forAllObservationsWithNameEqualTo(NAME, seen -> seen.hasParentObservationEqualTo(request));
    }

    @Test
    void lookupsSeeTheObservation() {
        AtomicReference<Object> seen = new AtomicReference<>();
        AtomicReference<Object> after = new AtomicReference<>();
        Observation request = Observation.start("http.server.requests", registry);
        rules(rule("all", 5)
                        .limits((match, key) -> Mono.deferContextual(context -> {
                            seen.set(context.get(CURRENT));
                            return Mono.just(List.of(Limit.perMinute(7)));
                        })))
                .decide(SentRequest.get("/").header("X-Api-Key", "k"))
                .flatMap(verdict -> Mono.deferContextual(context -> {
                    after.set(context.get(CURRENT));
                    return Mono.just(verdict);
                }))
                .contextWrite(context -> context.put(CURRENT, request))
                .block(LONG);
        assertThat(((Observation) seen.get()).getContext()).isInstanceOf(DecisionObservationContext.class);
        assertThat(after.get()).isSameAs(request);
        assertThat(registry.getCurrentObservation()).isNull();
    }

    // Settings.

    @Test
    void aDisabledObservationIsNotInTheContext() {
        AtomicReference<Object> seen = new AtomicReference<>();
        Observation request = Observation.start("http.server.requests", registry);
        registry.observationConfig().observationPredicate((name, context) -> !name.equals(NAME));
        for (ObservationRegistry none : List.of(registry, ObservationRegistry.NOOP)) {
            Rule.Builder rule = rule("all", 5)
                    .limits((match, key) -> Mono.deferContextual(context -> {
                        seen.set(context.get(CURRENT));
                        return Mono.empty();
                    }));
            Verdict verdict = observed(limiter, RuleObservations.of(none), rule)
                    .decide(SentRequest.get("/").header("X-Api-Key", "k"))
                    .contextWrite(context -> context.put(CURRENT, request))
                    .block(LONG);
            assertThat(verdict.isAllowed()).isTrue();
            assertThat(seen.getAndSet(null)).isSameAs(request);
        }
        assertThat(signals).isEmpty();
        assertThat(registry).hasNumberOfObservationsWithNameEqualTo(NAME, 0);
    }

    @Test
    void aConventionSetsTheNames() {
        RuleObservations called = RuleObservations.of(registry).convention(new DecisionObservationConvention() {
            @Override
            public String getName() {
                return "shop.limits";
            }

            @Override
            public KeyValues getLowCardinalityKeyValues(DecisionObservationContext context) {
                return KeyValues.of("came.of.it", context.outcome().toString());
            }
        });
        decide(observed(limiter, called, rule("all", 5)), "k");
        assertThat(registry)
                .hasSingleObservationThat()
                .hasNameEqualTo("shop.limits")
                .hasOnlyKeys("came.of.it", "denied.by")
                .hasLowCardinalityKeyValue("came.of.it", "ALLOWED");
    }

    /** Checks the last observation. */
    private void assertKeys(String... keys) {
        KeyValues expected = KeyValues.of(keys);
        assertThat(stopped.get(stopped.size() - 1).getAllKeyValues()).containsAll(expected);
        assertThat(stopped.get(stopped.size() - 1).getName()).isEqualTo(NAME);
    }

    @Override
    Rules rules(Rule.Builder... rules) {
        return observed(limiter, RuleObservations.of(registry), rules);
    }

    private static Rules observed(RateLimiter on, RuleTracer tracer, Rule.Builder... rules) {
        return rules(on, RuleInstrumentation.none().tracer(tracer), rules);
    }

    private static Rule.Builder rule(String name, long permits) {
        return Rule.named(name)
                .key(API_KEY)
                .limit(Limit.perMinute(Math.max(1, permits)))
                .cost(match -> Mono.just(permits == 0 ? 2L : 1L));
    }

    private static Rule.Builder failing(String name) {
        return Rule.named(name)
                .key(match -> Mono.error(new IllegalStateException("no plan of secret-key")))
                .limit(Limit.perMinute(5));
    }

    private static Verdict decide(Rules rules, String key) {
        return decide(rules, SentRequest.get("/").header("X-Api-Key", key));
    }

    private static RateLimiter held(Mono<StoreDecision> answer) {
        LimitStore store = StoreForTests.taking(LocalStore.bounded(100), claims -> answer);
        return RateLimiter.builder("held").store(store).build();
    }

    private final class SignalLog implements ObservationHandler<DecisionObservationContext> {

        @Override
        public void onStart(DecisionObservationContext context) {
            signals.add("start");
        }

        @Override
        public void onError(DecisionObservationContext context) {
            signals.add("error");
        }

        @Override
        public void onStop(DecisionObservationContext context) {
            signals.add("stop");
            stopped.add(context);
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return context instanceof DecisionObservationContext;
        }
    }
}
