package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.CircuitGate.Passage;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.Turns;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.RemoteSubscription;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
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
 * One call of the primary store, under its deadline and circuit breaker. The fallback takes over if the breaker is
 * open, if the primary store fails, or at the deadline.
 *
 * @param <T> the type of the result
 */
final class StoreCall<T> extends Deadlines.TimedCall implements CoreSubscriber<T>, Subscription {
    // Design notes.
    //
    // Three things happen at most once each; a flag stands for each of them. If a lease or a cached denial decides,
    // only the first two happen:
    //
    //   STARTED   The caller requests the result.
    //   SERVED    The caller gets a result, from the primary store or the fallback, or cancels.
    //   ENDED     The primary store has replied, failed, or is given up.
    //
    // SERVED and ENDED are independent. A request that was sent takes capacity of the primary store until that replies,
    // so it also keeps its capacity of the gate. Otherwise callers that cancel would overload a store that hangs. The
    // breaker needs the reply, or its absence at the deadline, whether a caller waits for it or not (CallJudge). So
    // nothing is cancelled upstream before the call is given up.
    //
    // The reply may have arrived by the deadline without having been read. So the fallback decides after the next run
    // of the loop, which begins with reading. Most callers continue on that loop, and lose nothing by the wait. It is
    // bounded, for those that do not, and for loops that end.
    //
    // A reply that does not fit together with local grants (Ledger) is treated as if it were late: the fallback
    // decides.
    //
    // Visibility. The fields that are neither final nor volatile are written by start, before the call is added to the
    // deadlines and subscribes to the reply: both make them visible to the threads that use them. The exception is
    // sentAt, which the deadline returns, so only the reply may read it.

    /** The fallback waits for an event loop that may have to read the reply, for this part of the deadline: a half. */
    private static final int READING_PART = 2;

    private static final int STARTED = 1;
    private static final int SERVED = 2;
    private static final int ENDED = 4;

    @SuppressWarnings("rawtypes")
    private static final AtomicIntegerFieldUpdater<StoreCall> FLAGS =
            AtomicIntegerFieldUpdater.newUpdater(StoreCall.class, "flags");

    @SuppressWarnings("rawtypes")
    private static final AtomicReferenceFieldUpdater<StoreCall, @Nullable CoreSubscriber> CALLER =
            AtomicReferenceFieldUpdater.newUpdater(StoreCall.class, CoreSubscriber.class, "caller");

    private final Failover failover;
    private final List<Claim> claims;
    private final StoreOperation<T> operation;

    /**
     * The caller; null once it has its result or has cancelled. The call may wait for its reply for a minute, or for
     * its turn in the queue of deadlines, and must not keep the caller's request for that long.
     */
    private volatile @Nullable CoreSubscriber<? super T> caller;

    /**
     * Matches the results of both stores. If this call takes no permits, the pair has no claims, and does nothing. Null
     * until a store is asked: most calls of a hot or a denied key ask none.
     */
    private @Nullable GrantPair pair;

    private CircuitGate gate;
    private Passage passage = Passage.NO_TIME;
    private long sentAt;

    /** Null until the primary store is asked. */
    private @Nullable CallJudge judge;

    private volatile @Nullable Subscription upstream;
    private volatile @Nullable Disposable earlyDeadline;
    private volatile boolean cancelled;
    private volatile int flags;

    StoreCall(Failover failover, List<Claim> claims, StoreOperation<T> operation, CoreSubscriber<? super T> caller) {
        this.failover = failover;
        this.claims = claims;
        this.operation = operation;
        this.caller = caller;
        this.gate = failover.gates().whole();
    }

    /**
     * Returns a Mono that makes a call for each subscriber.
     *
     * @param <T> the type of the result
     */
    static <T> Mono<T> of(Failover failover, List<Claim> claims, StoreOperation<T> operation) {
        return new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super T> caller) {
                caller.onSubscribe(new StoreCall<>(failover, claims, operation, caller));
            }
        };
    }

    /** Sets a flag, and returns whether it was not set before. */
    private boolean mark(int flag) {
        return (FLAGS.getAndAccumulate(this, flag, (known, more) -> known | more) & flag) == 0;
    }

    private boolean has(int flag) {
        return (flags & flag) != 0;
    }

    // The caller.

    @Override
    public Context currentContext() {
        CoreSubscriber<? super T> waiting = caller;
        return waiting == null ? Context.empty() : waiting.currentContext();
    }

    @Override
    public void request(long n) {
        if (!Operators.validate(n) || !mark(STARTED)) {
            return;
        }
        if (Turns.isOver()) {
            Turns.join(this::start);
        } else {
            start();
        }
    }

    @Override
    public void cancel() {
        cancelled = true;
        mark(SERVED);
        stopEarlyDeadline();
        caller = null;
    }

    private void start() {
        if (has(SERVED)) {
            return;
        }
        T known = operation.isTake() ? decideWithoutStore() : null;
        if (known != null) {
            Turns.count();
            serve(known);
            return;
        }
        pair = new GrantPair(failover.grants(), operation.isTake() ? claims : List.of());
        long timeLeft = failover.timeLeft(currentContext());
        passage = pass(timeLeft);
        if (!passage.isSent()) {
            mark(ENDED);
            if (mark(SERVED)) {
                fallBack(null);
            }
            return;
        }
        // A probe is answered by the fallback at once, unless there is none. But a reset must not be executed after it
        // is answered, because it would remove permits that were taken since.
        boolean waits = passage == Passage.ASK || operation.isChange() || Fallback.isError(failover.fallback());
        boolean fallsBack = !waits && mark(SERVED);
        if (fallsBack) {
            pair().open();
        }
        askPrimary(waits, timeLeft);
        if (fallsBack) {
            fallBack(null);
        }
    }

    /** Returns a grant from leases, or a cached denial; null if a store has to be asked. */
    @SuppressWarnings("unchecked") // only a call that takes permits asks, and its result is a decision
    private @Nullable T decideWithoutStore() {
        StoreDecision leased = failover.leases().spend(claims);
        return (T) (leased == null ? failover.denials().find(claims) : leased);
    }

    /** Chooses the gate, and passes it if there is time left. */
    private Passage pass(long timeLeft) {
        if (timeLeft <= 0) {
            return Passage.NO_TIME;
        }
        try {
            gate = failover.gates().to(claims);
        } catch (Throwable e) {
            // The store cannot name the node of the claims.
            Exceptions.throwIfFatal(e);
            Dropped.report(e, currentContext());
            return Passage.FAILED;
        }
        Passage passed = gate.pass();
        if (passed != Passage.ASK || operation.isChange()) {
            return passed;
        }
        if (failover.grants().mustReconcileFirst(claims)) {
            gate.releaseWithoutResult(passed);
            return failover.grants().cannotCharge(claims) ? Passage.FOREIGN : Passage.UNRECONCILED;
        } else if (gate.maySharesApply() && !failover.grants().haveShare(claims)) {
            gate.releaseWithoutResult(passed);
            return Passage.BEYOND_SHARE;
        }
        return passed;
    }

    private GrantPair pair() {
        return Objects.requireNonNull(pair, "a call that asks a store has a pair");
    }

    private CallJudge judge() {
        return Objects.requireNonNull(judge, "a call that asks the primary store has a judge");
    }

    // The primary store.

    private void askPrimary(boolean waits, long timeLeft) {
        try {
            judge = new CallJudge(failover, gate);
            sentAt = failover.deadlines().add(this);
            if (waits && timeLeft < failover.deadlineNanos()) {
                earlyDeadline = Background.scheduler().schedule(this::onEarlyDeadline, timeLeft, TimeUnit.NANOSECONDS);
            }
            long deadline = sentAt + Math.min(timeLeft, failover.deadlineNanos());
            operation.onPrimary().ask(failover.primary(), claims, deadline).subscribe(this);
            if (operation.isTake() && passage == Passage.ASK) {
                failover.leases().lease(claims);
            }
        } catch (LinkageError e) {
            // Not fatal here: see unusable.
            onError(e);
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            onError(e);
        }
    }

    @Override
    public void onSubscribe(Subscription s) {
        if (Operators.validate(upstream, s)) {
            upstream = s;
            s.request(Long.MAX_VALUE);
        }
    }

    @Override
    public void onNext(T reply) {
        receive(reply);
    }

    @Override
    public void onComplete() {
        if (has(ENDED)) {
            return;
        }
        if (operation.isChange()) {
            receive(null);
        } else {
            onError(new LimitStoreException(
                    Kind.REJECTED,
                    failover.primary()
                            + " completed without a decision: expected one, for example of StoreDecision.ofTake"));
        }
    }

    private void receive(@Nullable T reply) {
        if (has(ENDED)) {
            return;
        }
        boolean fits =
                !(reply instanceof StoreDecision made) || failover.grants().confirm(made, sentAt);
        judge().reply(sentAt);
        if (!mark(ENDED)) {
            return;
        }
        gate.release(passage);
        if (operation.isTake() && reply instanceof StoreDecision decision) {
            failover.denials().remember(decision, sentAt);
            failover.leases().replied(decision);
        }
        if (!mark(SERVED)) {
            pair().primaryReplied(reply, fits);
            if (reply instanceof StoreDecision decision && decision.isCharged()) {
                releaseIfCancelled();
            }
            recordUnusedDecision();
            return;
        }
        stopEarlyDeadline();
        if (fits) {
            gate.recordDecision();
            serve(reply);
        } else {
            recordUnusedDecision();
            pair().open();
            pair().primaryReplied(reply, false);
            fallBack(null);
        }
    }

    /** Records that the primary store decides, although its reply is not emitted: that is late, or does not fit. */
    private void recordUnusedDecision() {
        if (judge().hasReplied() && failover.grants().isReconciled()) {
            gate.recordDecision();
        }
    }

    @Override
    public void onError(Throwable signalled) {
        if (!mark(ENDED)) {
            return;
        }
        Throwable error = signalled instanceof LinkageError e ? unusable(e) : signalled;
        // A refused change is not made in the fallback either: the store's next reply would undo it.
        boolean refused = operation.isChange() && Kind.REFUSED.isOf(error);
        if (refused) {
            judge().refusal(error);
        } else {
            judge().failure(error, sentAt, awaited());
        }
        gate.release(passage);
        if (!mark(SERVED)) {
            failPair(error);
            return;
        }
        stopEarlyDeadline();
        if (refused) {
            fail(error);
        } else {
            pair().open();
            pair().primaryFailed(error);
            fallBack(error);
        }
    }

    private void failPair(Throwable error) {
        pair().primaryFailed(error);
        if (Kind.UNANSWERED.isOf(error)) {
            releaseIfCancelled();
        }
    }

    /**
     * Releases permits of concurrency limits that the primary store has granted, or may have, to a caller that has
     * cancelled. The request of the release cannot overtake that of the grant.
     */
    private void releaseIfCancelled() {
        if (cancelled && operation.isTake() && !pair().isOpen()) {
            failover.grants().releaseUnused(claims);
        }
    }

    /** Reactor treats such an error as fatal, and loses it on another thread. Here it makes the store unreachable. */
    private LimitStoreException unusable(LinkageError e) {
        return new LimitStoreException(
                Kind.UNREACHABLE, failover.primary() + " cannot run with the libraries on the class path: " + e, e);
    }

    // The deadline.

    @Override
    boolean isDone() {
        return has(ENDED);
    }

    @Override
    boolean onDeadline(boolean stalled) {
        if (has(ENDED)) {
            return false;
        }
        failover.lateReplies().add(this::isDone, this::giveUp);
        judge().deadline(awaited(), stalled);
        return !fallBackOnLoop(stalled);
    }

    /**
     * Returns the request to a node, if that may need some time after the deadline to find out about its reply. For a
     * probe nothing waits: until its result is known, the breaker permits no other probe, which may be on a loop that
     * works.
     */
    private @Nullable RemoteSubscription awaited() {
        return passage == Passage.ASK && upstream instanceof RemoteSubscription request ? request : null;
    }

    /** Falls back earlier than at the deadline, because the caller has waited before. */
    private void onEarlyDeadline() {
        if (!fallBackOnLoop(false)) {
            Schedulers.parallel().schedule(() -> answer(false));
        }
    }

    /** Falls back on the caller's event loop if that has to read the reply, and returns whether it does. */
    private boolean fallBackOnLoop(boolean stalled) {
        RemoteSubscription request = awaited();
        Runnable task = () -> answer(stalled);
        if (request == null || has(SERVED) || !request.runAfterReading(task)) {
            return false;
        }
        if (!has(SERVED)) {
            Schedulers.parallel().schedule(task, failover.deadlineNanos() / READING_PART, TimeUnit.NANOSECONDS);
        }
        return true;
    }

    @Override
    void answer(boolean stalled) {
        if (mark(SERVED)) {
            if (gate.recordMissedDeadline(stalled)) {
                failover.fallbacks().countMissedDeadline();
            }
            pair().open();
            fallBack(null);
        }
    }

    private void stopEarlyDeadline() {
        Disposable timer = earlyDeadline;
        if (timer != null) {
            timer.dispose();
        }
    }

    private void giveUp() {
        if (mark(ENDED)) {
            Subscription asked = upstream;
            if (asked != null) {
                asked.cancel();
            }
            gate.release(passage);
            failPair(failover.unanswered());
        }
    }

    // The fallback.

    private void fallBack(@Nullable Throwable primaryError) {
        Turns.count();
        failover.fallbacks().count();
        if (primaryError == null || !Kind.FOREIGN_VALUE.isOf(primaryError)) {
            gate.recordFallback(passage);
        }
        if (Fallback.isError(failover.fallback())) {
            Throwable error = primaryError != null
                    ? primaryError
                    : passage.isSent() ? failover.unanswered() : gate.notAsked(passage);
            serveFallback(null, error);
            return;
        }
        FallbackSubscriber subscriber = new FallbackSubscriber();
        try {
            operation.onFallback().apply(failover.fallback(), claims).subscribe(subscriber);
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            if (subscriber.done) {
                // The caller threw it while it got the result.
                throw e;
            }
            subscriber.onError(e);
        }
    }

    // The result.

    private void serve(@Nullable T result) {
        CoreSubscriber<? super T> served = takeCaller();
        if (served == null) {
            // It has cancelled.
            if (result instanceof StoreDecision decision && decision.isCharged()) {
                failover.grants().releaseUnused(decision.claims());
            }
            return;
        }
        if (result != null) {
            served.onNext(result);
        }
        served.onComplete();
    }

    @SuppressWarnings("unchecked") // the field has this type
    private @Nullable CoreSubscriber<? super T> takeCaller() {
        return CALLER.getAndSet(this, null);
    }

    /** Serves the result of the fallback, or a decision of the primary store that arrived while the fallback denied. */
    @SuppressWarnings("unchecked") // only a call that takes permits has charges, and its result is a decision
    private void serveFallback(@Nullable T result, @Nullable Throwable error) {
        StoreDecision instead = pair().fallbackDecided(result);
        if (instead != null) {
            serve((T) instead);
        } else if (error != null) {
            fail(error);
        } else {
            serve(result);
        }
    }

    private void fail(Throwable error) {
        CoreSubscriber<? super T> served = takeCaller();
        if (served != null) {
            served.onError(error);
        }
    }

    /** Passes on the result of the fallback. */
    private final class FallbackSubscriber implements CoreSubscriber<T> {

        private boolean done;

        @Override
        public Context currentContext() {
            return StoreCall.this.currentContext();
        }

        @Override
        public void onSubscribe(Subscription s) {
            s.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(T result) {
            serveOnce(result, null);
        }

        @Override
        public void onComplete() {
            serveOnce(null, null);
        }

        @Override
        public void onError(Throwable error) {
            serveOnce(null, error);
        }

        @SuppressWarnings("unchecked") // the same type
        private void serveOnce(@Nullable T result, @Nullable Throwable error) {
            if (!done) {
                done = true;
                serveFallback(result instanceof StoreDecision made ? (T) made.byFallback() : result, error);
            }
        }
    }
}
