package io.github.spillgate.internal;

import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

class BackgroundTest {

    /** A limiter may live longer than a test of the application: Spring caches the contexts of tests. */
    @Test
    void aTestInVirtualTimeDoesNotEndTheTimersOfRealTime() {
        AtomicInteger ticks = new AtomicInteger();
        Disposable timer =
                Background.scheduler().schedulePeriodically(ticks::incrementAndGet, 0, 10, TimeUnit.MILLISECONDS);
        try {
            StepVerifier.withVirtualTime(() -> Mono.delay(Duration.ofHours(1), Background.scheduler()))
                    .thenAwait(Duration.ofHours(1))
                    .expectNext(0L)
                    .verifyComplete();
            int before = ticks.get();
            await().atMost(Duration.ofSeconds(5)).until(() -> ticks.get() > before);
        } finally {
            timer.dispose();
        }
    }
}
