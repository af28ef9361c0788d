package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ManualClock;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/** When it is decided, and what of it the subscriber hears. */
class LocalDecisionMonoTest {

    private final ManualClock time = new ManualClock();
    private Runnable duringTheDecision = () -> {};
    private final LocalStore store = LocalStore.bounded(100, new InstantSource() {
        @Override
        public Instant instant() {
            duringTheDecision.run();
            return time.instant();
        }
    });
    private final RateLimiter limiter =
            RateLimiter.builder("test").store(store).limit(Limit.perHour(10)).build();
    private final List<Claim> claims = limiter.peek("a").block().limits().stream()
            .map(usage -> ((StoreUsage) usage).claim().withPermits(1))
            .toList();

    @Test
    void theDecisionIsMadeOnceOnTheFirstRequest() {
        Caller caller = subscribed();
        assertThat(used()).isZero();
        caller.subscription.request(1);
        caller.subscription.request(1);
        assertThat(caller.signals).containsExactly("true", "complete");
        assertThat(used()).isEqualTo(1);
    }

    @Test
    void noRequestOrACancelledSubscriptionChargesNothing() {
        Caller nothing = subscribed();
        nothing.subscription.request(0);
        Caller gone = subscribed();
        gone.subscription.cancel();
        gone.subscription.request(1);
        assertThat(nothing.signals).isEmpty();
        assertThat(gone.signals).isEmpty();
        assertThat(used()).isZero();
    }

    @Test
    void aCancelDuringTheDecisionDiscardsIt() {
        Caller caller = subscribed();
        duringTheDecision = () -> caller.subscription.cancel();
        caller.subscription.request(1);
        assertThat(caller.signals).isEmpty();
        assertThat(caller.discarded).hasSize(1);
        assertThat(used()).isEqualTo(1);
    }

    @Test
    void anErrorOfTheClockIsSignalledOrDroppedAfterACancel() {
        Caller caller = subscribed();
        duringTheDecision = () -> {
            throw new IllegalStateException("no clock");
        };
        caller.subscription.request(1);
        assertThat(caller.signals).containsExactly("no clock");

        Caller gone = subscribed();
        duringTheDecision = () -> {
            gone.subscription.cancel();
            throw new IllegalStateException("no clock");
        };
        List<String> dropped = new ArrayList<>();
        Hooks.onErrorDropped(error -> dropped.add(error.getMessage()));
        try {
            gone.subscription.request(1);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(gone.signals).isEmpty();
        assertThat(dropped).containsExactly("no clock");
    }

    private Caller subscribed() {
        Caller caller = new Caller();
        store.take(StoreRequest.take(claims)).subscribe(caller);
        return caller;
    }

    private long used() {
        duringTheDecision = () -> {};
        return limiter.peek("a").block().limits().get(0).used();
    }

    private static final class Caller implements CoreSubscriber<Decision> {

        private final List<String> signals = new ArrayList<>();
        private final List<Object> discarded = new ArrayList<>();
        private Subscription subscription = Operators.emptySubscription();

        @Override
        public Context currentContext() {
            return Operators.enableOnDiscard(null, discarded::add);
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            this.subscription = subscription;
        }

        @Override
        public void onNext(Decision decision) {
            signals.add("" + decision.isAllowed());
        }

        @Override
        public void onError(Throwable error) {
            signals.add(error.getMessage());
        }

        @Override
        public void onComplete() {
            signals.add("complete");
        }
    }
}
