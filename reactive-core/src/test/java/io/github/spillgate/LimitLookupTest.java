package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.LimitLookup.Otherwise;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.VirtualTime;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;
import reactor.util.context.Context;

/** Lookups of limits by key, in virtual time. */
class LimitLookupTest {

    private static final Limit FREE = Limit.perMinute(2);
    private static final Limit GOLD = Limit.perMinute(5);
    private static final Limit OWN = Limit.perMinute(3);

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final LocalStore store = LocalStore.bounded(100, time);
    private final List<String> asked = new ArrayList<>();
    private final Map<String, Mono<List<Limit>>> plans = Map.of(
            "free", Mono.just(List.of(FREE)),
            "gold", Mono.just(List.of(GOLD, Limit.perHour(100))),
            "slow", Mono.delay(Duration.ofMillis(40)).thenReturn(List.of(GOLD)),
            "none", Mono.just(List.of()),
            "failing", Mono.error(new IllegalArgumentException("no database")),
            "hanging", Mono.never(),
            "clashing", Mono.just(List.of(FREE, GOLD)));

    @Test
    void everyKeyHasItsLookedUpLimits() {
        RateLimiter limiter = limiter(lookup());
        assertThat(limiter.tryAcquire(Charge.of("free", 2)).block().limits())
                .extracting(Decision.Usage::limit)
                .containsExactly(FREE);
        Decision denied = limiter.tryAcquire("free").block();
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.violated()).containsExactly(FREE);
        assertThat(limiter.tryAcquire(Charge.of("gold", 5)).block().limits()).hasSize(2);
        assertThat(limiter.tryAcquire("gold").block().violated()).containsExactly(GOLD);
    }

    @Test
    void eachDecisionLooksUpOnceWhenItIsSubscribedTo() {
        RateLimiter limiter = limiter(lookup());
        Mono<Decision> decision = limiter.tryAcquire("free");
        assertThat(asked).isEmpty();
        decision.block();
        decision.block();
        assertThat(asked).containsExactly("free", "free");
    }

    @Test
    void chargesWithLimitsOfTheirOwnAreNotLookedUp() {
        RateLimiter limiter = limiter(lookup());
        Decision decision = limiter.tryAcquire(
                        Charge.of("ip", Limit.perSecond(7)), Charge.of("free"), Charge.of("gold"), Charge.of("free"))
                .block();
        assertThat(asked).containsExactlyInAnyOrder("free", "gold");
        assertThat(decision.limits())
                .extracting(Decision.Usage::limit)
                .containsExactly(Limit.perSecond(7), FREE, GOLD, Limit.perHour(100));
        assertThat(decision.limits().get(1).used()).isEqualTo(2);
    }

    @Test
    void theLimiterLimitsApplyIfALookupIsEmptyFailsOrTimesOut() {
        RateLimiter limiter = limiter(lookup());
        for (String key : List.of("none", "unknown", "failing", "throwing", "returning null", "clashing")) {
            assertThat(limiter.tryAcquire(key).block().limits())
                    .as(key)
                    .extracting(Decision.Usage::limit)
                    .containsExactly(OWN);
        }
        StepVerifier.create(limiter.tryAcquire("hanging"))
                .expectSubscription()
                .then(() -> time.passMillis(49))
                .expectNoEvent(Duration.ZERO)
                .then(() -> time.passMillis(1))
                .assertNext(
                        decision -> assertThat(decision.limits().get(0).limit()).isEqualTo(OWN))
                .verifyComplete();
    }

    @Test
    void anExceptionOfTheFunctionIsAFailure() {
        for (Throwable thrown : List.of(new IOException("no database"), new AssertionError("no sense"))) {
            RateLimiter limiter = limiter(LimitLookup.of(key -> {
                LimitLookupTest.<RuntimeException>sneak(thrown);
                return Mono.<List<Limit>>empty();
            }));
            assertThat(limiter.tryAcquire("a").block().limits().get(0).limit()).isEqualTo(OWN);
        }
    }

    @Test
    void anyPositiveTimeoutIsValid() {
        RateLimiter limiter = limiter(LimitLookup.of(key -> Mono.fromCallable(() -> List.of(FREE)))
                .timeout(Duration.ofSeconds(Long.MAX_VALUE)));
        assertThat(limiter.tryAcquire("a").block().limits().get(0).limit()).isEqualTo(FREE);
    }

    @Test
    void aLookupWithinItsTimeoutIsUsed() {
        RateLimiter limiter = limiter(lookup());
        StepVerifier.create(limiter.tryAcquire("slow"))
                .expectSubscription()
                .then(() -> time.passMillis(40))
                .assertNext(
                        decision -> assertThat(decision.limits().get(0).limit()).isEqualTo(GOLD))
                .verifyComplete();
        RateLimiter impatient = limiter(lookup().timeout(Duration.ofMillis(39)).whenTimedOut(Otherwise.limits(FREE)));
        StepVerifier.create(impatient.tryAcquire("slow"))
                .expectSubscription()
                .then(() -> time.passMillis(39))
                .assertNext(
                        decision -> assertThat(decision.limits().get(0).limit()).isEqualTo(FREE))
                .verifyComplete();
    }

    @Test
    void aLookupThatHangsIsCancelled() {
        List<String> events = new ArrayList<>();
        RateLimiter limiter =
                limiter(LimitLookup.of(key -> Mono.<List<Limit>>never().doOnCancel(() -> events.add("cancelled"))));
        limiter.tryAcquire("a").subscribe(decision -> events.add("decided"));
        time.passMillis(50);
        assertThat(events).containsExactlyInAnyOrder("cancelled", "decided");
        limiter.tryAcquire("a").subscribe().dispose();
        assertThat(events).hasSize(3);
    }

    @Test
    void emptyFailedAndTimedOutLookupsHaveSettings() {
        RateLimiter limiter = RateLimiter.builder("test")
                .store(store)
                .clock(time)
                .lookup(lookup().whenEmpty(Otherwise.allow())
                        .whenFailed(Otherwise.deny())
                        .whenTimedOut(Otherwise.fail()))
                .build();
        Decision allowed = limiter.tryAcquire(Charge.of("none", 1_000_000)).block();
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isFalse();
        assertThat(allowed.source()).isEqualTo(Source.LIMITER);
        assertThat(allowed.limits()).isEmpty();
        assertThat(allowed.remaining()).isEqualTo(Long.MAX_VALUE);
        assertThat(allowed.retryAfter()).isEmpty();
        assertThat(allowed.at()).isEqualTo(time.instant());
        limiter.refund(allowed).block();

        Decision denied = limiter.tryAcquire("failing").block();
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).isEmpty();
        assertThat(denied.violated()).isEmpty();
        assertThat(denied.remaining()).isZero();
        assertThat(denied.toString()).startsWith("Decision[denied, source=LIMITER");

        StepVerifier.create(limiter.tryAcquire("hanging"))
                .expectSubscription()
                .then(() -> time.passMillis(50))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(LimitLookupException.class)
                        .hasMessage(
                                "the lookup of a key's limits took more than PT0.05S: expected limits, or a setting for"
                                        + " that case, for example Otherwise.limits(Limit.perMinute(60))"));
    }

    @Test
    void aFailureIsTheCauseOfTheError() {
        RateLimiter limiter = limiter(lookup().whenFailed(Otherwise.fail()).whenEmpty(Otherwise.fail()));
        StepVerifier.create(limiter.tryAcquire("failing"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(LimitLookupException.class)
                        .hasRootCauseMessage("no database"));
        StepVerifier.create(limiter.tryAcquire("none"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(LimitLookupException.class)
                        .hasMessageContaining("found nothing")
                        .hasNoCause());
        StepVerifier.create(limiter.tryAcquire("returning null"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .hasRootCauseMessage(
                                "the lookup has returned null: expected a Mono, for example Mono.empty()"));
    }

    @Test
    void aLookupThatDeniesOneChargeDeniesAll() {
        RateLimiter limiter = limiter(lookup().whenEmpty(Otherwise.allow()).whenFailed(Otherwise.deny()));
        assertThat(limiter.tryAcquire(Charge.of("free"), Charge.of("failing"))
                        .block()
                        .isAllowed())
                .isFalse();
        Decision decision =
                limiter.tryAcquire(Charge.of("free"), Charge.of("none")).block();
        assertThat(decision.limits())
                .singleElement()
                .satisfies(usage -> assertThat(usage.used()).isEqualTo(1));
    }

    @Test
    void everythingElseIsUnderTheSameLimits() {
        RateLimiter limiter = limiter(lookup().whenEmpty(Otherwise.allow()));
        limiter.tryAcquire(Charge.of("gold", 4)).block();
        assertThat(limiter.peek("gold").block().remaining()).isEqualTo(1);
        limiter.refund(Charge.of("gold", 2)).block();
        assertThat(limiter.peek("gold").block().remaining()).isEqualTo(3);
        limiter.reset("gold").block();
        assertThat(limiter.peek("gold").block().remaining()).isEqualTo(5);
        limiter.refund(Charge.of("none", 2)).block();
        limiter.reset("none").block();
        assertThat(limiter.peek("none").block().isAllowed()).isTrue();
        assertThat(limiter.acquire("none", Duration.ZERO).block().isAllowed()).isTrue();
    }

    @Test
    void waitersAndStreamsUseTheirLookedUpLimits() {
        RateLimiter limiter = limiter(lookup());
        List<String> served = new ArrayList<>();
        limiter.tryAcquire(Charge.of("free", 2)).block();
        limiter.acquire("free", Duration.ofHours(1)).subscribe(decision -> served.add("free"));
        limiter.acquire("gold", Duration.ofHours(1)).subscribe(decision -> served.add("gold"));
        assertThat(served).containsExactly("gold");
        time.passMillis(60_001);
        assertThat(served).containsExactly("gold", "free");

        List<Integer> out = new ArrayList<>();
        Flux.range(0, 12).transform(limiter.throttle("slow")).subscribe(out::add);
        time.passMillis(40 * 5);
        assertThat(out).containsExactly(0, 1, 2, 3, 4);
        time.pass(Duration.ofMinutes(5));
        assertThat(out).containsExactlyElementsOf(IntStream.range(0, 12).boxed().toList());
        assertThat(limiter.queues().size()).isZero();
    }

    @Test
    void theContextOfTheSubscriberReachesTheLookup() {
        List<String> seen = new ArrayList<>();
        RateLimiter limiter = limiter(LimitLookup.of(key -> Mono.deferContextual(context -> {
            seen.add(context.get("tenant"));
            return Mono.just(List.of(FREE));
        })));
        limiter.tryAcquire("a").contextWrite(Context.of("tenant", "t-7")).block();
        assertThat(seen).containsExactly("t-7");
    }

    @Test
    void aClosedLimiterLooksNothingUp() {
        RateLimiter limiter = limiter(lookup());
        limiter.close();
        StepVerifier.create(limiter.tryAcquire("free")).verifyError(IllegalStateException.class);
        assertThat(asked).isEmpty();
    }

    @Test
    void invalidArgumentsAreRejected() {
        RateLimiter limiter = limiter(lookup());
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.tryAcquire(""));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.tryAcquire(new Charge[0]));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.tryAcquire(IntStream.range(0, 17)
                        .mapToObj(i -> Charge.of("key-" + i))
                        .toArray(Charge[]::new)))
                .withMessageContaining("more than 16 counts");
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.refund(Charge.of("a", 0)));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> lookup().timeout(Duration.ZERO))
                .withMessage("timeout PT0S leaves no time: expected more than zero, for example Duration.ofMillis(20)");
        assertThatIllegalArgumentException().isThrownBy(Otherwise::limits).withMessageContaining("Otherwise.allow()");
        assertThatIllegalArgumentException().isThrownBy(() -> Otherwise.limits(FREE, GOLD));
        assertThatNullPointerException()
                .isThrownBy(() -> Otherwise.limits(FREE, null))
                .withMessageStartingWith("one of the limits is null: expected one, for example ");
        assertThatNullPointerException().isThrownBy(() -> LimitLookup.of(null));
        assertThatNullPointerException().isThrownBy(() -> lookup().whenEmpty(null));
        assertThatNullPointerException()
                .isThrownBy(() -> RateLimiter.builder("a").lookup(null));
    }

    @Test
    void aLookupThatFallsBackToTheLimiterNeedsLimits() {
        RateLimiterBuilder builder = RateLimiter.builder("test").store(store);
        LimitLookup strict = lookup().whenEmpty(Otherwise.deny())
                .whenFailed(Otherwise.fail())
                .whenTimedOut(Otherwise.limits(FREE));
        assertThatIllegalStateException()
                .isThrownBy(() -> builder.lookup(lookup()).build())
                .withMessageContaining("limiter test has no limit for lookups that find nothing, fail or hang")
                .withMessageContaining(".whenEmpty(Otherwise.deny())");
        assertThat(builder.lookup(strict).build().limits()).isEmpty();
        assertThat(strict)
                .hasToString("LimitLookup[timeout=PT0.05S, whenEmpty=DENY, whenFailed=FAIL, whenTimedOut=[2/1m]]");
        Mono<Decision> clash = RateLimiter.builder("test")
                .store(store)
                .lookup(strict)
                .build()
                .tryAcquire(Charge.of("free"), Charge.of("free", GOLD));
        StepVerifier.create(clash).verifyError(IllegalArgumentException.class);
    }

    /** Throws a checked exception, as a function in Kotlin may. */
    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
    private static <E extends Throwable> void sneak(Throwable thrown) throws E {
        throw (E) thrown;
    }

    private LimitLookup lookup() {
        Function<String, Mono<? extends Collection<Limit>>> find = key -> {
            asked.add(key);
            if (key.equals("throwing")) {
                throw new IllegalStateException("broken");
            }
            return key.equals("returning null") ? null : plans.getOrDefault(key, Mono.empty());
        };
        return LimitLookup.of(find);
    }

    private RateLimiter limiter(LimitLookup lookup) {
        return RateLimiter.builder("test")
                .store(store)
                .limit(OWN)
                .lookup(lookup)
                .clock(time)
                .build();
    }
}
