package io.github.spillgate.failover;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import reactor.core.Exceptions;
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/**
 * Tells many who all wait equally long when their time is up.
 *
 * <p>A timer for each would cost more than the answer it guards, and nearly all would be cancelled. As all wait equally
 * long, who came first is due first: a queue is enough, with one alarm for its head. Those who have been answered are
 * dropped from the head as new ones come, so that the queue is about as long as there are open questions.
 *
 * <p>Nobody is told early. When many are due at once, no thread is kept by all of them. And whoever is told hears
 * whether this process has stood still while he waited, for a collection of garbage or for want of a processor: what he
 * waits for may be there.
 */
final class Deadlines {

    /** So many are told by one thread, one after another. */
    static final int TOLD_TOGETHER = 64;

    /** After so many who came, those are dropped as well who have been answered before one who came earlier. */
    private static final int SWEEP = 4_096;

    /** The alarm rings no more often than this, in nanoseconds. */
    private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(1);

    /** An alarm that is overdue by so much does not ring any more. */
    private static final long LOST = TimeUnit.SECONDS.toNanos(5);

    /** An alarm that comes late by this part of the time says that this process has stood still; it rings as often. */
    private static final int PART = 4;

    private final long nanos;
    private final long part;
    private final Queue<DeadlineEntry> queue = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean atTheHead = new AtomicBoolean();
    private final AtomicBoolean armed = new AtomicBoolean();
    private final AtomicLong alarms = new AtomicLong();
    private volatile long alarmAt = now();
    private volatile long stoodStillUntil = alarmAt - 1;
    private int unswept;

    Deadlines(long nanos) {
        this.nanos = nanos;
        this.part = Math.max(SHORTEST, nanos / PART);
    }

    static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** Lets somebody wait from now on, and returns when that is. */
    long add(Waiting waiting) {
        long now = now();
        queue.add(new DeadlineEntry(waiting, now + nanos));
        if (atTheHead.compareAndSet(false, true)) {
            dropAnswered();
            if (++unswept >= SWEEP) {
                unswept = 0;
                queue.removeIf(entry -> entry.waiting.isAnswered());
            }
            atTheHead.set(false);
        }
        if (now - alarmAt > LOST && armed.compareAndSet(true, false)) {
            // Its scheduler has been shut down, and there is another one now; or the process has stood still for as
            // long.
            stoodStillUntil = now;
        }
        arm(part);
        return now;
    }

    private void arm(long delay) {
        if (!armed.get() && armed.compareAndSet(false, true)) {
            try {
                long mine = alarms.incrementAndGet();
                alarmAt = now() + delay;
                Schedulers.parallel().schedule(() -> ring(mine), delay, TimeUnit.NANOSECONDS);
            } catch (RejectedExecutionException e) {
                armed.set(false);
                throw e;
            }
        }
    }

    private void dropAnswered() {
        for (DeadlineEntry head = queue.peek(); head != null && head.waiting.isAnswered(); head = queue.peek()) {
            queue.poll();
        }
    }

    /** Rings, if that is still the newest alarm. */
    private void ring(long alarm) {
        if (alarms.get() != alarm) {
            return;
        }
        long now = now();
        if (now - alarmAt >= part) {
            stoodStillUntil = now;
        }
        List<DeadlineEntry> due = new ArrayList<>();
        long next = SHORTEST;
        // Whoever is at the head drops some who have been answered, and is soon through.
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
            tell(due, stoodStillUntil);
        }
    }

    /** Takes those from the queue who are due, and returns how long the next one has. */
    private long takeDue(List<DeadlineEntry> due, long now) {
        while (true) {
            dropAnswered();
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

    private void tell(List<DeadlineEntry> due, long stillUntil) {
        for (int i = TOLD_TOGETHER; i < due.size(); i += TOLD_TOGETHER) {
            List<DeadlineEntry> some = due.subList(i, Math.min(i + TOLD_TOGETHER, due.size()));
            Schedulers.parallel().schedule(() -> tell(some, 0, stillUntil));
        }
        tell(due.subList(0, Math.min(TOLD_TOGETHER, due.size())), 0, stillUntil);
    }

    /** Tells them one after another, on another thread where one of them throws so that this one cannot go on. */
    private void tell(List<DeadlineEntry> due, int from, long stillUntil) {
        int next = from;
        try {
            while (next < due.size()) {
                tell(due.get(next++), stillUntil);
            }
        } finally {
            int rest = next;
            if (rest < due.size()) {
                Schedulers.parallel().schedule(() -> tell(due, rest, stillUntil));
            }
        }
    }

    private void tell(DeadlineEntry entry, long stillUntil) {
        try {
            entry.waiting.timeIsUp(stillUntil - (entry.due - nanos) > 0);
        } catch (Throwable e) {
            // Of a subscriber who should not throw; the next one has nothing to do with him.
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, Context.empty());
        }
    }

    /** How many are in the queue, for tests to look at. */
    int size() {
        return queue.size();
    }

    /** Somebody who waits. */
    interface Waiting {

        /** Returns whether it does not have to be told any more. */
        boolean isAnswered();

        /**
         * Hears that the time is up.
         *
         * @param stoodStill whether this process has stood still meanwhile
         */
        void timeIsUp(boolean stoodStill);
    }

    private record DeadlineEntry(Waiting waiting, long due) {}
}
