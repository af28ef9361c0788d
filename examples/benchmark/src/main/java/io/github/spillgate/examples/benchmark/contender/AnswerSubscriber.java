package io.github.spillgate.examples.benchmark.contender;

import java.util.function.BiConsumer;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;

/** Passes on the only element of a publisher, with minimal cost. The same for all reactive contenders. */
final class AnswerSubscriber<T> implements CoreSubscriber<T> {

    private final Answer answer;
    private final BiConsumer<T, Answer> how;
    private boolean answered;

    private AnswerSubscriber(Answer answer, BiConsumer<T, Answer> how) {
        this.answer = answer;
        this.how = how;
    }

    static <T> void of(Publisher<T> publisher, Answer answer, BiConsumer<T, Answer> how) {
        publisher.subscribe(new AnswerSubscriber<>(answer, how));
    }

    @Override
    public void onSubscribe(Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(T element) {
        if (!answered) {
            answered = true;
            how.accept(element, answer);
        }
    }

    @Override
    public void onError(Throwable error) {
        if (!answered) {
            answered = true;
            answer.failed(error);
        }
    }

    @Override
    public void onComplete() {
        if (!answered) {
            answered = true;
            answer.failed(new IllegalStateException("the publisher ended without an answer"));
        }
    }
}
