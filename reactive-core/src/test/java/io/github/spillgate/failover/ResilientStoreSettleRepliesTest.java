package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The server executes a settlement and its reply is lost, so the same settlement is sent again. */
class ResilientStoreSettleRepliesTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @Test
    void aSettlementCountsOnceIfItsReplyIsLost() {
        try (RedisForTests redis = RedisForTests.startOwn();
                BadNetwork network = new BadNetwork(redis.uri().getPort());
                RedisStore store = RedisStore.create(network.uri());
                RateLimiter limiter = RateLimiter.builder("api")
                        .store(store)
                        .deadline(Duration.ofSeconds(10))
                        .limit(Limit.perHour(100))
                        .build()) {
            limiter.ready().retry(3).block(PATIENCE);
            for (int i = 0; i < 12; i++) {
                String key = "lost-" + i;
                Decision decision = limiter.tryAcquire(Charge.of(key, 3)).block();
                assertThat(decision.source()).isEqualTo(Source.REDIS);
                network.loseNextReply();
                long actual = i % 2 == 0 ? 5 : 1;
                limiter.settle(decision, actual).block(PATIENCE);
                assertThat(network.hasLostReply()).isTrue();
                // It may take a moment until Redis decides again.
                await().atMost(PATIENCE)
                        .until(() -> limiter.peek(key).block().source() == Source.REDIS
                                && limiter.state().breaker() == Breaker.CLOSED);
                assertThat(limiter.peek(key).block().limits().get(0).used()).isEqualTo(actual);
            }
            assertThat(limiter.state().lostSettlements()).isZero();
        }
    }
}
