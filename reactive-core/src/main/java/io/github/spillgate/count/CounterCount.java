package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The count of a counter: it stores a state, and {@link CounterState} has the arithmetic of requests. */
final class CounterCount extends RateCount {

    private static final int LENGTH = 25;

    // Longs in place of two CounterState objects, which each decision would allocate apart from the count.

    private long storedStart;
    private long storedPrevious;
    private long storedCurrent;

    private long seenStart;
    private long seenPrevious;
    private long seenCurrent;

    /** The permits in use by the state that is seen. */
    private long used;

    private long lastTaken;

    private Limit limit = NO_LIMIT;
    private long now;

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = claim.limit();
        }
        this.now = now;
        if (CounterState.isPresent(limit, now, storedStart, storedPrevious, storedCurrent)) {
            long present = CounterState.used(limit, now, storedStart, storedPrevious, storedCurrent);
            see(storedStart, storedPrevious, storedCurrent, present);
        } else {
            moveOn();
        }
    }

    private void moveOn() {
        CounterState stored = new CounterState(storedStart, storedPrevious, storedCurrent);
        see(stored.at(limit, now));
        if (stored.isAheadOf(limit, now)) {
            store(seen());
        }
    }

    @Override
    public long used() {
        return used;
    }

    @Override
    public boolean fits(long cost) {
        return used + cost <= limit.permits();
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
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied) {
        return seen().usage(reply, claim, violated, denied, nextLife(reply.stamp()));
    }

    @Override
    public long recorded() {
        return seen().previous() + seen().current();
    }

    @Override
    public List<Grants> grants() {
        List<Grants> grants = new ArrayList<>(2);
        if (seen().previous() > 0) {
            long start = Math.max(0, seen().start() - limit.window().toMillis());
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
        see(seenStart, seenPrevious, seenCurrent + cost, used + cost);
        storeSeen();
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

    /**
     * {@inheritDoc} Taken here, grants before all other permits would have opened the windows. In an earlier window
     * than that of the other permits, they would begin to fade at once.
     */
    @Override
    public long charge(List<Grants> ages) {
        CounterState seen = seen();
        boolean opens = seen.previous() == 0 && (seen.current() == 0 || openedAt(ages) < seen.start());
        CounterState charged = opens ? sum(replayed(ages), 0, seen.current()) : withEach(ages, seen);
        if (charged.previous() == seen.previous() && charged.current() == seen.current()) {
            return 0;
        }
        store(charged);
        return LimitKind.reach(limit);
    }

    /** Returns the state that an empty counter has now if the grants were taken at their times. */
    private CounterState replayed(List<Grants> ages) {
        CounterState state = CounterState.empty(limit, openedAt(ages));
        for (Grants some : ages) {
            long time = timeOf(some.toMillis());
            boolean opens =
                    state.isEmpty() && time - state.start() < limit.window().toMillis();
            state = sum(opens ? state : state.at(limit, time), 0, some.permits());
        }
        return state.at(limit, now);
    }

    private CounterState withEach(List<Grants> ages, CounterState state) {
        CounterState charged = state;
        for (Grants some : ages) {
            long time = timeOf(some.toMillis());
            if (time >= state.start()) {
                charged = sum(charged, 0, some.permits());
            } else if (time >= state.start() - limit.window().toMillis()) {
                charged = sum(charged, some.permits(), 0);
            }
        }
        return charged;
    }

    /**
     * {@inheritDoc} Each window gets as many restored permits as any instance knew there. The numbers are the start of
     * the window, and the restored permits of the previous and of this window.
     */
    @Override
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        long window = limit.window().toMillis();
        long opening = CounterState.empty(limit, now).start();
        CounterState known = replayed(ages);
        CounterState has =
                new CounterState(Math.min(opening, earlier.first()), earlier.second(), earlier.third()).at(limit, now);
        has = has.isEmpty() ? new CounterState(known.start(), 0, 0) : has;
        has = follow(has, known);
        known = follow(known, has);
        long previous = Math.max(0, known.previous() - has.previous());
        long current = Math.max(0, known.current() - has.current());
        if (previous == 0 && current == 0) {
            return null;
        }
        CounterState seen = seen();
        if (2 * Math.abs(seen.start() - known.start()) >= window) {
            // Windows that begin at other times: what is left of the permits counts in this one.
            double left = Math.ceil((double) seen.previous() * (window - now + seen.start()) / window);
            store(sum(new CounterState(known.start(), previous, current), 0, seen.current() + (long) left));
        } else {
            long start = seen.isEmpty() ? known.start() : Math.max(seen.start(), known.start());
            store(sum(new CounterState(start, previous, current), seen.previous(), seen.current()));
        }
        return earlier.with(Math.max(has.start(), known.start()), previous + has.previous(), current + has.current());
    }

    /** Moves to the next window if that of the other state is nearer to it: two messages are in flight. */
    private CounterState follow(CounterState state, CounterState other) {
        boolean isNearer = 2 * (other.start() - state.start()) > limit.window().toMillis();
        return isNearer ? new CounterState(state.start(), state.current(), 0) : state;
    }

    private static CounterState sum(CounterState state, long previous, long current) {
        return new CounterState(
                state.start(),
                Math.min(Bounds.MOST_EXACT, state.previous() + previous),
                Math.min(Bounds.MOST_EXACT, state.current() + current));
    }

    private long openedAt(List<Grants> ages) {
        return timeOf(ages.isEmpty() ? 0 : ages.get(0).fromMillis());
    }

    private long timeOf(long age) {
        return Math.max(0, now - age);
    }

    @Override
    public void clear() {
        storedPrevious = 0;
        storedCurrent = 0;
    }

    @Override
    int emptyLength() {
        return LENGTH;
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
        return storedStart + 2 * limit.window().toMillis();
    }

    private void storeIfChanged(CounterState state) {
        if (!state.equals(seen())) {
            store(state);
        }
    }

    private void store(CounterState state) {
        see(state);
        storeSeen();
    }

    private void storeSeen() {
        changed();
        storedStart = seenStart;
        storedPrevious = seenPrevious;
        storedCurrent = seenCurrent;
    }

    private CounterState seen() {
        return new CounterState(seenStart, seenPrevious, seenCurrent);
    }

    private void see(CounterState state) {
        see(state.start(), state.previous(), state.current(), state.used(limit, now));
    }

    private void see(long start, long previous, long current, long usedNow) {
        seenStart = start;
        seenPrevious = previous;
        seenCurrent = current;
        used = usedNow;
    }
}
