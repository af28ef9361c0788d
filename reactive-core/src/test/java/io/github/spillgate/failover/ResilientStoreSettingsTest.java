package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The ranges of the settings, and settings that contradict each other. */
class ResilientStoreSettingsTest extends ResilientStoreFixture {

    @Test
    void aStoreThatNeedsNoDeadlineIsRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ResilientStore.of(local))
                .withMessageContaining("has a deadline of its own")
                .withMessageContaining("RedisStore.create(redisClient)");
        RateLimiter limiter = on(local);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.NONE);
    }

    @Test
    void aFallbackOnLimiterAndStoreIsRejected() {
        RateLimiterBuilder builder = RateLimiter.builder("api")
                .store(ResilientStore.of(remote))
                .fallback(local)
                .limit(LIMIT);
        assertThatIllegalStateException()
                .isThrownBy(builder::build)
                .withMessageContaining("limiter api has a fallback, a deadline or cached denials")
                .withMessageContaining("ResilientStore.builder(redisStore)");
    }

    @Test
    void aLimiterSharesTheBreakerAndTheFallbackOfAnother() {
        RateLimiter first = limiter(LIMIT);
        RateLimiterBuilder second = RateLimiter.builder("second").storeOf(first).limit(LIMIT);
        RateLimiter limiter = second.build();
        open(first);
        assertThat(limiter.state()).isEqualTo(first.state());
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(first.peek("a")).limits().get(0).used())
                .as("they have counts of their own")
                .isZero();
        limiter.close();
        assertThat(now(first.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThatIllegalStateException()
                .isThrownBy(second.deadline(Duration.ofMillis(50))::build)
                .withMessageContaining("limiter second has a fallback, a deadline or cached denials");
    }

    @Test
    void aLocalFallbackServesOneStoreOnly() {
        ResilientStore.builder(remote).fallback(local).build();
        for (LimitStore store : List.of(remote, new ControlledStore(time))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(
                            () -> ResilientStore.builder(store).fallback(local).build())
                    .withMessageContaining("already in use for ControlledStore")
                    .withMessageContaining("one ResilientStore that several limiters share");
        }
    }

    @Test
    void valuesOutOfRangeAreRejected() {
        ResilientStore.Builder builder = ResilientStore.builder(remote);
        for (Duration wrong : List.of(Duration.ZERO, Duration.ofMillis(-1), Duration.ofMinutes(2))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> builder.deadline(wrong))
                    .withMessageContaining(wrong.toString())
                    .withMessageContaining("100 ms");
        }
        for (int wrong : List.of(0, -1, 1_000_001)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> builder.maxInFlight(wrong))
                    .withMessageContaining(Integer.toString(wrong));
        }
        for (double wrong : List.of(0.0, -0.1, 1.1, Double.NaN)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> local.share(wrong))
                    .withMessageContaining(Double.toString(wrong))
                    .withMessageContaining("0.25");
        }
    }

    /** Also if the store has no use for it: a wrong setting must not wait for the day on which there is a Redis. */
    @Test
    void aLimiterChecksItsDeadlineWhateverItsStore() {
        RateLimiterBuilder limiter = RateLimiter.builder("x").store(LocalStore.bounded(16));
        for (Duration wrong : List.of(Duration.ZERO, Duration.ofNanos(50_000), Duration.ofSeconds(61))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> limiter.deadline(wrong))
                    .withMessage("deadline " + wrong + " is out of range: expected at least 1 ms and at most a minute,"
                            + " for example 100 ms");
        }
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.cacheDenials(Duration.ofSeconds(-1)))
                .withMessageContaining("cacheDenials PT-1S is out of range");
    }

    @Test
    void theSmallestAndLargestValuesAreAccepted() {
        Duration minute = Duration.ofMinutes(1);
        ResilientStore store = ResilientStore.builder(remote)
                .cacheDenials(Duration.ZERO)
                .cacheDenials(minute)
                .maxInFlight(1_000_000)
                .maxInFlight(1)
                .deadline(Duration.ofMillis(1))
                .deadline(minute)
                .build();
        assertThat(store.deadline()).hasValue(minute);
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(1);
    }
}
