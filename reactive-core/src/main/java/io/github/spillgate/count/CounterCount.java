package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.List;

/** The count of a counter. {@link CounterState} has the arithmetic; this class only stores the state. */
final class CounterCount extends RateCount {

    static final int LENGTH = 25;

    // Longs in place of two CounterState objects, which each decision would allocate apart from the count.

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
    public void advance(Claim claim, long now) {
        limit = claim.limit();
        this.now = now;
        CounterState stored = new CounterState(storedStart, storedPrevious, storedCurrent);
        see(stored.at(limit, now));
        if (stored.isAheadOf(limit, now)) {
            store(seen());
        }
    }

    @Override
    public long used() {
        return seen().used(limit, now);
    }

    @Override
    public boolean fits(long cost) {
        return seen().used(limit, now) + cost <= limit.permits();
    }

    @Override
    public long fitsAt(long cost) {
        return seen().fitsAt(limit, cost, now);
    }

    @Override
    public long wholeAt() {
        return seen().wholeAt(limit, now);
    }

    @Override
    public long recorded() {
        return seen().previous() + seen().current();
    }

    @Override
    public List<Grants> grants() {
        List<Grants> grants = new ArrayList<>(2);
        if (seen().previous() > 0) {
            long start = Math.max(0, seen().start() - limit.period().toMillis());
            grants.add(new Grants(start, seen().start() - 1, seen().previous()));
        }
        if (seen().current() > 0) {
            grants.add(
                    new Grants(seen().start(), Math.max(seen().start(), Math.min(lastTaken, now)), seen().current()));
        }
        return grants;
    }

    @Override
    public void take(long cost) {
        store(seen().plus(cost));
        lastTaken = now;
    }

    @Override
    public void recordDenied(long cost) {
        store(seen().plusDenied(limit, cost));
        lastTaken = now;
    }

    @Override
    public void refund(long takenAt, long permits) {
        storeIfChanged(seen().minus(limit, takenAt, permits));
    }

    @Override
    public void refundOldest(long permits) {
        storeIfChanged(seen().minusOldest(permits));
    }

    @Override
    public void clear() {
        storedPrevious = 0;
        storedCurrent = 0;
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        this.limit = limit;
        if (value.length == 0) {
            return true;
        }
        CountValue in = new CountValue(value);
        if (value.length != LENGTH || in.nextKind() != CountValue.COUNTER) {
            return false;
        }
        readLife(in);
        storedPrevious = in.next(7);
        storedCurrent = in.next(7);
        storedStart = in.next(6);
        return true;
    }

    @Override
    public byte[] write(long micros) {
        return new CountValue(LENGTH, CountValue.COUNTER, lifeAt(micros))
                .add(storedPrevious, 7)
                .add(storedCurrent, 7)
                .add(storedStart, 6)
                .bytes();
    }

    @Override
    public long expiresAt() {
        return storedStart + 2 * limit.period().toMillis();
    }

    private void storeIfChanged(CounterState state) {
        if (!state.equals(seen())) {
            store(state);
        }
    }

    private void store(CounterState state) {
        changed();
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
