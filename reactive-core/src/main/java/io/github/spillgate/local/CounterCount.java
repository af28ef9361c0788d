package io.github.spillgate.local;

import io.github.spillgate.CounterState;
import io.github.spillgate.Limit;
import io.github.spillgate.Settlement.Hits;
import java.util.ArrayList;
import java.util.List;

/** The count of a counter: the arithmetic is that of {@link CounterState}, here is only its memory. */
final class CounterCount extends Count {

    // Longs instead of two states, which would be made anew by every decision, and lie elsewhere in memory than the
    // count.

    private long storedStart;
    private long storedPrevious;
    private long storedCurrent;

    private long seenStart;
    private long seenPrevious;
    private long seenCurrent;

    private long lastTaken;

    private Limit limit = Limit.perSecond(1);
    private long now;

    @Override
    void look(Limit limit, long now) {
        this.limit = limit;
        this.now = now;
        CounterState stored = new CounterState(storedStart, storedPrevious, storedCurrent);
        if (stored.isEmpty()) {
            see(CounterState.empty(limit, now));
            return;
        }
        see(stored.at(limit, now));
        if (stored.isAheadOf(limit, now)) {
            store(seen());
        }
    }

    @Override
    long used() {
        return seen().used(limit, now);
    }

    @Override
    boolean fits(Limit limit, long cost) {
        return seen().used(limit, now) + cost <= limit.permits();
    }

    @Override
    long fitsAt(Limit limit, long cost) {
        return seen().fitsAt(limit, cost, now);
    }

    @Override
    long wholeAt() {
        return seen().wholeAt(limit, now);
    }

    @Override
    long recorded() {
        return seen().previous() + seen().current();
    }

    @Override
    List<Hits> hits() {
        List<Hits> hits = new ArrayList<>(2);
        if (seen().previous() > 0) {
            long start = Math.max(0, seen().start() - limit.window().toMillis());
            hits.add(new Hits(start, seen().start() - 1, seen().previous()));
        }
        if (seen().current() > 0) {
            hits.add(new Hits(seen().start(), Math.max(seen().start(), Math.min(lastTaken, now)), seen().current()));
        }
        return hits;
    }

    @Override
    void take(long cost) {
        store(seen().plus(cost));
        lastTaken = now;
    }

    @Override
    void recordDenied(Limit limit, long cost) {
        store(seen().plusDenied(limit, cost));
        lastTaken = now;
    }

    @Override
    void refund(Limit limit, long takenAt, long permits) {
        storeIfChanged(seen().minus(limit, takenAt, permits));
    }

    @Override
    void refundOldest(long permits) {
        storeIfChanged(seen().minusOldest(permits));
    }

    @Override
    void clear() {
        storedPrevious = 0;
        storedCurrent = 0;
    }

    private void storeIfChanged(CounterState state) {
        if (!state.equals(seen())) {
            store(state);
        }
    }

    private void store(CounterState state) {
        see(state);
        storedStart = seenStart;
        storedPrevious = seenPrevious;
        storedCurrent = seenCurrent;
    }

    private CounterState seen() {
        return new CounterState(seenStart, seenPrevious, seenCurrent);
    }

    private void see(CounterState state) {
        seenStart = state.start();
        seenPrevious = state.previous();
        seenCurrent = state.current();
    }
}
