package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.test.publisher.TestPublisher;

/**
 * When shadow rules are looked up and when they charge. A test controls when the verdict of the enforced rules is
 * emitted.
 */
class ShadowDecisionTest extends RulesFixture {

    /** The verdict of the enforced rules waits for this. */
    private final Sinks.Empty<Void> let = Sinks.empty();

    private final HeldStore store = new HeldStore();
    private final RateLimiter held = RateLimiter.builder("held").store(store).build();
    private final Queue<String> called = new ConcurrentLinkedQueue<>();
    private final AtomicReference<Verdict> verdict = new AtomicReference<>();

    /** A ban of its trial would deny requests when the rule is enforced. */
    @Test
    void aShadowRuleBansNoKey() {
        Limit ban = Limit.ban(Duration.ofHours(1), 2, Duration.ofMinutes(10));
        Rule.Builder rule = Rule.named("tried")
                .key(match -> Mono.just("k"))
                .limit(Limit.perMinute(1))
                .limit(ban);
        Rules tried = rules(rule.shadow(true));
        for (int i = 0; i < 5; i++) {
            assertThat(decide(tried).isAllowed()).isTrue();
        }
        assertThat(events).filteredOn("denied tried"::equals).hasSize(4);
        Decision enforced = Objects.requireNonNull(
                rules(rule.shadow(false)).peek(SentRequest.get("/")).block());
        assertThat(enforced.violated()).extracting(Limit::name).containsExactly("tried-1m");
    }

    // Lookups.

    @Test
    void functionsOfAShadowRuleRunOnTheRequestThreadAfterTheOthers() {
        Rules rules = rules(held, calling("tried").shadow(true), calling("real"));
        subscribe(rules, SentRequest.get("/"));
        String here = " on " + Thread.currentThread().getName();
        String[] expected = {
            "unless of real" + here,
            "key of real" + here,
            "limits of real" + here,
            "cost of real" + here,
            "unless of tried" + here,
            "key of tried" + here,
            "limits of tried" + here,
            "cost of tried" + here
        };
        assertThat(called).containsExactly(expected);

        letElsewhere();

        assertThat(called).containsExactly(expected);
        assertThat(events).containsExactly("allowed real", "allowed tried");
    }

    @Test
    void lookupsAreSubscribedToOnTheRequestThreadToo() {
        Sinks.One<String> realKey = Sinks.one();
        Rules rules = rules(
                held,
                rule("tried").key(match -> lazily("tried", Mono.just("k"))).shadow(true),
                rule("real").key(match -> lazily("real", realKey.asMono())));
        subscribe(rules, SentRequest.get("/"));
        String here = " on " + Thread.currentThread().getName();
        assertThat(called).containsExactly("real" + here, "tried" + here);

        realKey.tryEmitValue("k");
        letElsewhere();

        assertThat(events).containsExactly("allowed real", "allowed tried");
    }

    @Test
    void aLookupSeesTheContextOfTheSubscriber() {
        AtomicReference<Object> seen = new AtomicReference<>();
        Rules rules = rules(
                held,
                rule("real").key(match -> Mono.just("k").publishOn(Schedulers.single())),
                rule("tried")
                        .key(match -> Mono.deferContextual(context -> {
                            seen.set(context.get("trace"));
                            return Mono.just("k");
                        }))
                        .shadow(true));
        Disposable unused = rules.decide(SentRequest.get("/"))
                .contextWrite(context -> context.put("trace", "t"))
                .subscribe(verdict::set);
        assertThat(seen).hasValue("t");
    }

    @Test
    void aLookupThatNeverEndsDelaysNoRequestAndIsCancelledByADenial() {
        TestPublisher<String> first = TestPublisher.create();
        TestPublisher<String> second = TestPublisher.create();
        Queue<TestPublisher<String>> keys = new ConcurrentLinkedQueue<>(List.of(first, second));
        Rules rules = rules(
                held,
                rule("real"),
                rule("tried").key(match -> keys.remove().mono()).shadow(true));
        let.tryEmitEmpty();
        subscribe(rules, SentRequest.get("/"));
        assertThat(verdict.get().isAllowed()).isTrue();
        // The lookup may still emit a key, so it is not cancelled.
        first.assertSubscribers(1);

        subscribe(rules, SentRequest.get("/"));

        assertThat(verdict.get().isAllowed()).isFalse();
        second.assertWasSubscribed();
        second.assertCancelled();
        assertThat(events).containsExactly("allowed real", "denied real");
    }

    @Test
    void aLookupIsCancelledWithItsRequest() {
        TestPublisher<String> key = TestPublisher.create();
        Queue<Mono<String>> keys = new ConcurrentLinkedQueue<>(List.of(key.mono(), Mono.just("k")));
        Rules rules = rules(
                held, rule("real"), rule("tried").key(match -> keys.remove()).shadow(true));
        SentRequest request = SentRequest.get("/").remembering();
        Disposable asking = subscribe(rules, request);
        key.assertSubscribers(1);

        asking.dispose();

        key.assertCancelled();
        // A new subscription is a new decision, also for the shadow rule.
        subscribe(rules, request);
        letElsewhere();
        assertThat(events).containsExactly("allowed real", "allowed tried");
    }

    // Charging.

    @Test
    void aShadowRuleIsChargedAfterTheOthersAllow() {
        Rules rules = rules(held, rule("real"), rule("tried").shadow(true));
        subscribe(rules, SentRequest.get("/"));
        assertThat(store.taken).containsOnly("real-1m");

        letElsewhere();
        assertThat(store.taken).containsOnly("real-1m", "tried-1m");

        store.taken.clear();
        subscribe(rules, SentRequest.get("/"));
        assertThat(verdict.get().isAllowed()).isFalse();
        assertThat(store.taken).containsOnly("real-1m");
    }

    @Test
    void aKeyFoundAfterTheVerdictIsChargedAndRefunded() {
        Sinks.One<String> key = Sinks.one();
        Rules rules = rules(
                held,
                rule("real"),
                rule("tried").key(match -> key.asMono()).refundWhen("2xx").shadow(true));
        subscribe(rules, SentRequest.get("/"));
        letElsewhere();
        verdict.get().refund(200).block(LONG);
        assertThat(store.taken).containsOnly("real-1m");

        key.tryEmitValue("k");

        assertThat(events).containsExactly("allowed real", "allowed tried");
        assertThat(store.refunds).containsExactly("tried-1m");
    }

    @Test
    void theDurationOfAShadowRuleExcludesTheOthers() {
        Map<String, Duration> took = new HashMap<>();
        try (VirtualTime time = new VirtualTime()) {
            Rules rules = rules(
                    held,
                    RuleInstrumentation.none().listener(took(took)),
                    rule("real"),
                    rule("tried")
                            .key(match -> Mono.delay(Duration.ofMillis(20)).thenReturn("k"))
                            .shadow(true));
            subscribe(rules, SentRequest.get("/"));
            time.passMillis(500);
            let.tryEmitEmpty();
            assertThat(took)
                    .containsEntry("real", Duration.ofMillis(500))
                    .containsEntry("tried", Duration.ofMillis(20));
        }
    }

    private static RuleListener took(Map<String, Duration> took) {
        return new RuleListener() {
            @Override
            public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration time) {
                took.put(match.rule().name(), time);
            }
        };
    }

    // Reports.

    @Test
    void aFailedShadowRuleIsReportedOnlyIfTheOthersAllow() {
        Rules rules = rules(
                held,
                rule("real"),
                rule("throws")
                        .key(match -> {
                            throw new IllegalStateException("broken");
                        })
                        .shadow(true),
                rule("fails")
                        .key(match -> Mono.error(new IllegalStateException("broken")))
                        .shadow(true),
                rule("hangs")
                        .key(match -> Mono.never())
                        .timeout(Duration.ofMillis(1))
                        .whenUndecided(Rule.WhenUndecided.DENY)
                        .shadow(true),
                rule("keyless")
                        .key(match -> Mono.empty())
                        .whenMissing(WhenMissing.DENY)
                        .shadow(true),
                rule("excepted").unless(match -> true).shadow(true));
        subscribe(rules, SentRequest.get("/"));
        assertThat(events).isEmpty();

        letElsewhere();
        await().untilAsserted(() -> assertThat(events)
                .containsExactlyInAnyOrder(
                        "allowed real",
                        "undecided throws: broken",
                        "undecided fails: broken",
                        "undecided hangs: the key of rule hangs was not found within 1 ms (timeout)",
                        "refused keyless"));
        assertThat(verdict.get().isAllowed()).isTrue();

        events.clear();
        subscribe(rules, SentRequest.get("/"));
        assertThat(verdict.get().isAllowed()).isFalse();
        assertThat(events).containsExactly("denied real");
    }

    /** Emits the verdict on another thread, as Redis does. */
    private void letElsewhere() {
        Mono.fromRunnable(let::tryEmitEmpty).subscribeOn(Schedulers.single()).block(LONG);
        await().until(() -> verdict.get() != null);
    }

    private Disposable subscribe(Rules rules, SentRequest request) {
        return rules.decide(request).subscribe(verdict::set);
    }

    private static Rule.Builder rule(String name) {
        return Rule.named(name).key(KeySource.constant("k")).timeout(LONG).limit(Limit.perMinute(1));
    }

    private Rule.Builder calling(String name) {
        return rule(name)
                .unless(match -> {
                    call("unless of " + name);
                    return false;
                })
                .key(match -> {
                    call("key of " + name);
                    return Mono.just("k");
                })
                .limits((match, key) -> {
                    call("limits of " + name);
                    return Mono.empty();
                })
                .cost(match -> {
                    call("cost of " + name);
                    return Mono.just(1L);
                });
    }

    private <T> Mono<T> lazily(String name, Mono<T> value) {
        return Mono.defer(() -> {
            call(name);
            return value;
        });
    }

    private void call(String what) {
        called.add(what + " on " + Thread.currentThread().getName());
    }

    /** Decides on enforced rules when the test allows it, on that thread; on shadow rules immediately. */
    private final class HeldStore extends Unprotected {

        /** The limits that were charged. */
        private final Set<String> taken = ConcurrentHashMap.newKeySet();

        private final Queue<String> refunds = new ConcurrentLinkedQueue<>();

        HeldStore() {
            super(LocalStore.bounded(100));
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            String name = claims.get(0).limit().name();
            return Mono.defer(() -> {
                taken.add(name);
                Mono<StoreDecision> decision = Mono.defer(() -> super.take(claims));
                return name.startsWith("real") ? let.asMono().then(decision) : decision;
            });
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            corrections.forEach(refund -> refunds.add(refund.claim().limit().name()));
            return super.correct(corrections);
        }
    }
}
