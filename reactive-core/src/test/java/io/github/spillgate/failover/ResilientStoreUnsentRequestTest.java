package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RemoteSubscription;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Requests that wait in the store for others, until the store drops them because their deadline has passed. */
class ResilientStoreUnsentRequestTest extends ResilientStoreFixture {

    /** So many failures open the breaker, if there are not as many successes. */
    private static final int FEWEST_CALLS = 10;

    private final Waiting waiting = new Waiting(remote);
    private final RateLimiter limiter =
            on(ResilientStore.builder(waiting).fallback(local).build());

    @Test
    void requestsThatWereNotSentAreNoFailuresAndNoSuccesses() {
        requestEarly(2 * FEWEST_CALLS);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        requestAll(FEWEST_CALLS - 1);
        requestEarly(2 * FEWEST_CALLS);
        requestAll(1);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    /** Requests that are sent, and never answered. */
    private void requestAll(int number) {
        waiting.isDropping = false;
        for (int i = 0; i < number; i++) {
            listen(limiter.tryAcquire("key" + i));
        }
        awaitFallback(number);
    }

    /** Requests of callers that have waited elsewhere before. Their deadline passes before they are sent. */
    private void requestEarly(int number) {
        waiting.isDropping = true;
        long since = Schedulers.parallel().now(TimeUnit.NANOSECONDS) - TimeUnit.MILLISECONDS.toNanos(80);
        for (int i = 0; i < number; i++) {
            listen(limiter.tryAcquire("key" + i).contextWrite(context -> context.put(LimitStore.WAITING_SINCE, since)));
        }
        awaitFallback(number);
    }

    private void awaitFallback(int number) {
        time.passMillis(101);
        assertThat(sources()).hasSize(number).containsOnly(Source.LOCAL);
        signals.clear();
    }

    /** A store that replies to nothing, and may drop each request after 30 ms. */
    private static final class Waiting extends Unprotected {

        private boolean isDropping;

        Waiting(LimitStore store) {
            super(store);
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return new Mono<>() {
                @Override
                public void subscribe(CoreSubscriber<? super StoreDecision> caller) {
                    caller.onSubscribe(new WaitingRequest(caller, isDropping));
                }
            };
        }
    }

    private record WaitingRequest(CoreSubscriber<? super StoreDecision> caller, boolean isDropped)
            implements RemoteSubscription {

        @Override
        public void request(long n) {
            Mono.delay(Duration.ofMillis(30))
                    .filter(passed -> isDropped)
                    .subscribe(passed -> caller.onError(new LimitStoreDeadlineException("not sent")));
        }

        @Override
        public void cancel() {}

        @Override
        public void ifSilentFor(long time, TimeUnit unit, Runnable task) {
            task.run();
        }
    }
}
