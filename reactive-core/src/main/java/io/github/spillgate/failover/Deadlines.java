package io.github.spillgate.failover;

import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.Time;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import reactor.core.Exceptions;
import reactor.core.scheduler.Schedulers;

/**
 * Deadlines of many calls that all have the same length.
 *
 * <p>A timer for each call would cost more than the call, and nearly all timers would be cancelled. With equal lengths
 * the first call is due first, so a queue with one timer for its head is enough. Calls that have ended are dropped from
 * the head when new ones are added, so the queue is about as long as there are calls in flight.
 *
 * <p>No deadline is early. If many are due at once, several threads answer the callers. A deadline also reports whether
 * this process was stalled before it, by garbage collection or a lack of CPU time: the reply may have arrived since.
 */
final class Deadlines {

    /** How many callers one thread answers in a row. */
    static final int ANSWERED_TOGETHER = 64;

    /** After this many additions, calls that have ended are also removed from behind the head. */
    private static final int SWEEP = 4_096;

    /** The shortest time between two runs of the timer, in nanoseconds. */
    private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(1);

    /** A timer that is overdue by this time will not run: its scheduler was shut down. */
    private static final long LOST = TimeUnit.SECONDS.toNanos(5);

    /** The number of runs of the timer in one length. If one is late by a whole interval, this process was stalled. */
    private static final int RUNS = 4;

    private final long nanos;

    /** The longest time between two runs of the timer. */
    private final long interval;

    private final Queue<TimedCall> queue = new ConcurrentLinkedQueue<>();

    /** A lock of the head of the queue, for which no thread waits. */
    private final AtomicBoolean isHeadLocked = new AtomicBoolean();

    /** Whether a timer is set. */
    private final AtomicBoolean isArmed = new AtomicBoolean();

    /** The number of the newest timer. */
    private final AtomicLong timers = new AtomicLong();

    private volatile long timerAt = Time.nanos();

    /** The end of the last stall of this process. */
    private volatile long stalledUntil = timerAt - 1;

    /** The number of additions since the last sweep; guarded by the lock of the head. */
    private int unswept;

    Deadlines(long nanos) {
        this.nanos = nanos;
        this.interval = Math.max(SHORTEST, nanos / RUNS);
    }

    /** Adds a call that begins now, and returns the time. */
    long add(TimedCall call) {
        long now = Time.nanos();
        call.due = now + nanos;
        queue.add(call);
        if (isHeadLocked.compareAndSet(false, true)) {
            dropEnded();
            if (++unswept >= SWEEP) {
                unswept = 0;
                queue.removeIf(TimedCall::isDone);
            }
            isHeadLocked.set(false);
        }
        if (now - timerAt > LOST && isArmed.compareAndSet(true, false)) {
            // Its scheduler was shut down and replaced, or the process was stalled for that time.
            stalledUntil = now;
        }
        arm(interval);
        return now;
    }

    /** Adds a call that begins now, and for which it makes no difference whether this process was stalled. */
    void add(BooleanSupplier isDone, Runnable onDeadline) {
        add(new TimedCall() {
            @Override
            boolean isDone() {
                return isDone.getAsBoolean();
            }

            @Override
            boolean onDeadline(boolean stalled) {
                onDeadline.run();
                return false;
            }
        });
    }

    private void arm(long delay) {
        if (!isArmed.get() && isArmed.compareAndSet(false, true)) {
            try {
                long mine = timers.incrementAndGet();
                timerAt = Time.nanos() + delay;
                Background.scheduler().schedule(() -> run(mine), delay, TimeUnit.NANOSECONDS);
            } catch (RejectedExecutionException e) {
                isArmed.set(false);
                throw e;
            }
        }
    }

    private void dropEnded() {
        for (TimedCall head = queue.peek(); head != null && head.isDone(); head = queue.peek()) {
            queue.poll();
        }
    }

    /** Reports what is due, if this is still the newest timer. */
    private void run(long timer) {
        if (timers.get() != timer) {
            return;
        }
        long now = Time.nanos();
        if (now - timerAt >= interval) {
            stalledUntil = now;
        }
        List<TimedCall> due = new ArrayList<>();
        long next = SHORTEST;
        // A thread that has locked the head only drops calls that have ended, so it is quick. If one has, the next run
        // takes what is due.
        if (isHeadLocked.compareAndSet(false, true)) {
            next = takeDue(due, now);
            isHeadLocked.set(false);
        }
        isArmed.set(false);
        try {
            if (!queue.isEmpty()) {
                arm(Math.max(SHORTEST, Math.min(interval, next)));
            }
        } finally {
            report(due, stalledUntil);
        }
    }

    /** Takes what is due from the queue, and returns the time until the next deadline. */
    private long takeDue(List<TimedCall> due, long now) {
        while (true) {
            dropEnded();
            TimedCall head = queue.peek();
            if (head == null) {
                return nanos;
            }
            if (head.due - now > 0) {
                return head.due - now;
            }
            queue.poll();
            due.add(head);
        }
    }

    private void report(List<TimedCall> due, long stalledUntil) {
        List<TimedCall> unanswered = new ArrayList<>(due.size());
        for (TimedCall call : due) {
            if (mustAnswer(call, stalledUntil)) {
                unanswered.add(call);
            }
        }
        for (int i = 0; i < unanswered.size(); i += ANSWERED_TOGETHER) {
            List<TimedCall> some = unanswered.subList(i, Math.min(i + ANSWERED_TOGETHER, unanswered.size()));
            Schedulers.parallel().schedule(() -> answerFrom(0, some, stalledUntil));
        }
    }

    private boolean mustAnswer(TimedCall call, long stalledUntil) {
        try {
            return call.onDeadline(isStalled(call, stalledUntil));
        } catch (Throwable e) {
            // It must not affect the next call, and this one still needs an answer.
            Exceptions.throwIfFatal(e);
            Dropped.report(e);
            return true;
        }
    }

    private boolean isStalled(TimedCall call, long stalledUntil) {
        return stalledUntil - (call.due - nanos) > 0;
    }

    /** Returns whether this process was stalled since a time, even if its timer is still overdue. */
    boolean isStalledSince(long time) {
        return stalledUntil - time > 0 || Time.nanos() - timerAt >= interval;
    }

    /** Answers one after another; if one throws a fatal error, another thread continues with the rest. */
    private void answerFrom(int from, List<TimedCall> unanswered, long stalledUntil) {
        int next = from;
        try {
            while (next < unanswered.size()) {
                answer(unanswered.get(next++), stalledUntil);
            }
        } finally {
            int rest = next;
            if (rest < unanswered.size()) {
                Schedulers.parallel().schedule(() -> answerFrom(rest, unanswered, stalledUntil));
            }
        }
    }

    private void answer(TimedCall call, long stalledUntil) {
        try {
            call.answer(isStalled(call, stalledUntil));
        } catch (Throwable e) {
            // Thrown by a subscriber, which must not affect the next call.
            Exceptions.throwIfFatal(e);
            Dropped.report(e);
        }
    }

    /** Returns the length of the queue, for tests. */
    int size() {
        return queue.size();
    }

    /** A call with a deadline. It is added once. */
    abstract static class TimedCall {

        private long due;

        /** Returns whether the call has ended, and needs no deadline any more. */
        abstract boolean isDone();

        /**
         * Judges that the deadline has passed. Runs on the {@linkplain Background background} thread, and no code of
         * the caller with it.
         *
         * @param stalled whether this process was stalled since the call began
         * @return whether the caller has to be {@linkplain #answer answered}
         */
        abstract boolean onDeadline(boolean stalled);

        /** Answers the caller, on a thread of {@code Schedulers.parallel()}. */
        void answer(boolean stalled) {}
    }
}
