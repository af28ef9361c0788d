package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.CachedLimits;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

/** A customer with a plan, in virtual time: the rule's own limits are far below those of the plan. */
class RulePlanTest extends RulesFixture {

    private static final Duration WINDOW = Duration.ofSeconds(30);
    private static final long OWN = 10;
    private static final long PLAN = 10_000;

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    @AutoClose
    private final RateLimiter onTime =
            RateLimiter.builder("plans").store(LocalStore.bounded(100, time)).build();

    private final AtomicInteger lookups = new AtomicInteger();
    private Supplier<Mono<Collection<Limit>>> plan = () -> found(PLAN, 300);

    private final CachedLimits cache = CachedLimits.builder(key -> {
                lookups.incrementAndGet();
                return plan.get();
            })
            .freshFor(Duration.ofSeconds(2))
            .staleFor(Duration.ofSeconds(5))
            .clock(time)
            .build();

    private final Rule.Builder rule =
            Rule.named("plan").key(API_KEY).limit(Limit.of(OWN, WINDOW)).limits((match, key) -> cache.apply(key));

    @Test
    void aLookupThatIsSlowerThanTheTimeoutGivesLaterRequestsTheirPlan() {
        Rules rules = rules(onTime, rule);
        assertThat(limits(rules, 30)).startsWith(OWN, OWN, OWN).endsWith(PLAN).hasSize(30);
        assertThat(events).filteredOn(event -> event.startsWith("denied")).isEmpty();
        assertThat(lookups).as("3 s, fresh for 2 s").hasValue(2);
    }

    @Test
    void aPeekByKeyIsUnderThePlanOfTheKey() {
        Rules rules = rules(onTime, rule);
        limits(rules, 2 * (int) OWN);
        Decision decision = rules.peek("plan", "ann").block(LONG);
        assertThat(decision.limits())
                .extracting(usage -> usage.limit().permits(), Decision.Usage::used)
                .containsExactly(tuple(PLAN, 2 * OWN));
    }

    @Test
    void aPeekByKeyFailsIfThePlanCannotBeLookedUp() {
        Rules rules = rules(onTime, rule);
        CompletableFuture<Decision> late = rules.peek("plan", "ann").toFuture();
        time.passMillis(50);
        assertThat(late)
                .failsWithin(LONG)
                .withThrowableThat()
                .havingCause()
                .isInstanceOf(RuleLookupException.class)
                .withMessage("limits-from did not answer within 50 ms (timeout)");
        plan = () -> Mono.error(new IllegalStateException("no database"));
        StepVerifier.create(rules.peek("plan", "bob"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(RuleLookupException.class)
                        .hasMessage("limits-from failed")
                        .hasRootCauseMessage("no database"));
    }

    @Test
    void aPeekByKeyFailsIfTheLookupReadsTheRequest() {
        Rules rules = rules(
                onTime,
                rule.limits((match, key) -> Mono.just(List.of(
                        match.request().headers("X-Plan").isEmpty() ? Limit.of(1, WINDOW) : Limit.of(PLAN, WINDOW)))));
        StepVerifier.create(rules.peek("plan", "ann"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(RuleLookupException.class)
                        .hasRootCauseMessage("the lookup reads the request, and here only the key is known: expected a"
                                + " lookup by its key alone, or rules.peek(request)"));
    }

    @Test
    void aResetByKeyDeletesTheCountsOfThePlanAndOfTheRule() {
        Duration other = WINDOW.multipliedBy(2);
        plan = () -> Mono.delay(Duration.ofMillis(300)).thenReturn(List.of(Limit.of(PLAN, other)));
        Rules rules = rules(onTime, rule);
        limits(rules, 20);
        rules.reset("plan", "ann").block(LONG);
        assertThat(rules.peek("plan", "ann").block(LONG).limits().get(0).used()).isZero();
        assertThat(onTime.peek(Charge.of("ann", Limit.of(OWN, WINDOW).named("plan-30s")))
                        .block(LONG)
                        .limits()
                        .get(0)
                        .used())
                .isZero();
    }

    private static Mono<Collection<Limit>> found(long permits, long millis) {
        return Mono.delay(Duration.ofMillis(millis)).thenReturn(List.of(Limit.of(permits, WINDOW)));
    }

    /** Sends requests, one each 100 ms, and returns the permits of the limits that applied to them. */
    private List<Long> limits(Rules rules, int requests) {
        List<Long> limits = new ArrayList<>();
        for (int i = 0; i < requests; i++) {
            CompletableFuture<Verdict> verdict = rules.decide(request()).toFuture();
            time.passMillis(100);
            limits.add(limitOf(verdict));
        }
        return limits;
    }

    private static long limitOf(CompletableFuture<Verdict> verdict) {
        assertThat(verdict).isDone();
        return verdict.join().decision().orElseThrow().limits().get(0).limit().permits();
    }

    private static SentRequest request() {
        return SentRequest.get("/").header("X-Api-Key", "ann");
    }
}
