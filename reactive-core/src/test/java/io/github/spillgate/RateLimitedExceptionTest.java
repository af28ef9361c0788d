package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

/** The transformer of a limiter that makes a denial an error, and the retry that waits for it. */
class RateLimitedExceptionTest {

    private final ManualClock clock = new ManualClock();
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(LocalStore.bounded(100, clock))
            .limit(Limit.of(2, Duration.ofSeconds(1)))
            .build();
    private final AtomicInteger runs = new AtomicInteger();
    private final Mono<String> work = Mono.fromSupplier(() -> "run " + runs.incrementAndGet());

    @Test
    void allowedWorkRuns() {
        Mono<String> limited = work.transform(limiter.limited("user:42"));
        assertThat(runs).hasValue(0);
        assertThat(limited.block()).isEqualTo("run 1");
        assertThat(limited.block()).isEqualTo("run 2");
    }

    @Test
    void deniedWorkDoesNotRun() {
        Mono<String> limited = work.transform(limiter.limited(Charge.of("user:42", 2)));
        limited.block();
        StepVerifier.create(limited)
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOfSatisfying(RateLimitedException.class, denied -> {
                            assertThat(denied.decision().isAllowed()).isFalse();
                            assertThat(denied.retryAfter())
                                    .isEqualTo(denied.decision().retryAfter());
                            assertThat(denied).hasMessage("the rate limit is exceeded: 2/1s; retry after 1001 ms");
                            assertThat(denied.getStackTrace()).isEmpty();
                        }));
        assertThat(runs).hasValue(1);
    }

    @Test
    void aCostAboveTheLimitHasNoRetry() {
        StepVerifier.create(work.transform(limiter.limited(Charge.of("user:42", 3)))
                        .retryWhen(RateLimitedException.retry(3, Duration.ofDays(1))))
                .verifyErrorMessage("the rate limit is exceeded: 2/1s");
    }

    @Test
    void aFluxIsLimitedAsAWhole() {
        Flux<Integer> limited = Flux.range(0, 5).transform(limiter.limited("user:42"));
        StepVerifier.create(limited).expectNext(0, 1, 2, 3, 4).verifyComplete();
        StepVerifier.create(limited, 2).expectNext(0, 1).thenCancel().verify();
        StepVerifier.create(limited).verifyError(RateLimitedException.class);
    }

    @Test
    void theSubscriberOfAMonoDoesNotCancelIt() {
        AtomicInteger cancellations = new AtomicInteger();
        Mono<String> source = work.doOnCancel(cancellations::incrementAndGet);
        assertThat(source.transform(limiter.limited("user:42")).block()).isEqualTo("run 1");
        assertThat(cancellations).hasValue(0);
    }

    @Test
    void aRetryWaitsAsLongAsTheDenialSays() {
        limiter.tryAcquire(Charge.of("user:42", 2)).block();
        StepVerifier.withVirtualTime(() -> work.transform(limiter.limited("user:42"))
                        .retryWhen(RateLimitedException.retry(1, Duration.ofSeconds(2))))
                .expectSubscription()
                .expectNoEvent(Duration.ofSeconds(1))
                .then(() -> clock.advance(Duration.ofMillis(1_001)))
                .thenAwait(Duration.ofMillis(1))
                .expectNext("run 1")
                .verifyComplete();
    }

    @Test
    void aRetryDoesNotWaitTooLong() {
        limiter.tryAcquire(Charge.of("user:42", 2)).block();
        StepVerifier.create(work.transform(limiter.limited("user:42"))
                        .retryWhen(RateLimitedException.retry(3, Duration.ofSeconds(1))))
                .verifyError(RateLimitedException.class);
    }

    @Test
    void retriesAreBounded() {
        limiter.tryAcquire(Charge.of("user:42", 2)).block();
        StepVerifier.withVirtualTime(() -> work.transform(limiter.limited("user:42"))
                        .retryWhen(RateLimitedException.retry(2, Duration.ofSeconds(2))))
                .expectSubscription()
                .expectNoEvent(Duration.ofMillis(2_001))
                .thenAwait(Duration.ofMillis(1))
                .verifyError(RateLimitedException.class);
    }

    @Test
    void otherErrorsAreNotRetried() {
        Mono<String> failing = Mono.fromSupplier(() -> {
            throw new IllegalStateException("run " + runs.incrementAndGet());
        });
        StepVerifier.create(failing.transform(limiter.limited("user:42"))
                        .retryWhen(RateLimitedException.retry(2, Duration.ofSeconds(2))))
                .verifyErrorMessage("run 1");
    }

    @Test
    void invalidRetriesAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RateLimitedException.retry(0, Duration.ofSeconds(2)))
                .withMessage("0 retries with a longest wait of PT2S are out of range: expected at least 1 retry, and a"
                        + " positive wait, for example RateLimitedException.retry(3, Duration.ofSeconds(2))");
        assertThatIllegalArgumentException().isThrownBy(() -> RateLimitedException.retry(1, Duration.ZERO));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.limited(new Charge[0]));
    }
}
