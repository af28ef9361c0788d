package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/** A FIFO queue of waiters for the same counts. Thread-safe. */
final class WaitQueue {
    // Design notes.
    //
    // Invariants, in any interleaving:
    //
    //  1. Only the head is served. A waiter that was served, denied, failed or cancelled is no longer in the queue.
    //  2. While the queue is not empty, an attempt is in flight, or the timer is set, or a task or a thread is about to
    //     start one of the two. So no waiter is forgotten.
    //  3. A grant of the store goes to the head if the head requests the same permits; otherwise it is refunded. So no
    //     permit is lost, even if waiters cancel while attempts are in flight.
    //  4. A queue without waiters, attempts and tasks is not in the map of queues, and has no timer.
    //
    // Attempts. An attempt is one call of the store, for the head. If the last grant showed that more permits remain,
    // further attempts start at the same time, for the waiters behind the head that request the same permits. These
    // attempts are interchangeable, so the order of their replies does not matter: each grant serves the current head.
    // After a denial no attempt starts before the retry time of the denial.
    //
    // Lower bound of the wait. A denial says when the head can be served at the earliest. A limit of N permits grants
    // at most N in a window, so a waiter with more than N permits ahead of it needs a second window, and so on. A
    // caller is denied at once if this bound is above its longest wait. While attempts are in flight, the bound counts
    // from the sending of the first one, and no waiter that is already in the queue is denied for that reason, because
    // only the replies show whether permits remain. A denial names this bound, and at least what the denial of the head
    // names; if the queue is full, or the bound has passed, at least a second, so that clients do not retry at once.
    //
    // Replaced limits. The waiters get new claims, in their order. Attempts in flight have the old claims, so their
    // grants serve no waiter and are refunded, and their denials are ignored. Waiters with other counts than
    // before join another queue.
    //
    // Concurrency limits. It is not known when a holder will release its permits, so a denial has no lower bound. A
    // release by this limiter wakes the queue; for those of other instances the head asks again at times. The timer
    // also ends the waits that are over before that.
    //
    // Leases. A denial does not know that leased permits may be refunded soon. So if permits of a log are leased, or
    // were until just now, the head asks again after two lease times. If the limit is not leased on this instance, only
    // permits that the log shows as leased count, so that a log without leases is asked at its retry time.
    //
    // Locking. The monitor guards the state of this class. Under it, neither the store nor a subscriber is called, and
    // no timer is set. These are added to "tasks", and the thread that made the change runs them after it has released
    // the monitor. If the denial is cleared while its timer is being set, that timer is disposed of.
    //
    // A store may reply before its "subscribe" returns. The sending thread then runs the tasks after it has sent all
    // attempts, not recursively; otherwise the depth of the stack would grow with the length of the queue. It gives up
    // its role as the sender before it runs the tasks, because a subscriber may then wait in this queue again.
    //
    // Threads. Each thread that calls drain() may serve waiters: one that joins the queue, one that delivers a reply of
    // the store or ends a refund or reset, and one of the parallel scheduler, which runs the timer and the calls that
    // other threads hand over. A thread that cancels a waiter hands over if the next waiter can be served.

    /** The maximum number of attempts in flight. */
    static final int MAX_IN_FLIGHT = 64;

    /** After this number of steps a thread hands over to another thread. */
    private static final int MAX_STEPS = 128;

    /** The maximum number of nested calls of {@link #drain()} by one thread. */
    private static final int MAX_DEPTH = 8;

    /** The wait that a denial names if the queue does not know when it has a place, or when permits are free. */
    private static final long UNKNOWN_WAIT = TimeUnit.SECONDS.toNanos(1);

    private static final long MILLISECOND = TimeUnit.MILLISECONDS.toNanos(1);

    private final WaitQueues queues;
    private final String name;

    // All fields below, and the waiters in the list, are guarded by the monitor of this queue.

    private final Deque<Runnable> tasks = new ArrayDeque<>();
    private final WaiterList waiters = new WaiterList();

    /** The places reserved for this queue: as many as its waiters or its attempts in flight, whichever are more. */
    private int places;

    private int inFlight;
    private long firstSentAt;
    private @Nullable Thread sender;

    /** The threads in {@link #drain()}, one entry for each nested call. */
    private final List<Thread> drainers = new ArrayList<>();

    private @Nullable Decision lastGrant;
    private @Nullable HeadDenial denial;
    private @Nullable Disposable timer;

    /** The time of the timer for the denial, whether it is set yet or not. */
    private long timerAt;

    /** How often {@link #wake()} was called. A denial of a request that was sent before the last call is ignored. */
    private int wakes;

    WaitQueue(WaitQueues queues, String name) {
        this.queues = queues;
        this.name = name;
    }

    String name() {
        return name;
    }

    // The queue.

    /** Appends the waiter, or denies it. */
    synchronized void join(Waiter waiter) {
        waiter.queue = this;
        long now = Time.nanos();
        waiter.deadline = saturatedSum(now, waiter.longestWait);
        HeadDenial denied = denial;
        long earliest = saturatedSum(headServedAt(now), waiters.delayBehindHead(waiter));
        boolean isTooLong = earliest > waiter.deadline;
        if (isTooLong || waiters.size() >= queues.maxPerQueue() || !reservePlace()) {
            long atLeast = denied == null ? now : denied.deniedUntil;
            deny(waiter, denied, now, Math.max(earliest, isTooLong ? atLeast : Math.max(atLeast, now + UNKNOWN_WAIT)));
            return;
        }
        waiters.append(waiter);
        if (denied != null && denied.isPoll() && waiter.deadline < timerAt) {
            // Later, because the map of queues is locked now.
            tasks.add(() -> onTimer(denied));
        }
    }

    /** Removes the waiter. The next waiter is served on another thread, not on that of the cancelling subscriber. */
    void leave(Waiter waiter) {
        boolean mayServeNext;
        synchronized (this) {
            if (!waiter.isListed) {
                return;
            }
            remove(waiter);
            mayServeNext = denial == null && !waiters.isEmpty();
        }
        if (mayServeNext) {
            drainLater();
        } else {
            drain();
        }
    }

    /** Retries although the denial has not expired: more permits may be available than the last reply showed. */
    void wake() {
        synchronized (this) {
            wakes++;
            clearDenial();
        }
        drain();
    }

    /**
     * Gives all waiters their claims under the current limits, in their order, and retries: the last denial was made
     * under other limits.
     *
     * @return the waiters for other counts, which have left this queue
     */
    List<Waiter> renew() {
        List<Waiter> moved = new ArrayList<>();
        synchronized (this) {
            wakes++;
            lastGrant = null;
            long now = Time.nanos();
            for (Waiter one : waiters.clear()) {
                renew(one, now, moved);
            }
            clearDenial();
            releasePlaces();
        }
        drain();
        return moved;
    }

    private void renew(Waiter waiter, long now, List<Waiter> moved) {
        try {
            waiter.claims = waiter.renewedClaims();
        } catch (IllegalArgumentException e) {
            tasks.add(() -> waiter.fail(e));
            return;
        }
        Decision neverFits = LimiterDecisions.ifNeverFits(queues.clock(), waiter.claims);
        if (neverFits != null) {
            tasks.add(() -> waiter.deny(neverFits));
        } else if (WaitQueues.name(waiter.claims).equals(name)) {
            waiters.append(waiter);
        } else {
            waiter.longestWait =
                    waiter.longestWait == WaitQueues.FOREVER ? WaitQueues.FOREVER : Math.max(0, waiter.deadline - now);
            moved.add(waiter);
        }
    }

    /** Fails all waiters. */
    void fail(Throwable error) {
        synchronized (this) {
            failAll(error);
        }
        drain();
    }

    /** Returns whether this queue can be removed from the map. */
    synchronized boolean isIdle() {
        return waiters.isEmpty() && inFlight == 0 && tasks.isEmpty() && sender == null;
    }

    // The threads.

    /** Runs the tasks and starts attempts, until this thread can do no more. */
    void drain() {
        drain(false);
    }

    private void drainLater() {
        queues.schedule(() -> drain(true));
    }

    /**
     * Drains, possibly within another call on this thread: a subscriber that was served may wait again, or retry after
     * an error. A few levels are allowed, because a subscriber may even block until it is served again. Deeper calls
     * hand over to another thread; otherwise the depth of the stack would grow with the length of the queue.
     *
     * @param handedOver whether the scheduler runs this call. If that is too deep, it runs tasks at once on the thread
     *     that schedules them. To hand over again would recurse without end, so the outer calls continue instead
     */
    private void drain(boolean handedOver) {
        Thread current = Thread.currentThread();
        boolean tooDeep;
        synchronized (this) {
            if (sender == current) {
                return;
            }
            tooDeep = Collections.frequency(drainers, current) >= MAX_DEPTH;
            if (!tooDeep) {
                drainers.add(current);
            }
        }
        if (!tooDeep) {
            boolean done = false;
            try {
                done = runSteps();
            } finally {
                synchronized (this) {
                    drainers.remove(current);
                }
                if (!done) {
                    drainLater();
                }
            }
        } else if (!handedOver) {
            drainLater();
        }
    }

    /** Returns whether this thread can do no more. */
    private boolean runSteps() {
        for (int steps = 0; steps < MAX_STEPS; steps++) {
            Runnable next;
            synchronized (this) {
                next = tasks.poll();
                Waiter head = waiters.first();
                if (next == null && sender == null && head != null && denial == null) {
                    int attempts = attemptsToStart(head);
                    if (attempts > 0) {
                        next = startAttempts(head, attempts);
                        steps += attempts;
                    }
                }
            }
            if (next == null) {
                if (isIdle()) {
                    queues.retire(this);
                }
                return true;
            }
            try {
                next.run();
            } catch (Throwable e) {
                // Thrown by a subscriber, against the rules. This thread may belong to another subscriber.
                Exceptions.throwIfFatal(e);
                Dropped.report(e);
            }
        }
        return false;
    }

    // Attempts.

    private Runnable startAttempts(Waiter head, int number) {
        HeadRequest request = new HeadRequest(head.claims, head.context, Time.nanos(), wakes);
        firstSentAt = inFlight == 0 ? request.sentAt : firstSentAt;
        inFlight += number;
        sender = Thread.currentThread();
        return () -> send(request, number);
    }

    /** Returns the number of further attempts to start for the claims of the head. */
    private int attemptsToStart(Waiter head) {
        int fitting = fittingAfterLastGrant(head.claims);
        int same = 0;
        for (Waiter one = head; one != null && same < fitting && one.requestsSameAs(head.claims); one = one.next) {
            same++;
        }
        return Math.max(0, same - inFlight);
    }

    /** Returns the number of such requests that fitted after the last grant; 1 if there was none. */
    private int fittingAfterLastGrant(List<Claim> claims) {
        if (lastGrant == null) {
            return 1;
        }
        long fitting = MAX_IN_FLIGHT;
        List<Decision.Usage> usages = lastGrant.limits();
        for (int i = 0; i < claims.size() && i < usages.size(); i++) {
            long permits = claims.get(i).permits();
            fitting = permits == 0 ? fitting : Math.min(fitting, usages.get(i).remaining() / permits);
        }
        return (int) Math.max(1, fitting);
    }

    private void send(HeadRequest request, int number) {
        int left = number;
        try {
            while (left > 0) {
                AttemptSubscriber attempt = new AttemptSubscriber(request);
                left--;
                try {
                    queues.take(request.claims).subscribe(attempt);
                } catch (Throwable e) {
                    attempt.hookOnError(e);
                    throw e;
                }
            }
        } finally {
            synchronized (this) {
                inFlight -= left;
                sender = null;
                releasePlaces();
            }
        }
    }

    private void onDecision(HeadRequest request, StoreDecision decision) {
        synchronized (this) {
            inFlight--;
            HeadDenial before = denial;
            if (decision.isAllowed()) {
                lastGrant = decision;
                serveHead(request.claims, decision);
            } else {
                onDenial(request, decision);
            }
            if (denial != null && inFlight == 0) {
                denyTooLongWaits(denial);
            }
            if (denial != null && denial != before) {
                followDenial(denial);
            }
            releasePlaces();
        }
        drain();
    }

    private void onFailure(Throwable error) {
        synchronized (this) {
            inFlight--;
            failAll(error);
        }
        drain();
    }

    private void serveHead(List<Claim> claims, Decision decision) {
        Waiter head = waiters.first();
        if (head != null && head.requestsSameAs(claims)) {
            remove(head);
            tasks.add(() -> {
                if (!head.grant(decision)) {
                    synchronized (this) {
                        serveHead(claims, decision);
                    }
                }
            });
        } else if (decision.isCharged()) {
            tasks.add(() -> queues.refund(decision));
        }
    }

    // Denials and failures.

    private void onDenial(HeadRequest request, StoreDecision decision) {
        Waiter head = waiters.first();
        if (head == null || denial != null || !head.requestsAtLeast(request.claims)) {
            return;
        }
        if (request.wakes != wakes) {
            // Permits may be free since. But frequent refunds must not extend a wait by one attempt after another. Of
            // the waiters that were in the queue at this request, only the head is denied while the other attempts are
            // in flight. A head that requests less than was denied has had no attempt yet.
            HeadDenial outdated =
                    headDenial(request, decision, decision.retryAfter().orElse(Duration.ZERO));
            denyOverdue(
                    outdated,
                    one -> one.deadline - one.longestWait <= request.sentAt
                            && (one != waiters.first() || one.requestsSameAs(request.claims))
                            && (inFlight == 0 || one == head));
            return;
        }
        Optional<Duration> wait = decision.retryAfter();
        if (wait.isEmpty()) {
            // The store says that no wait helps this waiter. The next one may request less, so it gets its attempt.
            remove(head);
            tasks.add(() -> head.deny(decision));
            return;
        }
        denial = headDenial(request, decision, wait.get());
        lastGrant = null;
    }

    private HeadDenial headDenial(HeadRequest request, StoreDecision decision, Duration wait) {
        return new HeadDenial(request.claims, request.sentAt, decision, wait, Time.nanos());
    }

    /**
     * Returns the earliest time at which the head can be served. While attempts are in flight, the store may have
     * decided at any time since the first was sent, and a grant may arrive after a denial.
     */
    private long headServedAt(long now) {
        if (inFlight > 0) {
            return firstSentAt;
        }
        return denial == null ? now : Math.max(now, denial.fitsAt);
    }

    /** Denies all waiters that cannot be served within their longest wait, as this denial shows. */
    private void denyTooLongWaits(HeadDenial denied) {
        long retryAt = Math.max(denied.receivedAt, denied.fitsAt);
        if (waiters.canAllWait(retryAt)) {
            return;
        }
        for (Waiter one : waiters.clear()) {
            // A head that requests less than was denied may be served before the retry time. The windows of the waiters
            // behind it then count from now.
            Waiter head = waiters.isEmpty() ? one : waiters.first();
            boolean headMustWait = head != null && head.requestsAtLeast(denied.claims);
            long earliest = saturatedSum(headMustWait ? retryAt : denied.receivedAt, waiters.delayBehindHead(one));
            if (one.requestsAtLeast(denied.claims)) {
                earliest = Math.max(earliest, retryAt);
            }
            if (earliest <= one.deadline) {
                waiters.append(one);
            } else {
                deny(one, denied, waiters.isEmpty(), headMustWait ? Math.max(earliest, denied.deniedUntil) : earliest);
            }
        }
        onHeadChange();
    }

    /** Denies the waiters that have waited for their longest wait and fulfil the condition. */
    private void denyOverdue(HeadDenial denied, Predicate<Waiter> isDenied) {
        long now = Time.nanos();
        if (waiters.canAllWait(now + 1)) {
            return;
        }
        Waiter next;
        for (Waiter one = waiters.first(); one != null; one = next) {
            next = one.next;
            if (one.deadline <= now && isDenied.test(one)) {
                deny(one, denied, one == waiters.first(), denied.deniedUntil);
                waiters.remove(one);
            }
        }
        onHeadChange();
        releasePlaces();
    }

    /** Denies a waiter by this denial. The head gets the decision of the store if it is on the same claims. */
    private void deny(Waiter waiter, HeadDenial denied, boolean isHead, long earliest) {
        if (isHead && waiter.requestsSameAs(denied.claims)) {
            tasks.add(() -> waiter.deny(denied.decision));
        } else {
            deny(waiter, denied, Time.nanos(), earliest);
        }
    }

    /** Denies a waiter until the earliest time at which it can be served; for a while, if that time is not known. */
    private void deny(Waiter waiter, @Nullable HeadDenial known, long now, long earliest) {
        long nanos = earliest > now ? earliest - now : UNKNOWN_WAIT;
        long wait = nanos / MILLISECOND + (nanos % MILLISECOND == 0 ? 0 : 1);
        long at = known == null
                ? queues.clock().millis()
                : known.decision.at().toEpochMilli() + (now - known.receivedAt) / MILLISECOND;
        Decision decision =
                LimiterDecisions.mustWait(at, at + wait, waiter.claims, known == null ? null : known.decision);
        tasks.add(() -> waiter.deny(decision));
    }

    private void failAll(Throwable error) {
        for (Waiter one : waiters.clear()) {
            tasks.add(() -> one.fail(error));
        }
        onHeadChange();
        releasePlaces();
    }

    // The timer.

    /** Clears the denial if its retry time has come. Otherwise denies overdue waiters, and begins to set the timer. */
    private void followDenial(HeadDenial denied) {
        long now = Time.nanos();
        if (denied.isPoll() && now < denied.retryAt) {
            denyOverdue(denied, one -> true);
        }
        if (denial != denied) {
            return; // It does not apply to the new head.
        }
        timerAt = denied.isPoll() ? Math.min(denied.retryAt, waiters.earliestDeadline()) : denied.retryAt;
        if (timerAt <= now) {
            clearDenial();
            return;
        }
        disposeTimer();
        long at = timerAt;
        // The first task, because a subscriber that is served by an earlier one may block.
        tasks.addFirst(() -> setTimer(denied, at));
    }

    /** Sets the timer, unless the denial was cleared or has got another time since. Called without the monitor. */
    private void setTimer(HeadDenial denied, long at) {
        Disposable set;
        try {
            set = queues.schedule(() -> onTimer(denied), at - Time.nanos());
        } catch (RejectedExecutionException e) {
            failIfDenied(denied, e);
            return;
        }
        synchronized (this) {
            if (denial == denied && timerAt == at && timer == null) {
                timer = set;
                return;
            }
        }
        set.dispose();
    }

    private synchronized void failIfDenied(HeadDenial denied, Throwable error) {
        if (denial == denied) {
            failAll(error);
        }
    }

    private void onTimer(HeadDenial denied) {
        synchronized (this) {
            if (denial == denied) {
                followDenial(denied);
            }
        }
        drain();
    }

    /** Clears the denial and its timer, if there is one, so that an attempt for the head may start. */
    private void clearDenial() {
        denial = null;
        disposeTimer();
    }

    private void disposeTimer() {
        if (timer != null) {
            timer.dispose();
            timer = null;
        }
    }

    // Head and places.

    private void remove(Waiter waiter) {
        waiters.remove(waiter);
        onHeadChange();
        releasePlaces();
    }

    /** Clears the denial if it does not apply to the new head, because that requests less. */
    private void onHeadChange() {
        Waiter head = waiters.first();
        if (denial != null && (head == null || !head.requestsAtLeast(denial.claims))) {
            clearDenial();
        }
    }

    /** Reserves a place for a waiter. An attempt in flight keeps the place of a waiter that has left. */
    private boolean reservePlace() {
        if (waiters.size() < places) {
            return true;
        }
        if (queues.reservePlace()) {
            places++;
            return true;
        }
        return false;
    }

    private void releasePlaces() {
        int needed = Math.max(waiters.size(), inFlight);
        if (places > needed) {
            queues.releasePlaces(places - needed);
            places = needed;
        }
    }

    /** Returns the time after a duration; the latest time if that overflows. */
    static long saturatedSum(long time, long duration) {
        long sum = time + duration;
        return sum < time ? Long.MAX_VALUE : sum;
    }

    /** A request of the head, as it is sent to the store in one or more attempts. */
    private record HeadRequest(List<Claim> claims, Context context, long sentAt, int wakes) {}

    /** The subscriber of one attempt. It handles the first signal only. */
    private final class AttemptSubscriber extends BaseSubscriber<StoreDecision> {

        private final HeadRequest request;
        private boolean answered;

        AttemptSubscriber(HeadRequest request) {
            this.request = request;
        }

        @Override
        public Context currentContext() {
            return request.context;
        }

        @Override
        protected void hookOnNext(StoreDecision decision) {
            if (!answered) {
                answered = true;
                onDecision(request, decision);
            }
        }

        @Override
        protected void hookOnError(Throwable error) {
            if (!answered) {
                answered = true;
                onFailure(error);
            } else {
                Operators.onErrorDropped(error, request.context);
            }
        }

        @Override
        protected void hookOnComplete() {
            if (!answered) {
                answered = true;
                onFailure(
                        new LimitStoreException(Kind.REJECTED, "the store has given no decision on " + request.claims));
            }
        }
    }
}
