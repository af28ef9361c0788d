package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** What somebody who subscribes hears of what he has asked for, whatever becomes of it. */
class PendingDecisionTest {

    private final LimitStoreException why = new LimitStoreException("Redis is away", null);

    private final List<PendingDecision> begun = new ArrayList<>();
    private final Mono<Decision> question =
            PendingDecision.of(List.of(), 0, true, PendingDecision.NO_DEADLINE, begun::add);
    private final Asker asker = new Asker();

    @Test
    void nothingBeginsBeforeItIsRequested() {
        question.subscribe(asker);
        assertThat(begun).isEmpty();
        asker.subscription.request(1);
        asker.subscription.request(1);
        assertThat(begun).hasSize(1);
    }

    @Test
    void whoHasLeftBeforeHeHasRequestedBeginsNothing() {
        question.subscribe(asker);
        asker.subscription.cancel();
        asker.subscription.request(1);
        assertThat(begun).isEmpty();
    }

    @Test
    void whoHasLeftWhileHeWaitsIsNotTakenToRedis() {
        PendingDecision asked = ask();
        asker.subscription.cancel();
        assertThat(asked.markSent()).isFalse();
    }

    @Test
    void whoWaitsIsTakenToRedisOnce() {
        PendingDecision asked = ask();
        assertThat(asked.markSent()).isTrue();
        assertThat(asked.markSent()).isFalse();
    }

    @Test
    void whoHasLeftWhileRedisDecidedHearsNothing() {
        PendingDecision asked = ask();
        asked.markSent();
        asker.subscription.cancel();
        asked.answer(decision());
        asked.fail(why);
        assertThat(asker.heard).isEmpty();
    }

    @Test
    void whoIsAnsweredIsAnsweredOnce() {
        PendingDecision asked = ask();
        asked.markSent();
        asked.answer(decision());
        asked.answer(decision());
        asked.fail(why);
        assertThat(asker.heard).containsExactly("decision", "end");
    }

    @Test
    void whoIsToldWhyThereIsNoAnswerHearsNoneLater() {
        PendingDecision asked = ask();
        asked.fail(why);
        asked.fail(why);
        asked.answer(decision());
        assertThat(asker.heard).containsExactly(why);
        assertThat(asked.markSent()).isFalse();
    }

    private PendingDecision ask() {
        question.subscribe(asker);
        asker.subscription.request(1);
        return begun.get(0);
    }

    private static Decision decision() {
        return Decision.ofPeek(Source.REDIS, 0, List.of());
    }

    /** Keeps to no rule himself, and hears everything. */
    private static final class Asker implements CoreSubscriber<Decision> {

        final List<Object> heard = new ArrayList<>();
        Subscription subscription = Operators.emptySubscription();

        @Override
        public void onSubscribe(Subscription subscription) {
            this.subscription = subscription;
        }

        @Override
        public void onNext(Decision decision) {
            heard.add("decision");
        }

        @Override
        public void onComplete() {
            heard.add("end");
        }

        @Override
        public void onError(Throwable error) {
            heard.add(error);
        }
    }
}
