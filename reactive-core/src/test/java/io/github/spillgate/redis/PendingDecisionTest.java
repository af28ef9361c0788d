package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import io.github.spillgate.redis.ScriptRequest.Mode;
import io.github.spillgate.spi.StoreDecision;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** What a subscriber gets for each end of its decision. */
class PendingDecisionTest {

    private final LimitStoreException why = new LimitStoreException("Redis is away", null);

    private final List<PendingDecision> sent = new ArrayList<>();
    private final Mono<StoreDecision> decision =
            PendingDecision.of(List.of(), 0, Mode.TAKE, 0, PendingDecision.NO_DEADLINE, sent::add, unused -> {});
    private final RecordingSubscriber subscriber = new RecordingSubscriber();

    @Test
    void nothingIsSentBeforeARequest() {
        decision.subscribe(subscriber);
        assertThat(sent).isEmpty();
        subscriber.subscription.request(1);
        subscriber.subscription.request(1);
        assertThat(sent).hasSize(1);
    }

    @Test
    void aCancellationBeforeTheRequestSendsNothing() {
        decision.subscribe(subscriber);
        subscriber.subscription.cancel();
        subscriber.subscription.request(1);
        assertThat(sent).isEmpty();
    }

    @Test
    void aCancelledDecisionIsNotSent() {
        PendingDecision pending = ask();
        subscriber.subscription.cancel();
        assertThat(pending.markSent()).isFalse();
    }

    @Test
    void aWaitingDecisionIsSentOnce() {
        PendingDecision pending = ask();
        assertThat(pending.markSent()).isTrue();
        assertThat(pending.markSent()).isFalse();
    }

    @Test
    void aDecisionThatIsCancelledInFlightEmitsNothing() {
        PendingDecision pending = ask();
        pending.markSent();
        subscriber.subscription.cancel();
        pending.answer(decision());
        pending.fail(why);
        assertThat(subscriber.signals).isEmpty();
    }

    @Test
    void aDecisionIsAnsweredOnce() {
        PendingDecision pending = ask();
        pending.markSent();
        pending.answer(decision());
        pending.answer(decision());
        pending.fail(why);
        assertThat(subscriber.signals).containsExactly("decision", "end");
    }

    @Test
    void aFailedDecisionEmitsNothingLater() {
        PendingDecision pending = ask();
        pending.fail(why);
        pending.fail(why);
        pending.answer(decision());
        assertThat(subscriber.signals).containsExactly(why);
        assertThat(pending.markSent()).isFalse();
    }

    private PendingDecision ask() {
        decision.subscribe(subscriber);
        subscriber.subscription.request(1);
        return sent.get(0);
    }

    private static StoreDecision decision() {
        return StoreDecision.ofPeek(Source.REDIS, 0, List.of());
    }

    /** A subscriber that records all signals, also those that break the rules of Reactive Streams. */
    private static final class RecordingSubscriber implements CoreSubscriber<StoreDecision> {

        final List<Object> signals = new ArrayList<>();
        Subscription subscription = Operators.emptySubscription();

        @Override
        public void onSubscribe(Subscription subscription) {
            this.subscription = subscription;
        }

        @Override
        public void onNext(StoreDecision decision) {
            signals.add("decision");
        }

        @Override
        public void onComplete() {
            signals.add("end");
        }

        @Override
        public void onError(Throwable error) {
            signals.add(error);
        }
    }
}
