package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Bans and pauses in each store, by the clock of the store. */
class BanStoresTest extends ScriptedFixture {

    private static final Limit RATE = Limit.perMinute(2);
    private static final Limit.Ban BAN = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));
    private static final long HOUR = 3_600_000;

    private RateLimiter limiter(String kind, Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("ban").store(new Unprotected(stored(kind)));
        for (Limit limit : limits) {
            builder.limit(limit);
        }
        return builder.build();
    }

    private static Decision ask(RateLimiter limiter, String key) {
        return limiter.tryAcquire(key).block();
    }

    /** Takes all permits, and is then denied so many times. */
    private static void denied(RateLimiter limiter, String key, int times) {
        int denials = 0;
        while (denials < times) {
            denials += ask(limiter, key).isAllowed() ? 0 : 1;
        }
    }

    private static boolean isBanned(RateLimiter limiter, String key) {
        return limiter.peek(key).block().violated().stream().anyMatch(limit -> !limit.takesPermits());
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void theThirdDenialBansTheKeyForAnHour(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        ask(limiter, "k");
        ask(limiter, "k");
        assertThat(ask(limiter, "k").retryAfter())
                .hasValueSatisfying(wait -> assertThat(wait).isLessThan(Duration.ofMinutes(2)));
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isFalse();
        Decision third = ask(limiter, "k");
        assertThat(third.violated()).containsExactly(RATE);
        assertThat(third.retryAfter()).contains(Duration.ofHours(1));
        pass(HOUR - 1);
        Decision late = ask(limiter, "k");
        assertThat(late.violated()).containsExactly(BAN);
        assertThat(late.retryAfter()).contains(Duration.ofMillis(1));
        assertThat(late.remaining()).isZero();
        pass(1);
        assertThat(ask(limiter, "k").isAllowed()).isTrue();
        assertThat(ask(limiter, "other").isAllowed()).isTrue();
    }

    /** No window of ten minutes has three, wherever it begins. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void denialsAreCountedInAnyWindow(String kind) {
        RateLimiter limiter = limiter(kind, Limit.perDay(1), BAN);
        ask(limiter, "k");
        ask(limiter, "k");
        pass(599_000);
        ask(limiter, "k");
        pass(1_000);
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isFalse();
        pass(598_999);
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isTrue();
    }

    /** While a store keeps the value, only a change forgets denials: all must know the same ones. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aDenialOutsideTheWindowCountsIfTheClockIsSetBack(String kind) {
        RateLimiter limiter = limiter(kind, Limit.perDay(1), Limit.ban(Duration.ofHours(1), 2, Duration.ofMinutes(10)));
        ask(limiter, "k");
        ask(limiter, "k");
        pass(600_000);
        limiter.peek("k").block();
        pass(-1_000);
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aPeekADenialByTheBanAndADenialOfAnotherKeyDoNotCount(String kind) {
        Limit.Ban twice = Limit.ban(Duration.ofSeconds(5), 2, Duration.ofMinutes(10));
        RateLimiter limiter = limiter(kind, Limit.perDay(1), twice);
        ask(limiter, "k");
        ask(limiter, "k");
        for (int i = 0; i < 5; i++) {
            limiter.peek("k").block();
            limiter.tryAcquire(Charge.of("k"), Charge.of("free")).block();
            limiter.pardon("k").block();
        }
        assertThat(isBanned(limiter, "free")).isFalse();
        ask(limiter, "k");
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isTrue();
        for (int i = 0; i < 5; i++) {
            ask(limiter, "k");
        }
        pass(5_000);
        assertThat(isBanned(limiter, "k")).isFalse();
        ask(limiter, "k");
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    /** Two rules by address are two charges on one key. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aDenialCountsForTheBanOfItsOwnChargeOnly(String kind) {
        RateLimiter limiter = limiter(kind);
        Limit.Ban once = Limit.ban(Duration.ofHours(1), 1, Duration.ofMinutes(1));
        Charge wide = Charge.of("k", Limit.perMinute(9), once.named("wide"));
        Charge login = Charge.of("k", Limit.perHour(1), once.named("login"));
        for (int i = 0; i < 2; i++) {
            limiter.tryAcquire(wide, login).block();
        }
        assertThat(limiter.peek(wide, login).block().violated()).containsExactly(Limit.perHour(1), once.named("login"));
        // With a limit in common they are one.
        Charge both = Charge.of("k", Limit.perHour(2), once.named("both"));
        Charge other = Charge.of("k", Limit.perHour(2), Limit.perMinute(9), once.named("other"));
        limiter.tryAcquire(both, other).block();
        assertThat(limiter.peek(both, other).block().violated())
                .containsExactly(Limit.perHour(2), once.named("both"), once.named("other"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void bansGrowUpToADayAndBeginAgainAfterADay(String kind) {
        Limit.Ban growing =
                Limit.ban(Duration.ofHours(5), 1, Duration.ofMinutes(1)).growing();
        RateLimiter limiter = limiter(kind, Limit.of(1, Duration.ofDays(60)), growing);
        ask(limiter, "k");
        for (int hours : new int[] {5, 10, 20, 24, 24}) {
            assertThat(ask(limiter, "k").violated()).doesNotContain(growing);
            pass(hours * HOUR - 1);
            assertThat(isBanned(limiter, "k")).as("%d hours", hours).isTrue();
            pass(1);
            assertThat(isBanned(limiter, "k")).as("%d hours", hours).isFalse();
        }
        pass(24 * HOUR);
        ask(limiter, "k");
        pass(5 * HOUR);
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aCallBansPausesAndPardons(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN, Limit.pausable());
        limiter.ban("k", Duration.ofMinutes(3)).block();
        Decision banned = ask(limiter, "k");
        assertThat(banned.violated()).containsExactly(BAN);
        assertThat(banned.retryAfter().get()).isBetween(Duration.ofSeconds(179), Duration.ofMinutes(3));
        assertThat(banned.limits().get(0).used()).isZero();
        limiter.pause("k", Duration.ofMinutes(9)).block();
        limiter.pause("k", Duration.ofMinutes(1)).block();
        Decision both = ask(limiter, "k");
        assertThat(both.violated()).containsExactly(BAN, Limit.pausable());
        assertThat(both.retryAfter().get()).isBetween(Duration.ofSeconds(539), Duration.ofMinutes(9));
        limiter.pardon("k").block();
        assertThat(ask(limiter, "k").isAllowed()).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aResetPardons(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        denied(limiter, "k", 3);
        assertThat(isBanned(limiter, "k")).isTrue();
        limiter.reset("k").block();
        assertThat(ask(limiter, "k").isAllowed()).isTrue();
        denied(limiter, "k", 2);
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aBanLastsNoLongerIfTheClockIsSetBack(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        denied(limiter, "k", 3);
        pass(-10 * HOUR);
        assertThat(ask(limiter, "k").retryAfter().get()).isLessThanOrEqualTo(Duration.ofHours(1));
        pass(HOUR);
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aBanIsNeitherRefundedNorSettled(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        Decision taken = ask(limiter, "k");
        limiter.settle(taken, 2).block();
        assertThat(isBanned(limiter, "k")).isFalse();
        limiter.ban("k", Duration.ofMinutes(1)).block();
        limiter.refund(taken).block();
        limiter.refund(Charge.of("k").permits(2)).block();
        assertThat(isBanned(limiter, "k")).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void manyCallersAtOnceAreCountedExactly(String kind) {
        Limit.Ban ban = Limit.ban(Duration.ofHours(1), 40, Duration.ofMinutes(10));
        RateLimiter limiter = limiter(kind, RATE, ban);
        List<Decision> all = Flux.range(0, 64)
                .flatMap(i -> limiter.tryAcquire("k"), 64)
                .collectList()
                .block();
        assertThat(all.stream().filter(Decision::isAllowed)).hasSize(2);
        assertThat(all.stream().filter(decision -> decision.violated().equals(List.of(RATE))))
                .hasSize(40);
        assertThat(all.stream().filter(decision -> decision.violated().contains(ban)))
                .hasSize(22);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aCallNeedsALimitForItAndATimeInRange(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        assertThatThrownBy(() -> limiter.pause("k", Duration.ofMinutes(1)).block())
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("limiter ban cannot pause this key: expected a limit for that, for example"
                        + " Limit.pausable()");
        for (Duration time : List.of(Duration.ZERO, Duration.ofMillis(-1), Duration.ofDays(2))) {
            assertThatThrownBy(() -> limiter.ban("k", time).block())
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining(time + " is out of range: expected 1 ms to PT24H");
        }
        assertThat(ask(limiter, "k").isAllowed()).isTrue();
    }

    /** Calls of several threads are sent on several connections. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void ofTwoCallsTheLaterEndCountsInEitherOrder(String kind) {
        List<Mono<?>> calls = new ArrayList<>();
        LimitStore late = new Unprotected(stored(kind)) {
            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                calls.add(0, super.correct(corrections));
                return Mono.never();
            }
        };
        RateLimiter limiter =
                RateLimiter.builder("ban").store(late).limit(RATE).limit(BAN).build();
        limiter.ban("k", Duration.ofHours(9)).subscribe();
        limiter.ban("k", Duration.ofHours(1)).subscribe();
        Flux.concat(calls).blockLast();
        assertThat(ask(limiter, "k").retryAfter().get()).isGreaterThan(Duration.ofHours(8));
    }

    /** Another caller takes the permit between the attempts of the one that waits. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aCallerThatWaitsIsNotStruck(String kind) {
        RateLimiter other = limiter(kind, Limit.perMinute(1), BAN);
        LimitStore raced = new Unprotected(stored(kind)) {
            @Override
            public Mono<StoreDecision> take(StoreRequest request) {
                Mono<StoreDecision> decision = super.take(request);
                return request.mode() == StoreRequest.Mode.PEEK
                        ? decision.delayUntil(peeked -> other.tryAcquire("k"))
                        : other.tryAcquire("k").then(decision);
            }
        };
        RateLimiter waiting = RateLimiter.builder("ban")
                .store(raced)
                .limit(Limit.perMinute(1))
                .limit(Limit.ban(Duration.ofHours(1), 1, Duration.ofMinutes(10)))
                .build();
        assertThat(waiting.acquire("k", Duration.ZERO).block().isAllowed()).isFalse();
        assertThat(isBanned(other, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void chargesWithLimitsInCommonAreOne(String kind) {
        RateLimiter limiter = limiter(kind);
        Limit first = Limit.perHour(2).named("first");
        Limit second = Limit.perHour(9).named("second");
        Limit.Ban once = Limit.ban(Duration.ofHours(1), 1, Duration.ofMinutes(1));
        Charge[] charges = {Charge.of("k", first), Charge.of("k", second), Charge.of("k", first, second, once)};
        limiter.tryAcquire(charges).block();
        limiter.tryAcquire(charges).block();
        assertThat(limiter.peek(charges).block().violated()).containsExactly(first, once);
    }

    @ParameterizedTest
    @ValueSource(strings = {"lua", "values"})
    void aBanThatIsHandedOverAfterALaterPardonDoesNotCount(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        Claim claim = DecidedClaims.of(limiter.peek("k").block()).get(1);
        Grants before = new Grants(clock.millis(), clock.millis(), HOUR);
        pass(1);
        limiter.pardon("k").block();
        Grants after = new Grants(clock.millis(), clock.millis(), HOUR);
        pass(1);
        for (Grants ban : List.of(before, after)) {
            stored(kind)
                    .correct(List.of(Reconciliation.of("other", 1, claim, List.of(ban), List.of(), clock)))
                    .block();
            assertThat(isBanned(limiter, "k")).isEqualTo(ban.equals(after));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aBanAfterAPardonCountsIfTheClockIsSetBackInBetween(String kind) {
        RateLimiter limiter = limiter(kind, RATE, BAN);
        ask(limiter, "k");
        limiter.pardon("k").block();
        pass(-HOUR);
        limiter.ban("k", Duration.ofMinutes(5)).block();
        assertThat(isBanned(limiter, "k")).isTrue();
    }

    /** The clock was ahead for a while. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void denialsInTheFutureCountForOneWindow(String kind) {
        RateLimiter limiter = limiter(kind, Limit.perDay(1), BAN);
        ask(limiter, "k");
        denied(limiter, "k", 2);
        pass(-10 * HOUR);
        limiter.peek("k").block();
        pass(HOUR);
        denied(limiter, "k", 1);
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aBanAfterAPardonIsAFirstOne(String kind) {
        Limit.Ban growing =
                Limit.ban(Duration.ofHours(5), 1, Duration.ofMinutes(1)).growing();
        RateLimiter limiter = limiter(kind, Limit.of(1, Duration.ofDays(60)), growing);
        denied(limiter, "k", 1);
        limiter.pardon("k").block();
        denied(limiter, "k", 1);
        pass(5 * HOUR);
        assertThat(isBanned(limiter, "k")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aBanGrowsUntilADayAfterTheLastOne(String kind) {
        Limit.Ban growing =
                Limit.ban(Duration.ofHours(5), 1, Duration.ofMinutes(1)).growing();
        RateLimiter limiter = limiter(kind, Limit.of(1, Duration.ofDays(60)), growing);
        denied(limiter, "k", 1);
        pass(29 * HOUR - 1);
        denied(limiter, "k", 1);
        pass(10 * HOUR - 1);
        assertThat(isBanned(limiter, "k")).isTrue();
    }
}
