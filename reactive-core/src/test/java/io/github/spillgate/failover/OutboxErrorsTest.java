package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** What throws while a queue runs must not stop it for ever. In real time. */
class OutboxErrorsTest {

    private static final Duration LONG = Duration.ofSeconds(10);

    private volatile boolean fails = true;
    private volatile boolean throwsOnCorrect;
    private volatile boolean throwsOnNode;
    private volatile boolean isForeign;

    private final WithoutDeadline store = new WithoutDeadline(LocalStore.bounded(1_000)) {
        @Override
        protected <T> Mono<T> around(Mono<T> operation) {
            return fails ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail")) : operation;
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            if (isForeign) {
                throwsOnNode = true;
                return Mono.just(Collections.nCopies(
                        corrections.size(), Corrected.of(Corrected.CorrectionOutcome.NOT_POSSIBLE)));
            }
            if (throwsOnCorrect) {
                throw new NoClassDefFoundError("told to fail");
            }
            return super.correct(corrections);
        }

        @Override
        public String node(List<Claim> claims) {
            if (throwsOnNode) {
                throw new IllegalStateException("told to fail");
            }
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

    @Test
    void grantsAreChargedAlthoughTheStoreCouldNotNameTheNodeOfAForeignValue() {
        try (ResilientStore resilient = ResilientStore.builder(store).build()) {
            RateLimiter limiter = on(resilient);
            isForeign = true;
            limiter.tryAcquire("a").block(LONG);
            fails = false;
            await().atMost(LONG).until(() -> throwsOnNode);
            isForeign = false;
            throwsOnNode = false;
            await().atMost(LONG)
                    .untilAsserted(
                            () -> assertThat(limiter.state().toReconcile()).isZero());
        }
    }

    @Test
    void aCostIsSettledAlthoughTheStoreCannotNameANode() {
        try (ResilientStore resilient = ResilientStore.builder(store).build()) {
            RateLimiter limiter = on(resilient);
            fails = false;
            Decision decision = limiter.tryAcquire("a").block(LONG);
            throwsOnNode = true;
            limiter.settle(decision, 5).block(LONG);
            throwsOnNode = false;
            await().atMost(LONG)
                    .untilAsserted(
                            () -> assertThat(limiter.peek("a").block(LONG).remaining())
                                    .isEqualTo(5));
        }
    }

    private static RateLimiter on(ResilientStore resilient) {
        return RateLimiter.builder("api")
                .store(resilient)
                .limit(Limit.perHour(10))
                .build();
    }
}
