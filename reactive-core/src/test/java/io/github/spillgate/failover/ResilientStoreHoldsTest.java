package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.WithoutDeadline;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** Permits of a concurrency limit while Redis stands still, and after it has lost its data. */
class ResilientStoreHoldsTest {

    private static final Limit TWO = Limit.concurrent(2);
    private static final Duration LONG = Duration.ofSeconds(30);

    /** Redis decides while it runs, however busy the machine is. */
    private static final Duration DEADLINE = Duration.ofSeconds(1);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<AutoCloseable> toClose = new ArrayList<>();
    private final Queue<String> events = new ConcurrentLinkedQueue<>();
    private final RedisStore direct = RedisStore.create(redis.uri());

    @AfterEach
    void close() throws Exception {
        redis.resume();
        for (AutoCloseable one : toClose) {
            one.close();
        }
        direct.close();
        redis.close();
    }

    @Test
    void redisIsToldOfHoldsThatTheFallbackGranted() {
        RateLimiter limiter = limiter(TWO, Fallback.local(100));
        redis.pause();
        Decision decision = acquireWithoutRedis(limiter);
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().toReconcile()).isEqualTo(1);
        redis.resume();
        untilRedisCounts(1, TWO);
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);

        limiter.release(decision).block();
        untilRedisCounts(0, TWO);
    }

    @Test
    void redisIsNotToldOfHoldsThatEndDuringTheOutage() {
        RateLimiter limiter = limiter(TWO, Fallback.local(100));
        redis.pause();
        Decision decision = acquireWithoutRedis(limiter);
        limiter.release(decision).block();
        assertThat(limiter.state().toReconcile()).isZero();
        redis.resume();
        await().atMost(LONG).untilAsserted(() -> {
            assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.REDIS);
        });
    }

    @Test
    void releasesDuringAnOutageAreDeliveredAfterIt() {
        RateLimiter limiter = limiter(TWO.hold(Duration.ofHours(1)), Fallback.local(100));
        Decision first = limiter.tryAcquire("a").block();
        Decision second = limiter.tryAcquire("a").block();
        assertThat(second.source()).isEqualTo(Source.REDIS);
        redis.pause();
        limiter.release(first).block();
        limiter.refund(second).block();
        redis.resume();
        untilRedisCounts(0, TWO);
    }

    /** A single instance has a share of 1. */
    @Test
    void duringAnOutageTheHoldsThatRedisKnowsCount() {
        RateLimiter limiter = limiter(TWO, Fallback.local(100));
        Decision first = limiter.tryAcquire("a").block();
        assertThat(first.source()).isEqualTo(Source.REDIS);
        redis.pause();
        assertThat(acquireWithoutRedis(limiter).isAllowed()).isTrue();
        Decision denied = acquireWithoutRedis(limiter);
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.source()).isEqualTo(Source.LOCAL);
        limiter.release(first).block();
        assertThat(acquireWithoutRedis(limiter).isAllowed()).isTrue();
    }

    @Test
    void anInstanceKeepsToItsShareAndHasAtLeastOnePermit() {
        RateLimiter half = limiter(Limit.concurrent(4), Fallback.local(100).share(0.5));
        RateLimiter least = limiter(Limit.concurrent(4), Fallback.local(100).share(0.01));
        assertThat(half.tryAcquire("a").block().source()).isEqualTo(Source.REDIS);
        redis.pause();
        // One more, because it holds one already.
        assertThat(acquireWithoutRedis(half).isAllowed()).isTrue();
        assertThat(acquireWithoutRedis(half).isAllowed()).isFalse();
        assertThat(acquireWithoutRedis(least).isAllowed()).isTrue();
        assertThat(acquireWithoutRedis(least).isAllowed()).isFalse();
    }

    @Test
    void workKeepsItsPermitDuringAnOutageThatIsLongerThanTheHoldTime() {
        Limit limit = TWO.hold(Duration.ofSeconds(3));
        RateLimiter limiter = limiter(limit, Fallback.local(100), Duration.ofMillis(100));
        Disposable work = hold(limiter);
        untilRedisCounts(1, limit);
        redis.pause();
        Mono.delay(Duration.ofSeconds(5)).block();
        assertThat(events).isEmpty();
        assertThat(limiter.tryAcquire(Charge.of("a", 2)).block().isAllowed()).isFalse();
        redis.resume();
        untilRedisCounts(1, limit);
        assertThat(events).isEmpty();
        work.dispose();
        untilRedisCounts(0, limit);
    }

    @Test
    void withoutAFallbackWorkEndsWhenItsPermitMayBelongToOthers() {
        RateLimiter limiter = limiter(TWO.hold(Duration.ofSeconds(4)), Fallback.error());
        hold(limiter);
        await().atMost(LONG).until(() -> limiter.holders() == 1);
        redis.pause();
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(events)
                        .as("%d holders, %s", limiter.holders(), limiter.state())
                        .containsExactly(HoldExpiredException.class.getSimpleName()));
        redis.resume();
        untilRedisCounts(0, TWO);
    }

    @Test
    void holdsAreRestoredAfterALossOfData() {
        Limit limit = TWO.hold(Duration.ofSeconds(3));
        RateLimiter limiter = limiter(limit, Fallback.local(100));
        hold(limiter);
        untilRedisCounts(1, limit);
        RedisClient client = RedisClient.create(redis.uri());
        toClose.add(() -> client.shutdown(Duration.ZERO, Duration.ofSeconds(2)));
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            connection.sync().flushall();
        }
        untilRedisCounts(0, limit);
        untilRedisCounts(1, limit);
        assertThat(events).isEmpty();
    }

    /** The caller was answered otherwise, so nothing else would release them. */
    @Test
    void aGrantOfRedisThatArrivesLateIsReleased() {
        for (LimitStore fallback : List.of(Fallback.deny(), Fallback.local(100).share(0.5))) {
            LateStore late = new LateStore(direct);
            RateLimiter limiter = limiterOn(late, Duration.ofMillis(50), fallback, TWO);
            assertThat(limiter.tryAcquire(Charge.of("a", 2)).block().isAllowed())
                    .isFalse();
            untilRedisCounts(2, TWO);
            late.reply();
            untilRedisCounts(0, TWO);
        }
    }

    /** Its decision has no claims, so the caller cannot release them. */
    @Test
    void aLateGrantForARequestThatWasAllowedWithoutAChargeIsReleased() {
        LateStore late = new LateStore(direct);
        RateLimiter limiter = limiterOn(late, Duration.ofMillis(50), Fallback.allow(), TWO.hold(Duration.ofHours(1)));
        assertThat(limiter.whileHolding("a", Mono.just("done")).block()).isEqualTo("done");
        untilRedisCounts(1, TWO);
        late.reply();
        untilRedisCounts(0, TWO);
    }

    /** The release would overtake a request that waits. */
    @Test
    void permitsOfACancelledRequestAreReleasedAfterIt() {
        LateStore late = new LateStore(direct);
        RateLimiter limiter =
                limiterOn(late, Duration.ofSeconds(20), Fallback.local(100), TWO.hold(Duration.ofHours(1)));
        limiter.tryAcquire(Charge.of("a", 2)).subscribe().dispose();
        untilRedisCounts(2, TWO);
        late.reply();
        untilRedisCounts(0, TWO);

        RateLimiter plain = RateLimiter.builder("api")
                .store(new Unprotected(direct))
                .limit(TWO.hold(Duration.ofHours(1)))
                .build();
        Queue<Decision> delivered = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 100; i++) {
            // A subscriber of Reactor drops what it gets while it is disposed of.
            plain.tryAcquire("a").subscribe(new Cancelling(delivered));
        }
        // On a busy machine, Redis may reply before the request is cancelled.
        await().atMost(LONG).pollInterval(Duration.ofMillis(5)).untilAsserted(() -> {
            for (Decision decision = delivered.poll(); decision != null; decision = delivered.poll()) {
                plain.release(decision).block(LONG);
            }
            assertThat(used(TWO)).isZero();
        });
        assertThat(plain.tryAcquire(Charge.of("a", 2)).block().isAllowed()).isTrue();
    }

    /** Both have granted it, under one id. */
    @Test
    void aGrantOfBothStoresHoldsItsPermitsOnce() {
        LateStore late = new LateStore(direct);
        RateLimiter limiter = limiterOn(late, Duration.ofMillis(50), Fallback.local(100), TWO);
        Decision decision = limiter.tryAcquire("a").block();
        assertThat(decision.source()).isEqualTo(Source.LOCAL);
        untilRedisCounts(1, TWO);
        late.reply();
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
        assertThat(used(TWO)).isEqualTo(1);
        limiter.release(decision).block();
        untilRedisCounts(0, TWO);
    }

    private RateLimiter limiter(Limit limit, LimitStore fallback) {
        return limiter(limit, fallback, DEADLINE);
    }

    private RateLimiter limiter(Limit limit, LimitStore fallback, Duration deadline) {
        RedisStore store = RedisStore.create(redis.uri());
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(fallback)
                .deadline(deadline)
                .limit(limit)
                .build();
        toClose.add(limiter);
        toClose.add(store);
        LimiterForTests.awaitReady(limiter);
        return limiter;
    }

    private RateLimiter limiterOn(LateStore late, Duration deadline, LimitStore fallback, Limit limit) {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(late)
                .deadline(deadline)
                .fallback(fallback)
                .limit(limit)
                .build();
        toClose.add(limiter);
        return limiter;
    }

    private static Decision acquireWithoutRedis(RateLimiter limiter) {
        return LimiterForTests.almostLate(limiter.tryAcquire("a"), DEADLINE).block();
    }

    private Disposable hold(RateLimiter limiter) {
        return limiter.whileHolding("a", Mono.never())
                .subscribe(null, error -> events.add(error.getClass().getSimpleName()));
    }

    private void untilRedisCounts(long permits, Limit limit) {
        await().atMost(LONG)
                .pollInterval(Duration.ofMillis(5))
                .untilAsserted(() -> assertThat(used(limit)).isEqualTo(permits));
    }

    private long used(Limit limit) {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Unprotected(direct))
                .limit(limit)
                .build();
        return limiter.peek("a").block().limits().get(0).used();
    }

    /** A store with decisions that arrive after the deadline. */
    private static final class LateStore extends WithoutDeadline {

        private final Sinks.Empty<Void> replies = Sinks.empty();

        LateStore(LimitStore store) {
            super(store);
        }

        void reply() {
            replies.tryEmitEmpty();
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return super.take(claims).delayUntil(decision -> replies.asMono());
        }
    }

    /** Cancels at once, and keeps what it gets nevertheless. */
    private record Cancelling(Queue<Decision> delivered) implements CoreSubscriber<Decision> {

        @Override
        public void onSubscribe(Subscription s) {
            s.request(1);
            s.cancel();
        }

        @Override
        public void onNext(Decision decision) {
            delivered.add(decision);
        }

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onComplete() {}
    }
}
