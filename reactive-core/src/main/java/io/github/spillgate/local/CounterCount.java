package io.github.spillgate.local;

import io.github.spillgate.Claim;
import io.github.spillgate.CounterState;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import org.jspecify.annotations.Nullable;

/** The count of a counter: the arithmetic is that of {@link CounterState}, here is only its memory. */
final class CounterCount extends Count {

    private @Nullable CounterState stored;
    private CounterState seen = new CounterState(0, 0, 0);
    private long now;

    @Override
    void look(Limit limit, long now) {
        this.now = now;
        if (stored == null) {
            seen = CounterState.empty(limit, now);
            return;
        }
        seen = stored.at(limit, now);
        if (stored.isAheadOf(limit, now)) {
            stored = seen;
        }
    }

    @Override
    boolean fits(Limit limit, long cost) {
        return seen.used(limit, now) + cost <= limit.permits();
    }

    @Override
    void take(long cost) {
        store(seen.plus(cost));
    }

    @Override
    void recordDenied(Limit limit, long cost) {
        store(seen.plusDenied(limit, cost));
    }

    @Override
    void refund(Limit limit, long takenAt, long permits) {
        storeIfChanged(seen.minus(limit, takenAt, permits));
    }

    @Override
    void refundOldest(long permits) {
        storeIfChanged(seen.minusOldest(permits));
    }

    @Override
    void clear() {
        stored = null;
    }

    private void storeIfChanged(CounterState state) {
        if (!state.equals(seen)) {
            store(state);
        }
    }

    private void store(CounterState state) {
        seen = state;
        stored = state.isEmpty() ? null : state;
    }

    @Override
    Usage usage(Claim claim, boolean violated, boolean denied) {
        return Usage.ofCounter(claim, seen, violated, denied, now);
    }
}
