package io.github.spillgate.failover;

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
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/**
 * Deadlines of many calls that all have the same length.
 *
 * <p>A timer for each call would cost more than the call, and nearly all timers would be cancelled. With equal lengths
 * the first call is due first, so a queue with one timer for its head is enough. Calls that have ended are dropped from
 * the head when new ones are added, so the queue is about as long as there are calls in flight.
 *
 * <p>No deadline is early. If many are due at once, several threads share the work. A deadline also reports whether
 * this process stood still before it, because of garbage collection or a lack of CPU time: the reply may have arrived
 * since.
 */
final class Deadlines {

    /** How many deadlines one thread reports in a row. */
    static final int REPORTED_TOGETHER = 64;

    /** After this many additions, calls that have ended are also removed from behind the head. */
    private static final int SWEEP = 4_096;

    /** The shortest time between two runs of the timer, in nanoseconds. */
    private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(1);

    /** A timer that is overdue by this time will not run: its scheduler was shut down. */
    private static final long LOST = TimeUnit.SECONDS.toNanos(5);

    /** The timer runs every quarter of the length. If it is late by that much, this process stood still. */
    private static final int PART = 4;

    private final long nanos;
    private final long part;
    private final Queue<DeadlineEntry> queue = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean atTheHead = new AtomicBoolean();
    private final AtomicBoolean armed = new AtomicBoolean();
    private final AtomicLong timers = new AtomicLong();
    private volatile long timerAt = now();
    private volatile long stoodStillUntil = timerAt - 1;
    private int unswept;

    Deadlines(long nanos) {
        this.nanos = nanos;
        this.part = Math.max(SHORTEST, nanos / PART);
    }

    static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** Adds a call that begins now, and returns the time. */
    long add(Waiting waiting) {
        long now = now();
        queue.add(new DeadlineEntry(waiting, now + nanos));
        if (atTheHead.compareAndSet(false, true)) {
            dropEnded();
            if (++unswept >= SWEEP) {
                unswept = 0;
                queue.removeIf(entry -> entry.waiting.isAnswered());
            }
            atTheHead.set(false);
        }
        if (now - timerAt > LOST && armed.compareAndSet(true, false)) {
            // Its scheduler was shut down and replaced, or the process stood still for that time.
            stoodStillUntil = now;
        }
        arm(part);
        return now;
    }

    /** Adds a call that begins now. It does not matter to this one whether the process stood still. */
    void add(BooleanSupplier isAnswered, Runnable timeIsUp) {
        add(new Waiting() {
            @Override
            public boolean isAnswered() {
                return isAnswered.getAsBoolean();
            }

            @Override
            public void timeIsUp(boolean stoodStill) {
                timeIsUp.run();
            }
        });
    }

    private void arm(long delay) {
        if (!armed.get() && armed.compareAndSet(false, true)) {
            try {
                long mine = timers.incrementAndGet();
                timerAt = now() + delay;
                Schedulers.parallel().schedule(() -> run(mine), delay, TimeUnit.NANOSECONDS);
            } catch (RejectedExecutionException e) {
                armed.set(false);
                throw e;
            }
        }
    }

    private void dropEnded() {
        for (DeadlineEntry head = queue.peek(); head != null && head.waiting.isAnswered(); head = queue.peek()) {
            queue.poll();
        }
    }

    /** Reports what is due, if this is still the newest timer. */
    private void run(long timer) {
        if (timers.get() != timer) {
            return;
        }
        long now = now();
        if (now - timerAt >= part) {
            stoodStillUntil = now;
        }
        List<DeadlineEntry> due = new ArrayList<>();
        long next = SHORTEST;
        // A thread at the head only drops calls that have ended, and leaves soon; the next run takes what is due.
        if (atTheHead.compareAndSet(false, true)) {
            next = takeDue(due, now);
            atTheHead.set(false);
        }
        armed.set(false);
        try {
            if (!queue.isEmpty()) {
                arm(Math.max(SHORTEST, Math.min(part, next)));
            }
        } finally {
            report(due, stoodStillUntil);
        }
    }

    /** Takes what is due from the queue, and returns the time until the next deadline. */
    private long takeDue(List<DeadlineEntry> due, long now) {
        while (true) {
            dropEnded();
            DeadlineEntry head = queue.peek();
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

    private void report(List<DeadlineEntry> due, long stillUntil) {
        for (int i = REPORTED_TOGETHER; i < due.size(); i += REPORTED_TOGETHER) {
            List<DeadlineEntry> some = due.subList(i, Math.min(i + REPORTED_TOGETHER, due.size()));
            Schedulers.parallel().schedule(() -> reportFrom(0, some, stillUntil));
        }
        reportFrom(0, due.subList(0, Math.min(REPORTED_TOGETHER, due.size())), stillUntil);
    }

    /** Reports one after another; if one throws a fatal error, another thread continues with the rest. */
    private void reportFrom(int from, List<DeadlineEntry> due, long stillUntil) {
        int next = from;
        try {
            while (next < due.size()) {
                report(due.get(next++), stillUntil);
            }
        } finally {
            int rest = next;
            if (rest < due.size()) {
                Schedulers.parallel().schedule(() -> reportFrom(rest, due, stillUntil));
            }
        }
    }

    private void report(DeadlineEntry entry, long stillUntil) {
        try {
            entry.waiting.timeIsUp(stillUntil - (entry.due - nanos) > 0);
        } catch (Throwable e) {
            // Thrown by a subscriber, which must not affect the next call.
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, Context.empty());
        }
    }

    /** Returns the length of the queue, for tests. */
    int size() {
        return queue.size();
    }

    /** A call with a deadline. */
    interface Waiting {

        /** Returns whether the call has ended, and needs no deadline any more. */
        boolean isAnswered();

        /**
         * Reports that the deadline has passed.
         *
         * @param stoodStill whether this process stood still since the call began
         */
        void timeIsUp(boolean stoodStill);
    }

    private record DeadlineEntry(Waiting waiting, long due) {}
}
