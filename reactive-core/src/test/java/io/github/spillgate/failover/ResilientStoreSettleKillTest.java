package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Each settlement counts once while connections are killed and replies are lost. */
class ResilientStoreSettleKillTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int DECISIONS = 400;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final RedisClient watching = RedisClient.create(redis.uri());
    private final RedisClient client = RedisClient.create(network.uri());
    private final RedisStore store = RedisStore.create(client);
    private RateLimiter limiter;
    private RateLimiter observer;

    @BeforeEach
    void connect() {
        limiter = limiter(store, Duration.ofSeconds(10));
        observer = limiter(RedisStore.create(watching), Duration.ofSeconds(30));
        limiter.ready().retry(3).block(PATIENCE);
    }

    private static RateLimiter limiter(RedisStore store, Duration deadline) {
        return RateLimiter.builder("api")
                .store(store)
                .deadline(deadline)
                .limit(Limit.of(100, Duration.ofHours(1)))
                .build();
    }

    @AfterEach
    void close() {
        limiter.close();
        observer.close();
        store.closeLater().block();
        client.shutdown(0, 2, TimeUnit.SECONDS);
        watching.shutdown(0, 2, TimeUnit.SECONDS);
        network.close();
        redis.close();
    }

    @Test
    void eachSettlementCountsOnceIfConnectionsAreKilled() {
        List<Decision> decisions = take();
        try (StatefulRedisConnection<String, String> killer = watching.connect()) {
            Flux<Long> kills = Flux.interval(Duration.ofMillis(3))
                    .onBackpressureDrop()
                    .concatMap(time -> killer.reactive()
                            .clientKill(KillArgs.Builder.typeNormal().skipme(true)));
            settle(decisions).subscribe();
            kills.take(Duration.ofSeconds(2)).blockLast();
        }
        awaitSettled();
    }

    /** The server executes the settlement and its reply is lost, so the same settlement is sent again. */
    @Test
    void aSettlementCountsOnceIfItsReplyIsLost() {
        for (int i = 0; i < 12; i++) {
            String key = "lost-" + i;
            Decision decision = takeInRedis(key);
            network.loseNextReply();
            long actual = i % 2 == 0 ? 5 : 1;
            limiter.settle(decision, actual).block(PATIENCE);
            assertThat(network.hasLostReply()).isTrue();
            assertThat(used(key)).as(key).isEqualTo(actual);
        }
        assertThat(limiter.state().lostSettlements()).isZero();
    }

    /** After a lost reply it may take a moment until Redis decides again. */
    private Decision takeInRedis(String key) {
        await().atMost(PATIENCE)
                .until(() -> limiter.peek("any").block().source() == Source.REDIS
                        && limiter.state().breaker() == Breaker.CLOSED);
        Decision decision = limiter.tryAcquire(key, 3).block();
        assertThat(decision.source()).isEqualTo(Source.REDIS);
        return decision;
    }

    private List<Decision> take() {
        List<Decision> decisions = new ArrayList<>();
        for (int i = 0; i < DECISIONS; i++) {
            Decision decision = limiter.tryAcquire("key-" + i, 3).block();
            assertThat(decision.source()).isEqualTo(Source.REDIS);
            decisions.add(decision);
        }
        return decisions;
    }

    /** Every second one costs more than was charged, the others less. */
    private Mono<Void> settle(List<Decision> decisions) {
        return Flux.range(0, DECISIONS)
                .delayElements(Duration.ofMillis(3))
                .flatMap(i -> limiter.settle(decisions.get(i), i % 2 == 0 ? 5 : 1), DECISIONS)
                .then();
    }

    private void awaitSettled() {
        for (int i = 0; i < DECISIONS; i++) {
            String key = "key-" + i;
            long expected = i % 2 == 0 ? 5 : 1;
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(used(key)).as(key).isEqualTo(expected));
        }
        await().atMost(PATIENCE).until(() -> limiter.state().toReconcile() == 0);
        limiter.closeLater().block();
        for (int i = 0; i < DECISIONS; i++) {
            assertThat(used("key-" + i)).as("key-" + i).isEqualTo(i % 2 == 0 ? 5 : 1);
        }
        assertThat(limiter.state().lostSettlements()).isZero();
    }

    private long used(String key) {
        Decision decision = observer.peek(key).block();
        assertThat(decision.source()).isEqualTo(Source.REDIS);
        return decision.limits().get(0).used();
    }
}
