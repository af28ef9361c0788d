package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.InterceptedScheduler;
import io.github.spillgate.testkit.StoreForTests;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.test.StepVerifier;

/** Permits that are lost before the work could begin. */
class LostHoldTest {

    /** The decision took longer than the hold time, and the timer runs before the work is subscribed to. */
    @Test
    void workDoesNotRunWithoutItsPermit() {
        try (InterceptedScheduler scheduler = new InterceptedScheduler()) {
            LocalStore store = LocalStore.bounded(100);
            Sinks.Empty<Void> reply = Sinks.empty();
            RateLimiter limiter = RateLimiter.builder("test")
                    .store(StoreForTests.taking(store, claims -> reply.asMono().then(store.take(claims))))
                    .limit(Limit.concurrent(1))
                    .build();
            AtomicInteger runs = new AtomicInteger();
            StepVerifier.create(limiter.whileHolding("a", Mono.fromSupplier(runs::incrementAndGet)))
                    .then(() -> {
                        scheduler.passMillis(60_000);
                        scheduler.runNextTimerAtOnce();
                        reply.tryEmitEmpty();
                    })
                    .verifyError(HoldExpiredException.class);
            assertThat(runs).hasValue(0);
            assertThat(limiter.peek("a").block().remaining()).isEqualTo(1);
        }
    }
}
