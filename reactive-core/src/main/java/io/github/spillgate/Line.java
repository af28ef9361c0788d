package io.github.spillgate;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/** Those who wait for the same counts, first come first served. */
final class Line {
    // Design notes.
    //
    // What must hold, whatever happens in whatever order:
    //
    //  1. Only the first is served, and who is served, denied, failed or gone is in the line no more.
    //  2. While somebody is in the line, the store is being asked, or an alarm is set, or somebody is about to do one
    //     of these. So nobody is forgotten.
    //  3. What the store has granted goes to the first, if it is what he asks; else it is given back. So no permit is
    //     lost, however many have gone meanwhile.
    //  4. A line in which nobody stands and for which nothing is under way is not in the table, and has no alarm.
    //
    // Who is asked for. The store is asked for the first only; and for those behind him who ask the same, as many as
    // the last answer said there is room for. All these questions are alike, so it does not matter which answer comes
    // first: each serves the one who then is first. After a denial nobody asks until the time that it names.
    //
    // How long it takes. A denial says when the first can be served at the earliest; and as a limit of N lets no more
    // than N through in a window, whoever has more than N permits before him waits for another window, and so on. That
    // is the lower bound of the wait, by which he is turned away at once if he does not want to wait for so long.
    // Nobody is turned away while the store is being asked: only an answer shows that there is nothing for him.
    //
    // The monitor guards what is written here, and nothing is called under it that is not ours. What follows from a
    // change is put into "due", and done by whoever made the change, after he has left. A store may answer before its
    // "subscribe" returns: the thread that is asking sees to what follows when it has asked, not in between, or a line
    // would be as deep on the stack as it is long. And it hands over the word before it serves anybody, because what
    // those do then is their own, and may be to wait in this very line.

    /** The most questions at once. */
    static final int MOST_ASKS = 64;

    /** After so many steps a thread leaves what remains to another one. */
    private static final int LONGEST_STAY = 128;

    /** How often a thread may come back to what it is doing, before it leaves that to another one. */
    private static final int DEEPEST = 8;

    private static final long MILLISECOND = TimeUnit.MILLISECONDS.toNanos(1);

    private final Lines lines;
    private final String name;
    private final Deque<Runnable> due = new ArrayDeque<>();

    private final Row row = new Row();
    private int places;

    private int asks;
    private long askedSince;
    private @Nullable Thread asker;
    private final List<Thread> busy = new ArrayList<>();
    private @Nullable Decision granted;
    private @Nullable HeadDenial denial;
    private @Nullable Disposable alarm;

    private int wakes;

    private long clock = Long.MIN_VALUE;
    private long steppedBack;

    Line(Lines lines, String name) {
        this.lines = lines;
        this.name = name;
    }

    String name() {
        return name;
    }

    /** Takes him in as the last, or turns him away. */
    synchronized void join(Waiter waiter) {
        waiter.line = this;
        long now = now();
        waiter.until = sum(now, waiter.patience);
        long soonest = sum(firstIsServed(now), row.windowsUntil(waiter));
        if (soonest > waiter.until || row.size() >= lines.mostInLine() || !hasPlace()) {
            turnAway(waiter, now, soonest);
            return;
        }
        row.append(waiter);
    }

    /**
     * Lets him go, and the next one come; but not on the thread of him who goes, which has nothing to do with the next.
     */
    void leave(Waiter waiter) {
        boolean nextMayCome;
        synchronized (this) {
            if (!waiter.inRow) {
                return;
            }
            remove(waiter);
            nextMayCome = denial == null && !row.isEmpty();
        }
        if (nextMayCome) {
            later();
        } else {
            go();
        }
    }

    /** There may be more to get than was known, and than the answers to what has been asked so far will say. */
    void wake() {
        synchronized (this) {
            wakes++;
            if (denial != null) {
                open();
            }
        }
        go();
    }

    /** Ends the waiting of all with this error. */
    void fail(Throwable error) {
        synchronized (this) {
            failAll(error);
        }
        go();
    }

    /** Returns whether nobody would miss this line. */
    synchronized boolean isIdle() {
        return row.isEmpty() && asks == 0 && due.isEmpty() && asker == null;
    }

    /** Does what is to be done, step by step, until nothing is left that this thread may do. */
    void go() {
        go(false);
    }

    private void later() {
        lines.later(() -> go(true));
    }

    /**
     * What is done may lead here again, on the same thread: who is served waits anew, or tries again after an error.
     * That goes some steps deep, because who is served may even block until he is served again; and then it is left to
     * another thread, or the stack would be as deep as the line is long.
     */
    private void go(boolean onAnotherThread) {
        Thread me = Thread.currentThread();
        boolean tooDeep;
        synchronized (this) {
            if (asker == me) {
                return;
            }
            tooDeep = Collections.frequency(busy, me) >= DEEPEST;
            if (!tooDeep) {
                busy.add(me);
            }
        }
        if (!tooDeep) {
            boolean done = false;
            try {
                done = goOn();
            } finally {
                synchronized (this) {
                    busy.remove(me);
                }
                if (!done) {
                    later();
                }
            }
        } else if (!onAnotherThread) {
            later();
        }
    }

    /** Returns whether nothing is left that this thread may do. */
    private boolean goOn() {
        for (int steps = 0; steps < LONGEST_STAY; steps++) {
            Runnable next;
            synchronized (this) {
                next = due.poll();
                Waiter head = row.first();
                if (next == null && asker == null && head != null && denial == null) {
                    int times = times(head);
                    if (times > 0) {
                        next = questions(head, times);
                        steps += times;
                    }
                }
            }
            if (next == null) {
                if (isIdle()) {
                    lines.retire(this);
                }
                return true;
            }
            try {
                next.run();
            } catch (Throwable e) {
                // Of a subscriber who should not throw, and who is not the one whose thread this may be.
                Exceptions.throwIfFatal(e);
                Operators.onErrorDropped(e, Context.empty());
            }
        }
        return false;
    }

    private Runnable questions(Waiter head, int times) {
        HeadRequest question = new HeadRequest(head.claims, head.context, now(), wakes);
        askedSince = asks == 0 ? question.sent : askedSince;
        asks += times;
        asker = Thread.currentThread();
        return () -> ask(question, times);
    }

    /** Returns how many more times the store is to be asked for what the first asks. */
    private int times(Waiter head) {
        int room = room(head.claims);
        int alike = 0;
        for (Waiter one = head; one != null && alike < room && one.asksTheSameAs(head.claims); one = one.behind) {
            alike++;
        }
        return Math.max(0, alike - asks);
    }

    /**
     * Returns for how many who ask this there was room when the store last granted something; without that, for one.
     */
    private int room(List<Claim> claims) {
        if (granted == null) {
            return 1;
        }
        long room = MOST_ASKS;
        List<Decision.Usage> usages = granted.limits();
        for (int i = 0; i < claims.size() && i < usages.size(); i++) {
            long permits = claims.get(i).permits();
            room = permits == 0 ? room : Math.min(room, usages.get(i).remaining() / permits);
        }
        return (int) Math.max(1, room);
    }

    private void ask(HeadRequest question, int times) {
        int left = times;
        try {
            while (left > 0) {
                Answer answer = new Answer(question);
                left--;
                try {
                    lines.ask(question.claims).subscribe(answer);
                } catch (Throwable e) {
                    answer.hookOnError(e);
                    throw e;
                }
            }
        } finally {
            synchronized (this) {
                asks -= left;
                asker = null;
                freePlaces();
            }
        }
    }

    private void answered(HeadRequest question, Decision decision) {
        synchronized (this) {
            asks--;
            if (decision.isAllowed()) {
                granted = decision;
                serve(question.claims, decision);
            } else {
                refused(question, decision);
            }
            if (denial != null && asks == 0) {
                turnAwayTheImpatient(denial);
            }
            freePlaces();
        }
        go();
    }

    private void failed(Throwable error) {
        synchronized (this) {
            asks--;
            failAll(error);
        }
        go();
    }

    private void serve(List<Claim> claims, Decision decision) {
        Waiter head = row.first();
        if (head != null && head.asksTheSameAs(claims)) {
            remove(head);
            due.add(() -> {
                if (!head.granted(decision)) {
                    serveAnother(claims, decision);
                }
            });
        } else if (decision.isCharged()) {
            due.add(() -> lines.giveBack(decision));
        }
    }

    private synchronized void serveAnother(List<Claim> claims, Decision decision) {
        serve(claims, decision);
    }

    private void refused(HeadRequest question, Decision decision) {
        Waiter head = row.first();
        if (head == null || denial != null || question.wakes != wakes || !head.asksNoLessThan(question.claims)) {
            return;
        }
        Optional<Duration> wait = decision.retryAfter();
        if (wait.isEmpty()) {
            // No wait helps, says the store; others may ask less, and are asked for in their turn.
            remove(head);
            due.add(() -> head.denied(decision));
            return;
        }
        long shortest =
                Math.max(MILLISECOND, TimeUnit.MILLISECONDS.toNanos(wait.get().toMillis()));
        HeadDenial denied = new HeadDenial(question, decision, shortest, now());
        denial = denied;
        granted = null;
        // Before anything of somebody else, who may take his time.
        due.addFirst(() -> setAlarm(denied));
    }

    /**
     * Returns when the first can be served at the earliest. While the store is being asked, its answer may be of any
     * time since the question left, and one that grants may come after one that denies.
     */
    private long firstIsServed(long now) {
        if (asks > 0) {
            return askedSince;
        }
        return denial == null ? now : Math.max(now, denial.opensAt);
    }

    /** Denies all of whom it is known now that their wait would be too long. */
    private void turnAwayTheImpatient(HeadDenial denied) {
        long opensAt = Math.max(denied.heardAt, denied.opensAt);
        if (row.isPatientUntil(opensAt)) {
            return;
        }
        for (Waiter one : row.clear()) {
            // Who asks for less than was denied may be served earlier, once nobody stands before him. Those behind him
            // wait for windows from now, and those of them who ask for no less, until then at least.
            Waiter head = row.isEmpty() ? one : row.first();
            boolean headWaits = head != null && head.asksNoLessThan(denied.claims);
            long soonest = sum(headWaits ? opensAt : denied.heardAt, row.windowsUntil(one));
            if (one.asksNoLessThan(denied.claims)) {
                soonest = Math.max(soonest, opensAt);
            }
            if (soonest <= one.until) {
                row.append(one);
            } else if (row.isEmpty() && one.asksTheSameAs(denied.claims)) {
                due.add(() -> one.denied(denied.decision));
            } else {
                turnAway(one, denied.heardAt, soonest);
            }
        }
        firstHasChanged();
    }

    private void turnAway(Waiter waiter, long now, long soonest) {
        long nanos = soonest - now;
        long wait = Math.max(1, nanos / MILLISECOND + (nanos % MILLISECOND == 0 ? 0 : 1));
        HeadDenial known = denial;
        Decision decision;
        if (known == null) {
            long at = lines.clock().millis();
            decision = Decision.mustWait(at, at + wait, waiter.claims, null);
        } else {
            long at = known.decision.at().toEpochMilli() + (now - known.heardAt) / MILLISECOND;
            decision = Decision.mustWait(at, at + wait, waiter.claims, known.decision);
        }
        due.add(() -> waiter.denied(decision));
    }

    private void failAll(Throwable error) {
        for (Waiter one : row.clear()) {
            due.add(() -> one.failed(error));
        }
        firstHasChanged();
        freePlaces();
    }

    private void setAlarm(HeadDenial denied) {
        long delay;
        synchronized (this) {
            if (denial != denied) {
                return;
            }
            delay = Math.max(0, Math.min(denied.shortest, denied.opensAt - now()));
        }
        Disposable set;
        try {
            set = lines.later(() -> ring(denied), delay);
        } catch (RejectedExecutionException e) {
            fail(e);
            return;
        }
        synchronized (this) {
            if (denial == denied) {
                alarm = set;
                return;
            }
        }
        set.dispose();
    }

    private void ring(HeadDenial denied) {
        synchronized (this) {
            if (denial == denied) {
                alarm = null;
                open();
            }
        }
        go();
    }

    /** Forgets the denial: who is first may be asked for again. */
    private void open() {
        denial = null;
        Disposable set = alarm;
        alarm = null;
        if (set != null) {
            due.add(set::dispose);
        }
    }

    private void remove(Waiter waiter) {
        row.remove(waiter);
        firstHasChanged();
        freePlaces();
    }

    /** What was denied to somebody else says nothing to one who asks for less. */
    private void firstHasChanged() {
        Waiter head = row.first();
        if (denial != null && (head == null || !head.asksNoLessThan(denial.claims))) {
            open();
        }
    }

    /** Everybody in the line has a place, and so has every question that nobody is waiting for any more. */
    private boolean hasPlace() {
        if (row.size() < places) {
            return true;
        }
        if (lines.takePlace()) {
            places++;
            return true;
        }
        return false;
    }

    private void freePlaces() {
        int needed = Math.max(row.size(), asks);
        if (places > needed) {
            lines.freePlaces(places - needed);
            places = needed;
        }
    }

    /** Returns the time, in nanoseconds from anywhere; it never steps back, whatever the system's clock does. */
    private long now() {
        long system = lines.nanos();
        if (system < clock) {
            steppedBack += clock - system;
        }
        clock = system;
        return system + steppedBack;
    }

    private static long sum(long instant, long duration) {
        long sum = instant + duration;
        return sum < instant ? Long.MAX_VALUE : sum;
    }

    /** What the store is asked. */
    private record HeadRequest(List<Claim> claims, Context context, long sent, int wakes) {}

    /** What the store has refused, and until when nobody asks again. */
    private static final class HeadDenial {

        final Decision decision;
        final List<Claim> claims;
        final long heardAt;
        final long shortest;
        final long opensAt;

        HeadDenial(HeadRequest question, Decision decision, long wait, long now) {
            this.decision = decision;
            this.claims = question.claims;
            this.heardAt = now;
            this.shortest = wait;
            // From when the question left: so the next one reaches the store when the permit is there, and whoever is
            // far from it does not always come second.
            this.opensAt = sum(question.sent, wait);
        }
    }

    /** Hears one answer, and hears it once. */
    private final class Answer extends BaseSubscriber<Decision> {

        private final HeadRequest question;
        private boolean heard;

        Answer(HeadRequest question) {
            this.question = question;
        }

        @Override
        public Context currentContext() {
            return question.context;
        }

        @Override
        protected void hookOnNext(Decision decision) {
            if (!heard) {
                heard = true;
                answered(question, decision);
            }
        }

        @Override
        protected void hookOnError(Throwable error) {
            if (!heard) {
                heard = true;
                failed(error);
            } else {
                Operators.onErrorDropped(error, question.context);
            }
        }

        @Override
        protected void hookOnComplete() {
            if (!heard) {
                heard = true;
                failed(new LimitStoreException("the store has given no decision on " + question.claims, null));
            }
        }
    }
}
