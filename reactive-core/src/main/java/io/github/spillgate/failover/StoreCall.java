package io.github.spillgate.failover;

import io.github.spillgate.Claim;
import io.github.spillgate.FallbackStore.Fit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreRefusedException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/**
 * One question: it goes to the store if the gate lets it pass, and to the fallback if it does not, if the store fails,
 * or if the time is up.
 */
class StoreCall<T> extends CallProgress implements CoreSubscriber<T>, Subscription, Deadlines.Waiting {
    // Design notes.
    //
    // Two things end, each on its own. Whoever asks is served once: by the store, by the fallback, or by leaving; that
    // is "serves". The question to the store ends when it is answered, has failed, or is given up; that is "closes". It
    // outlives the asker: what the store has been asked takes a place in it until it answers, so it keeps a place here
    // too, or impatient callers would fill a store that hangs; and its answer, or its silence when the deadline comes,
    // says how the store is, whether somebody waits for it or not. So nothing is cancelled upstream before a question
    // is given up for good.
    //
    // The gate is told once what came of it: at the answer, or at the deadline if that is sooner. Where this process
    // has stood still meanwhile, the store may have answered long since; so there its silence says something only
    // after as much time again. Whoever asks does not wait for that.
    //
    // An answer that does not fit together with what the fallback has granted meanwhile is one that has come too
    // late: the fallback decides. Where something is on its way to be settled, which the store may have known of when
    // it answered, that is not certain at once; then the answer is looked at again in a moment, until the time is up.

    private static final long LOOK_AGAIN = TimeUnit.MILLISECONDS.toNanos(1);

    final ResilientStore store;
    final List<Claim> claims;
    private final Function<LimitStore, Mono<T>> what;
    private final boolean needsAnswer;
    private final CoreSubscriber<? super T> actual;

    private CircuitGate gate;
    private long sentAt;
    private volatile @Nullable Subscription upstream;
    private CircuitGate.Passage passage = CircuitGate.Passage.NO;
    private boolean heard;
    private volatile boolean inTime;
    private volatile boolean cancelled;
    private volatile @Nullable Disposable patience;

    /**
     * A question about these claims, to which the answer is a decision, if one is needed, or else nothing but its end.
     */
    StoreCall(
            ResilientStore store,
            List<Claim> claims,
            Function<LimitStore, Mono<T>> what,
            boolean needsAnswer,
            CoreSubscriber<? super T> actual) {
        this.store = store;
        this.claims = claims;
        this.gate = store.gate();
        this.what = what;
        this.needsAnswer = needsAnswer;
        this.actual = actual;
    }

    // What a question that takes something has to care for besides.

    /** Whether the fallback knows something that the store has to know before it decides this. */
    boolean mustBeSettledFirst() {
        return false;
    }

    /** Asks the store, which may take something only until the deadline. */
    Mono<T> ask(LimitStore primary, long deadline) {
        return what.apply(primary);
    }

    /** The store has answered somebody who waits. */
    void answered(@Nullable T answer) {}

    /** The store has answered when nobody waited for it any more. */
    void answeredLate(@Nullable T answer) {}

    /** The store has failed when nobody waited for it any more, or has been given up. */
    void failedLate(Throwable error) {}

    /** The fallback is about to be asked while the question to the store is open. */
    void inDoubt() {}

    /** The fallback has answered, after the store had failed or while the question to it is open. */
    void answeredInstead(@Nullable T answer, @Nullable Throwable storeFailed) {}

    /** The fallback has failed, while the question to the store is open. */
    void failedInstead() {}

    @Override
    public final Context currentContext() {
        return actual.currentContext();
    }

    /** When the store was asked. */
    final long sentAt() {
        return sentAt;
    }

    // He who asks.

    @Override
    public final void request(long n) {
        if (Operators.validate(n) && begins()) {
            begin();
        }
    }

    @Override
    public final void cancel() {
        cancelled = true;
        if (leaves()) {
            stopPatience();
        }
    }

    /** A gate that throws lets nobody pass; whoever asks is answered all the same. */
    private CircuitGate.Passage pass() {
        try {
            gate = store.gateTo(claims);
            return gate.pass();
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, actual.currentContext());
            return CircuitGate.Passage.NO;
        }
    }

    private void begin() {
        long patienceLeft = store.patienceLeft(actual.currentContext());
        passage = patienceLeft > 0 ? pass() : CircuitGate.Passage.NO;
        if (passage == CircuitGate.Passage.ASK && mustBeSettledFirst()) {
            gate.turnBack(passage);
            passage = CircuitGate.Passage.NO;
        }
        if (passage == CircuitGate.Passage.NO) {
            closes();
            if (serves()) {
                fallBack(null);
            }
            return;
        }
        // Where there is nothing to fall back on, also who tries the store waits for it.
        boolean waits = passage == CircuitGate.Passage.ASK || Fallback.isError(store.fallback());
        boolean servedAtOnce = !waits && serves();
        if (servedAtOnce) {
            inDoubt();
        }
        try {
            sentAt = store.deadlines().add(this);
            if (waits && patienceLeft < store.deadlineNanos()) {
                patience = Schedulers.parallel().schedule(this::losePatience, patienceLeft, TimeUnit.NANOSECONDS);
            }
            ask(store.primary(), sentAt + Math.min(patienceLeft, store.deadlineNanos()))
                    .subscribe(this);
        } catch (LinkageError e) {
            onError(e);
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            onError(e);
        }
        if (servedAtOnce) {
            fallBack(null);
        }
    }

    // The store.

    @Override
    public final void onSubscribe(Subscription s) {
        if (Operators.validate(upstream, s)) {
            upstream = s;
            s.request(Long.MAX_VALUE);
        }
    }

    @Override
    public final void onNext(T answer) {
        heard = true;
        hear(answer);
    }

    @Override
    public final void onComplete() {
        if (heard) {
            return;
        }
        if (needsAnswer && !isClosed()) {
            onError(new LimitStoreException(
                    store.primary() + " has answered nothing: expected a decision, for example one of Decision.ofTake",
                    null));
        } else {
            end(null, true);
        }
    }

    private void hear(T answer) {
        if (isClosed()) {
            return;
        }
        Fit fit = Fit.YES;
        try {
            fit = store.remember(answer);
            if (judges()) {
                inTime = true;
                gate.answered(Deadlines.now() - sentAt);
            }
        } finally {
            // Whatever happens to those who look on, who asks is told.
            if (fit == Fit.IF_SETTLED && isWaitedFor() && store.isOnItsWay(claims)) {
                Schedulers.parallel().schedule(() -> hear(answer), LOOK_AGAIN, TimeUnit.NANOSECONDS);
            } else {
                end(answer, fit == Fit.YES);
            }
        }
    }

    private void end(@Nullable T answer, boolean fits) {
        if (!closes()) {
            return;
        }
        try {
            if (judges()) {
                inTime = true;
                gate.answered(Deadlines.now() - sentAt);
            }
        } finally {
            gate.leave(passage);
            if (!serves()) {
                answeredLate(answer);
                if (inTime && store.isReconciled()) {
                    gate.decided();
                }
            } else if (fits) {
                stopPatience();
                gate.decided();
                answered(answer);
                serve(answer);
            } else {
                stopPatience();
                inDoubt();
                answeredLate(answer);
                fallBack(null);
            }
        }
    }

    @Override
    public final void onError(Throwable signalled) {
        if (!closes()) {
            return;
        }
        Throwable error = signalled instanceof LinkageError e ? unusable(e) : signalled;
        // What is refused is not done elsewhere: the next answer of the store would undo it.
        boolean isRefused = !needsAnswer && error instanceof LimitStoreRefusedException;
        try {
            if (error instanceof LimitStoreDeadlineException) {
                // The store has answered. If the deadline has passed, its timer tells whether this process stood still.
                long took = Deadlines.now() - sentAt;
                if (took < store.deadlineNanos() && judges()) {
                    gate.answered(took);
                }
            } else if (!judges()) {
                if (!isRefused) {
                    gate.failedLate(error);
                }
            } else if (isRefused) {
                gate.refused(error);
            } else {
                gate.failed(Deadlines.now() - sentAt, error);
            }
        } finally {
            gate.leave(passage);
            if (serves()) {
                stopPatience();
                if (isRefused) {
                    fail(error);
                } else {
                    fallBack(error);
                }
            } else {
                failedLate(error);
            }
        }
    }

    // Time.

    @Override
    public final boolean isAnswered() {
        return isClosed() && isJudged();
    }

    @Override
    public final void timeIsUp(boolean stoodStill) {
        if (isClosed()) {
            judgeLateAnswer(stoodStill);
            return;
        }
        try {
            if (stoodStill) {
                store.grace().add(new GraceTimer());
            } else {
                judgeSilence();
            }
        } finally {
            store.late().add(new LateTimer());
            losePatience();
        }
    }

    private void judgeLateAnswer(boolean stoodStill) {
        if (!judges()) {
            return;
        }
        if (stoodStill) {
            gate.answered(Deadlines.now() - sentAt);
        } else {
            gate.failed(store.deadlineNanos(), unanswered());
        }
    }

    private void judgeSilence() {
        if (judges()) {
            gate.failed(store.deadlineNanos(), unanswered());
        }
    }

    private void losePatience() {
        if (serves()) {
            inDoubt();
            fallBack(null);
        }
    }

    private void stopPatience() {
        Disposable timer = patience;
        if (timer != null) {
            timer.dispose();
        }
    }

    private void giveUp() {
        if (closes()) {
            Subscription asked = upstream;
            if (asked != null) {
                asked.cancel();
            }
            gate.leave(passage);
            failedLate(unanswered());
        }
    }

    /**
     * To Reactor such an error is fatal, and is lost on another thread; here it is the reason why the store cannot be
     * asked.
     */
    private LimitStoreUnreachableException unusable(LinkageError e) {
        return new LimitStoreUnreachableException(
                store.primary() + " cannot run with the libraries on the class path: " + e, e);
    }

    private LimitStoreUnansweredException unanswered() {
        return new LimitStoreUnansweredException(
                store.primary() + " did not reply within " + store.deadlineNanos() / 1_000_000 + " ms", null);
    }

    // The fallback.

    private void fallBack(@Nullable Throwable error) {
        store.countFallBack();
        gate.fellBack();
        if (Fallback.isError(store.fallback())) {
            failedInstead();
            fail(error != null ? error : passage == CircuitGate.Passage.NO ? notAsked() : unanswered());
            return;
        }
        FallbackSubscriber hears = new FallbackSubscriber(error);
        try {
            what.apply(store.fallback()).subscribe(hears);
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            if (hears.done) {
                // Thrown by whoever has been answered.
                throw e;
            }
            hears.onError(e);
        }
    }

    private LimitStoreUnavailableException notAsked() {
        String problem = gate.problem();
        return new LimitStoreUnavailableException(
                store.primary() + " is not asked for now"
                        + (problem == null
                                ? ", for too many questions are open, or no time is left"
                                : ", because it did not answer well: " + problem),
                null);
    }

    private void serve(@Nullable T answer) {
        if (cancelled) {
            return;
        }
        if (answer != null) {
            actual.onNext(answer);
        }
        actual.onComplete();
    }

    private void fail(Throwable error) {
        if (!cancelled) {
            actual.onError(error);
        }
    }

    /** Hears what the fallback says. */
    private final class FallbackSubscriber implements CoreSubscriber<T> {

        private final @Nullable Throwable storeFailed;
        private boolean done;

        FallbackSubscriber(@Nullable Throwable storeFailed) {
            this.storeFailed = storeFailed;
        }

        @Override
        public Context currentContext() {
            return actual.currentContext();
        }

        @Override
        public void onSubscribe(Subscription s) {
            s.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(T answer) {
            if (!done) {
                done = true;
                answeredInstead(answer, storeFailed);
                serve(answer);
            }
        }

        @Override
        public void onComplete() {
            if (!done) {
                done = true;
                answeredInstead(null, storeFailed);
                serve(null);
            }
        }

        @Override
        public void onError(Throwable error) {
            if (!done) {
                done = true;
                failedInstead();
                fail(error);
            }
        }
    }

    /** An answer that nobody waits for is waited for all the same, but not for ever. */
    private final class LateTimer implements Deadlines.Waiting {

        @Override
        public boolean isAnswered() {
            return isClosed();
        }

        @Override
        public void timeIsUp(boolean stoodStill) {
            giveUp();
        }
    }

    /** The store is not blamed for what this process has slept through. */
    private final class GraceTimer implements Deadlines.Waiting {

        @Override
        public boolean isAnswered() {
            return isClosed() && isJudged();
        }

        @Override
        public void timeIsUp(boolean stoodStill) {
            if (isClosed()) {
                judgeLateAnswer(true);
            } else {
                judgeSilence();
            }
        }
    }
}
