package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.math.BigInteger;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A counter: three integers, and the estimate of the design multiplied out, so that nothing is ever rounded. */
final class CounterModel extends CountModel {

    private boolean known;
    private long start;
    private long previous;
    private long current;

    @Override
    void pull(Limit limit, long now) {
        if (known && start > windowStart(limit, now)) {
            long all = Math.min(previous + current, limit.permits());
            start = windowStart(limit, now);
            current = Math.max(current, all);
            previous = 0;
        }
    }

    /** This count with the windows that have passed until now passed on. */
    private CounterModel at(Limit limit, long now) {
        CounterModel then = copy();
        long window = limit.window().toMillis();
        while (then.known && now >= then.start + window) {
            then.previous = then.current;
            then.current = 0;
            then.start += window;
            then.known = then.previous > 0;
        }
        if (!then.known || (then.previous == 0 && then.current == 0)) {
            then.known = false;
            then.previous = 0;
            then.start = windowStart(limit, now);
        }
        return then;
    }

    /** The weighted count of the previous window, times the length of a window. */
    private BigInteger weighted(Limit limit, long now) {
        long left = limit.window().toMillis() - (now - start);
        return BigInteger.valueOf(previous).multiply(BigInteger.valueOf(left));
    }

    @Override
    long used(Limit limit, long now) {
        CounterModel then = at(limit, now);
        BigInteger[] quotient = then.weighted(limit, now)
                .divideAndRemainder(BigInteger.valueOf(limit.window().toMillis()));
        return then.current + quotient[0].longValueExact() + quotient[1].signum();
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        CounterModel then = at(limit, now);
        BigInteger free = BigInteger.valueOf(limit.permits() - then.current - cost);
        return then.weighted(limit, now)
                        .compareTo(
                                free.multiply(BigInteger.valueOf(limit.window().toMillis())))
                <= 0;
    }

    @Override
    void take(Limit limit, long cost, long now) {
        become(at(limit, now));
        current += cost;
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        become(at(limit, now));
        current = Math.max(current, Math.min(limit.permits(), current + cost));
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {
        CounterModel then = at(limit, now);
        long window = limit.window().toMillis();
        if (takenAt >= then.start) {
            then.current = Math.max(0, then.current - permits);
        } else if (takenAt >= then.start - window && takenAt < then.start) {
            then.previous = Math.max(0, then.previous - permits);
        }
        becomeIfOther(limit, then, now);
    }

    @Override
    void refundOldest(Limit limit, long permits, long now) {
        CounterModel then = at(limit, now);
        for (long i = 0; i < permits; i++) {
            if (then.previous > 0) {
                then.previous--;
            } else if (then.current > 0) {
                then.current--;
            }
        }
        becomeIfOther(limit, then, now);
    }

    @Override
    boolean reconcile(Limit limit, List<Grants> times, long now) {
        CounterModel then = at(limit, now);
        boolean opens =
                then.previous == 0 && (!then.known || Math.min(times.get(0).fromMillis(), now) < then.start);
        CounterModel reconciled = opens ? replayed(limit, times, now) : then.with(limit, times, now);
        if (opens && reconciled.previous + reconciled.current > 0) {
            reconciled.current += then.current;
        } else if (opens) {
            return false;
        }
        if (reconciled.previous == then.previous && reconciled.current == then.current) {
            return false;
        }
        become(reconciled);
        return true;
    }

    private CounterModel with(Limit limit, List<Grants> times, long now) {
        CounterModel reconciled = at(limit, now);
        for (Grants some : times) {
            long time = Math.min(some.toMillis(), now);
            if (time >= reconciled.start) {
                reconciled.current += some.permits();
            } else if (time >= reconciled.start - limit.window().toMillis()) {
                reconciled.previous += some.permits();
            }
        }
        return reconciled;
    }

    private static CounterModel replayed(Limit limit, List<Grants> times, long now) {
        CounterModel replayed = new CounterModel();
        long opened = Math.min(times.get(0).fromMillis(), now);
        for (int i = 0; i < times.size(); i++) {
            long time = Math.min(times.get(i).toMillis(), now);
            replayed = replayed.at(limit, time);
            if (!replayed.known) {
                long first = windowStart(limit, opened);
                boolean opens = i == 0 && time < first + limit.window().toMillis();
                replayed.start = opens ? first : windowStart(limit, time);
                replayed.known = true;
            }
            replayed.current += times.get(i).permits();
        }
        return replayed.at(limit, now);
    }

    @Override
    void reset() {
        known = false;
        previous = 0;
        current = 0;
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        CounterModel then = at(limit, now);
        return then.previous == 0 && then.current == 0;
    }

    private CounterModel copy() {
        CounterModel copy = new CounterModel();
        copy.known = known;
        copy.start = start;
        copy.previous = previous;
        copy.current = current;
        return copy;
    }

    CounterState state(Limit limit, long now) {
        CounterModel then = at(limit, now);
        return new CounterState(then.start, then.previous, then.current);
    }

    @Override
    @Nullable
    Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
        long window = limit.window().toMillis();
        CounterModel before = at(limit, now);
        CounterModel lost = replayed(limit, StoreModel.times(ages, now), now);
        CounterModel has = new CounterModel();
        if (earlier != null) {
            has.start = Math.min(windowStart(limit, now), earlier.at());
            has.previous = earlier.others();
            has.current = earlier.permits();
            has.known = true;
            has.become(has.at(limit, now));
        }
        if (has.previous + has.current == 0) {
            has.start = lost.start;
        }
        has.follow(lost, window);
        lost.follow(has, window);
        long previous = Math.max(0, lost.previous - has.previous);
        long current = Math.max(0, lost.current - has.current);
        if (previous + current == 0) {
            return null;
        }
        known = true;
        this.previous = previous;
        this.current = current;
        start = lost.start;
        if (2 * Math.abs(before.start - lost.start) < window) {
            start = before.previous + before.current == 0 ? start : Math.max(start, before.start);
            this.previous += before.previous;
            this.current += before.current;
        } else {
            this.current += before.used(limit, now);
        }
        return new Restored(Math.max(has.start, lost.start), current + has.current, 0, previous + has.previous);
    }

    private void follow(CounterModel other, long window) {
        if (2 * (other.start - start) > window) {
            previous = current;
            current = 0;
        }
    }

    private void becomeIfOther(Limit limit, CounterModel then, long now) {
        CounterModel seen = at(limit, now);
        if (then.previous != seen.previous || then.current != seen.current) {
            become(then);
        }
    }

    private void become(CounterModel then) {
        known = true;
        start = then.start;
        previous = then.previous;
        current = then.current;
    }

    private static long windowStart(Limit limit, long now) {
        return limit.isAlignedToClock() ? now - now % limit.window().toMillis() : now;
    }
}
