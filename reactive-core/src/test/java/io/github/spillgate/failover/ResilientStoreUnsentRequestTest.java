package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RemoteSubscription;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Requests that wait in the store for others, until it replies late, or drops them because they are late. */
class ResilientStoreUnsentRequestTest extends ResilientStoreFixture {

    /** So many failures open the breaker, if there are not as many successes. */
    private static final int FEWEST_CALLS = 10;

    private static final Duration DEADLINE = Duration.ofMillis(100);

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

    @Test
    void requestsThatAreDroppedAtTheDeadlineAreNoFailures() {
        waiting.dropAfter(DEADLINE);
        for (int i = 0; i < 2 * FEWEST_CALLS; i++) {
            listen(limiter.tryAcquire("key" + i));
        }
        awaitFallback(2 * FEWEST_CALLS);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    /** Otherwise a store that decides nothing by the deadline would seem to decide. */
    @Test
    void lateRepliesOfAStoreThatIsNotSilentAreNeitherFailuresNorDecisions() {
        waiting.replyAfter(DEADLINE.plusMillis(50));
        for (int i = 0; i < 2 * FEWEST_CALLS; i++) {
            listen(limiter.peek("key"));
            time.passMillis(100);
        }
        assertThat(sources()).hasSize(2 * FEWEST_CALLS).containsOnly(Source.LOCAL);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().isFallbackActive()).isTrue();
    }

    /** Until a probe is judged, the breaker permits no other one. */
    @Test
    void aProbeWithoutAReplyByTheDeadlineFailsEvenIfTheStoreIsNotSilent() {
        requestAll(FEWEST_CALLS);
        time.passMillis(1_400);
        waiting.replyAfter(DEADLINE.plusMillis(50));
        for (int i = 0; i < 3; i++) {
            listen(limiter.peek("key"));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.HALF_OPEN);
        awaitFallback(3);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    /** Requests that are sent, and never answered. */
    private void requestAll(int number) {
        waiting.isSilent = true;
        waiting.ending = request -> Mono.never();
        for (int i = 0; i < number; i++) {
            listen(limiter.tryAcquire("key" + i));
        }
        awaitFallback(number);
    }

    /** Requests of callers that have waited elsewhere before. Their deadline passes before they are sent. */
    private void requestEarly(int number) {
        waiting.dropAfter(Duration.ofMillis(30));
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

    /** A store that ends all requests in the same way. */
    private static final class Waiting extends Unprotected {

        private final LimitStore store;
        private Function<StoreRequest, Mono<StoreDecision>> ending = request -> Mono.never();
        private boolean isSilent;

        Waiting(LimitStore store) {
            super(store);
            this.store = store;
        }

        void dropAfter(Duration time) {
            isSilent = true;
            ending = request -> Mono.delay(time).then(Mono.error(() -> new LimitStoreException(Kind.LATE, "not sent")));
        }

        void replyAfter(Duration time) {
            isSilent = false;
            ending = request -> Mono.delay(time).then(store.take(request));
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }

        @Override
        public Mono<StoreDecision> take(StoreRequest request) {
            return new Mono<>() {
                @Override
                public void subscribe(CoreSubscriber<? super StoreDecision> caller) {
                    caller.onSubscribe(new WaitingRequest(caller, ending.apply(request), isSilent));
                }
            };
        }
    }

    private record WaitingRequest(
            CoreSubscriber<? super StoreDecision> caller, Mono<StoreDecision> ending, boolean isServerSilent)
            implements RemoteSubscription {

        @Override
        public void request(long n) {
            ending.subscribe(caller::onNext, caller::onError, caller::onComplete);
        }

        @Override
        public void cancel() {}

        @Override
        public void askIfSilent(long time, TimeUnit unit, Consumer<Boolean> isSilent) {
            isSilent.accept(isServerSilent);
        }
    }
}
