package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What throws while a queue runs must not stop it for ever. In real time. */
class OutboxErrorsTest {

    private static final Duration LONG = Duration.ofSeconds(10);

    private volatile boolean fails = true;
    private volatile boolean throwsOnCorrect;

    private final WithoutDeadline store = new WithoutDeadline(LocalStore.bounded(1_000)) {
        @Override
        protected <T> Mono<T> around(Mono<T> operation) {
            return fails ? Mono.error(new LimitStoreUnavailableException("told to fail", null)) : operation;
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            if (throwsOnCorrect) {
                throw new NoClassDefFoundError("told to fail");
            }
            return super.correct(corrections);
        }

        @Override
        public String node(List<Claim> claims) {
            return claims.isEmpty() ? "" : claims.get(0).key();
        }
    };

    @Test
    void aQueueGoesOnAfterASettingOfTheBreakerHasThrown() {
        boolean[] isBroken = {false};
        try (ResilientStore resilient = ResilientStore.builder(store)
                .breaker(settings -> {
                    if (isBroken[0]) {
                        throw new IllegalStateException("broken");
                    }
                    return settings;
                })
                .build()) {
            RateLimiter limiter = on(resilient);
            isBroken[0] = true;
            limiter.tryAcquire("a").block(LONG);
            await().pollDelay(Duration.ofMillis(200)).until(() -> true);
            isBroken[0] = false;
            fails = false;
            await().atMost(LONG)
                    .untilAsserted(
                            () -> assertThat(limiter.state().toReconcile()).isZero());
        }
    }

    @Test
    void aQueueGoesOnAfterALinkageError() {
        try (ResilientStore resilient =
                ResilientStore.builder(store).maxInFlight(10).build()) {
            RateLimiter limiter = on(resilient);
            throwsOnCorrect = true;
            limiter.tryAcquire("a").block(LONG);
            await().pollDelay(Duration.ofMillis(200)).until(() -> true);
            throwsOnCorrect = false;
            fails = false;
            await().atMost(LONG)
                    .untilAsserted(
                            () -> assertThat(limiter.state().toReconcile()).isZero());
            assertThat(resilient.failover().gates().to("a").freeCapacity()).isEqualTo(10);
        }
    }

    private static RateLimiter on(ResilientStore resilient) {
        return RateLimiter.builder("api")
                .store(resilient)
                .limit(Limit.perHour(10))
                .build();
    }
}
