package io.github.spillgate.examples.benchmark;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.bucket4j.Bucket;
import io.github.bucket4j.TimeMeter;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;

/** The code of docs/migration.md, and its statement that a bucket is that of Bucket4j. */
final class MigrationTest {

    private static final String KEY = "user:42";

    private final AtomicLong nanos = new AtomicLong();
    private final LocalStore store = LocalStore.bounded(16, () -> Instant.ofEpochMilli(nanos.get() / 1_000_000));

    /** Takes the whole bucket, and then one permit whenever one has returned. A window denies a part of these. */
    @ParameterizedTest
    @CsvSource({"10, 10", "10, 20", "3, 5", "7, 30"})
    void aSteadyClientOfBucket4jKeepsAllItsRequests(long rate, long capacity) {
        Bucket bucket = Bucket.builder()
                .withCustomTimePrecision(new TimeMeter() {
                    @Override
                    public long currentTimeNanos() {
                        return nanos.get();
                    }

                    @Override
                    public boolean isWallClockBased() {
                        return false;
                    }
                })
                .addLimit(limit -> limit.capacity(capacity).refillGreedy(rate, Duration.ofSeconds(1)))
                .build();
        RateLimiter ours = limiter("bucket", Limit.perSecond(rate).burst(capacity));
        RateLimiter window = limiter("window", Limit.perSecond(rate));
        for (int i = 0; i < capacity; i++) {
            assertThat(bucket.tryConsume(1)).isTrue();
            assertThat(isAllowed(ours)).isTrue();
            isAllowed(window);
        }
        assertThat(isAllowed(ours)).isEqualTo(bucket.tryConsume(1)).isFalse();
        int keptByWindow = 0;
        for (int i = 0; i < 60; i++) {
            // In whole milliseconds, rounded up: the time at which a permit has returned.
            nanos.set((((i + 1) * 1_000L + rate - 1) / rate) * 1_000_000);
            assertThat(bucket.tryConsume(1)).isTrue();
            assertThat(isAllowed(ours)).isTrue();
            keptByWindow += isAllowed(window) ? 1 : 0;
        }
        assertThat(keptByWindow).isLessThan(60);
    }

    @Test
    void theOldLimiterDecidesInTheShadowPhase() {
        List<String> compared = new ArrayList<>();
        RateLimiter limiter = limiter("shadow", Limit.perHour(10));
        for (int i = 0; i < 12; i++) {
            assertThat(both(
                                    Mono.just(true),
                                    limiter,
                                    KEY,
                                    (old, decision) -> compared.add(old + " " + decision.isAllowed()))
                            .block())
                    .isTrue();
        }
        assertThat(compared.subList(0, 10)).containsOnly("true true");
        assertThat(compared.subList(10, 12)).containsOnly("true false");
    }

    @ParameterizedTest
    @CsvSource({"true", "false"})
    void theOldLimiterDecidesIfTheNewOneFails(boolean old) {
        RateLimiter closed = limiter("closed", Limit.perHour(10));
        closed.close();
        assertThat(both(Mono.just(old), closed, KEY, (allowed, decision) -> {}).block())
                .isEqualTo(old);
    }

    private RateLimiter limiter(String name, Limit limit) {
        return RateLimiter.builder(name).store(store).limit(limit).build();
    }

    private static boolean isAllowed(RateLimiter limiter) {
        return limiter.tryAcquire(KEY).map(Decision::isAllowed).block();
    }

    /** The old limiter decides. The new one decides too, and the results are compared. */
    static Mono<Boolean> both(
            Mono<Boolean> old, RateLimiter limiter, String key, BiConsumer<Boolean, Decision> compare) {
        return old.flatMap(allowed -> limiter.tryAcquire(key)
                .doOnNext(decision -> compare.accept(allowed, decision))
                .thenReturn(allowed)
                .onErrorReturn(allowed));
    }
}
