package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.test.subscriber.TestSubscriber;

/** What a subscriber gets for each end of its decision. */
class PendingDecisionTest {

    private final LimitStoreException why = new LimitStoreException(Kind.REJECTED, "Redis is away");

    private final List<PendingDecision> sent = new ArrayList<>();
    private final Mono<StoreDecision> decision =
            PendingDecision.of(StoreRequest.take(List.of()), 0, sent::add, unused -> {});
    private final TestSubscriber<StoreDecision> subscriber =
            TestSubscriber.builder().initialRequest(0).build();

    @Test
    void nothingIsSentBeforeARequest() {
        decision.subscribe(subscriber);
        assertThat(sent).isEmpty();
        subscriber.request(1);
        subscriber.request(1);
        assertThat(sent).hasSize(1);
    }

    @Test
    void aCancellationBeforeTheRequestSendsNothing() {
        decision.subscribe(subscriber);
        subscriber.cancel();
        subscriber.request(1);
        assertThat(sent).isEmpty();
    }

    @Test
    void aCancelledDecisionIsNotSent() {
        PendingDecision pending = ask();
        subscriber.cancel();
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
        subscriber.cancel();
        pending.answer(decision());
        pending.fail(why);
        assertThat(subscriber.getReceivedOnNext()).isEmpty();
        assertThat(subscriber.getReceivedOnNextAfterCancellation()).isEmpty();
        assertThat(subscriber.isTerminated()).isFalse();
    }

    @Test
    void aDecisionIsAnsweredOnce() {
        PendingDecision pending = ask();
        pending.markSent();
        pending.answer(decision());
        pending.answer(decision());
        pending.fail(why);
        assertThat(subscriber.getReceivedOnNext()).hasSize(1);
        assertThat(subscriber.isTerminatedComplete()).isTrue();
        assertThat(subscriber.getProtocolErrors()).isEmpty();
    }

    @Test
    void aFailedDecisionEmitsNothingLater() {
        PendingDecision pending = ask();
        pending.fail(why);
        pending.fail(why);
        pending.answer(decision());
        assertThat(subscriber.getReceivedOnNext()).isEmpty();
        assertThat(subscriber.expectTerminalError()).isSameAs(why);
        assertThat(subscriber.getProtocolErrors()).isEmpty();
        assertThat(pending.markSent()).isFalse();
    }

    private PendingDecision ask() {
        decision.subscribe(subscriber);
        subscriber.request(1);
        return sent.get(0);
    }

    private static StoreDecision decision() {
        return StoreDecision.ofPeek(new Reply(Source.REDIS, 0), List.of());
    }
}
