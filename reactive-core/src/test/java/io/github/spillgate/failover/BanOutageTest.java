package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Bans of two instances while Redis is down, and after it has lost its data. */
class BanOutageTest {

    private static final Limit RATE = Limit.perMinute(2);
    private static final Limit.Ban BAN = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final Instance first = new Instance();
    private final Instance second = new Instance();

    @BeforeEach
    void connect() {
        for (Instance instance : List.of(first, second)) {
            instance.limiter.ready().block();
        }
    }

    @AfterEach
    void close() {
        first.close();
        second.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    private void stop() {
        redis.pause();
        await().until(() -> first.ask("probe").source() == Source.LOCAL
                && second.ask("probe").source() == Source.LOCAL);
    }

    private void start() {
        redis.resume();
        await().until(() -> first.ask("probe2").source() == Source.REDIS);
    }

    @Test
    void aBanThatAnInstanceHasSeenHoldsDuringAnOutage() {
        first.deny("k", 3);
        second.ask("k");
        stop();
        for (Instance instance : List.of(first, second)) {
            await().until(() -> instance.ask("k").source() == Source.LOCAL);
            Decision denied = instance.ask("k");
            assertThat(denied.violated()).contains(BAN);
            assertThat(denied.retryAfter().get()).isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
            assertThat(instance.ask("other").isAllowed()).isTrue();
        }
        start();
        assertThat(second.ask("k").violated()).contains(BAN);
    }

    /** Other denials are not, because they count for the ban. */
    @Test
    void aDenialByABanIsCached() {
        first.limiter.tryAcquire(Charge.of("k").permits(2)).block();
        for (int i = 0; i < 4; i++) {
            assertThat(first.ask("k").source()).isEqualTo(Source.REDIS);
        }
        assertThat(first.ask("k").source()).isEqualTo(Source.CACHED_DENIAL);
        assertThat(first.ask("k").violated()).contains(BAN);
        first.limiter.pardon("k").block();
        assertThat(first.ask("k").violated()).containsExactly(RATE);
    }

    @Test
    void aBanOfTheFallbackIsHandedOver() {
        stop();
        first.deny("k", 3);
        assertThat(first.ask("k").violated()).contains(BAN);
        start();
        await().until(() -> second.isBanned("k"));
        assertThat(second.ask("k").retryAfter().get()).isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
        await().until(() -> first.limiter.state().toReconcile() == 0);
        assertThat(first.ask("k").violated()).contains(BAN);
    }

    @Test
    void aCallDuringAnOutageBansHereAtOnceAndElsewhereAfterIt() {
        stop();
        first.limiter.ban("k", Duration.ofMinutes(7)).block();
        first.limiter.pause("p", Duration.ofMinutes(7)).block();
        assertThat(first.ask("k").violated()).contains(BAN);
        assertThat(first.ask("p").violated()).containsExactly(Limit.pausable());
        start();
        await().until(() -> second.isBanned("k") && second.isBanned("p"));
        assertThat(second.ask("k").retryAfter().get()).isBetween(Duration.ofMinutes(6), Duration.ofMinutes(7));
    }

    @Test
    void aBanIsRestoredIfRedisHasLostIt() {
        first.deny("k", 3);
        first.ask("k");
        client.connect().sync().flushall();
        // A cached denial asks no store.
        await().until(() -> !first.ask("k").isAllowed() && second.isBanned("k"));
        assertThat(second.ask("k").retryAfter().get()).isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
        assertThat(first.isBanned("k")).isTrue();
    }

    @Test
    void aPardonOfAnotherInstanceIsNoLossOfData() {
        first.deny("k", 3);
        first.ask("k");
        second.limiter.reset("k").block();
        await().until(() -> first.ask("k").isAllowed());
        await().until(() -> first.limiter.state().toReconcile() == 0);
        assertThat(second.isBanned("k")).isFalse();
        assertThat(first.isBanned("k")).isFalse();
    }

    /** A limit that counts denied requests gets them during a ban too. */
    @Test
    void aDenialThatAnotherLimitCountsIsNotCached() {
        Limit counting = Limit.of(100, Duration.ofMinutes(15)).countingDenied();
        Charge charge = Charge.of("k", counting, BAN);
        first.limiter.ban(charge, Duration.ofHours(1)).block();
        for (int i = 0; i < 5; i++) {
            first.limiter.tryAcquire(charge).block();
        }
        assertThat(second.limiter.peek(charge).block().limits().get(0).used()).isEqualTo(5);
    }

    @Test
    void aDenialThatTheBanOfAnotherChargeCountsIsNotCached() {
        Limit other = BAN.named("other");
        Charge banned = Charge.of("k", Limit.perMinute(9), BAN);
        Charge denied = Charge.of("k", Limit.perHour(1), other);
        first.limiter.tryAcquire(denied).block();
        first.limiter.ban(banned, Duration.ofHours(1)).block();
        for (int i = 0; i < 4; i++) {
            first.limiter.tryAcquire(banned, denied).block();
        }
        assertThat(second.limiter.peek(denied).block().violated()).contains(other);
    }

    @Test
    void aBanThatIsNotMadeIsAnError() {
        for (LimitStore fallback : List.of(Fallback.allow(), Fallback.deny(), Fallback.error())) {
            try (RedisStore store = RedisStore.create(client);
                    ResilientStore resilient =
                            ResilientStore.builder(store).fallback(fallback).build()) {
                RateLimiter limiter = RateLimiter.builder("api")
                        .store(resilient)
                        .limit(RATE)
                        .limit(BAN)
                        .build();
                limiter.ready().block();
                limiter.ban("k", Duration.ofHours(1)).block();
                redis.pause();
                assertThatThrownBy(() -> limiter.ban("k", Duration.ofHours(2)).block())
                        .isInstanceOf(LimitStoreException.class);
                redis.resume();
            }
        }
    }

    @Test
    void aBanInPlaceOfAForeignValueIsMadeHere() {
        first.limiter.ban("k", Duration.ofHours(1)).block();
        try (var connection = client.connect()) {
            String key = connection.sync().keys("*{k}*").stream()
                    .filter(name -> !name.contains("!") && connection.sync().strlen(name) == 24)
                    .findFirst()
                    .orElseThrow();
            connection.sync().set(key.replace("{k}", "{other}"), "of another program");
        }
        first.limiter.ban("other", Duration.ofHours(1)).block();
        assertThat(first.ask("other").violated()).contains(BAN);
    }

    @Test
    void aBanByACallHoldsDuringAnOutageWithoutARequestBefore() {
        first.limiter.ban("k", Duration.ofHours(1)).block();
        stop();
        assertThat(first.ask("k").violated()).contains(BAN);
    }

    private final class Instance {

        private final RedisStore store = RedisStore.create(client);
        private final RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .limit(RATE)
                .limit(BAN)
                .limit(Limit.pausable())
                .build();

        Decision ask(String key) {
            return limiter.tryAcquire(key).block();
        }

        void deny(String key, int times) {
            for (int denials = 0; denials < times; ) {
                denials += ask(key).isAllowed() ? 0 : 1;
            }
        }

        boolean isBanned(String key) {
            Decision decision = limiter.peek(key).block();
            return decision.source() == Source.REDIS
                    && decision.violated().stream().anyMatch(limit -> !limit.takesPermits());
        }

        void close() {
            limiter.close();
            store.close();
        }
    }
}
