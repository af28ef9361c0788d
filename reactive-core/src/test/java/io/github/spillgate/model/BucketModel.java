package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import org.jspecify.annotations.Nullable;

/**
 * A token bucket: a list of all that was ever taken. The level is computed from its beginning each time, without
 * rounding. What is refunded is removed from the list.
 */
final class BucketModel extends CountModel {

    /** Something that was taken, or nothing; until then, each millisecond has returned so many units. */
    private record Event(long at, BigInteger units, BigInteger returned) {

        Event less(BigInteger some) {
            return new Event(at, units.subtract(some), returned);
        }
    }

    /** The lowest level since a time, as far as it is known. */
    private record Mark(BigInteger low, long since) {

        Mark atMost(BigInteger level) {
            return new Mark(low.min(level), since);
        }

        Mark less(BigInteger units) {
            return new Mark(low.subtract(units).max(BigInteger.ZERO), since);
        }
    }

    private static final Mark NONE = new Mark(BigInteger.ZERO, 0);

    private final List<Event> events = new ArrayList<>();
    private Mark newer = NONE;
    private Mark older = NONE;

    /** Whether permits were leased since the bucket was empty. */
    private boolean isLeased;

    @Override
    void pull(Limit limit, long now) {
        if (!events.isEmpty() && events.get(events.size() - 1).at > now) {
            BigInteger level = levelAfterLast();
            events.clear();
            if (level.signum() > 0) {
                events.add(new Event(now, level, BigInteger.ZERO));
            }
            newer = NONE;
            older = NONE;
            isLeased = false;
        }
    }

    private BigInteger levelAfterLast() {
        BigInteger level = BigInteger.ZERO;
        long before = 0;
        for (Event event : events) {
            level = fallen(level, event.at - before, event.returned).add(event.units);
            before = event.at;
        }
        return level;
    }

    private BigInteger level(Limit limit, long now) {
        return events.isEmpty()
                ? BigInteger.ZERO
                : fallen(levelAfterLast(), now - events.get(events.size() - 1).at, rate(limit));
    }

    private static BigInteger fallen(BigInteger level, long millis, BigInteger returned) {
        return level.subtract(returned.multiply(BigInteger.valueOf(millis))).max(BigInteger.ZERO);
    }

    private static BigInteger rate(Limit limit) {
        return BigInteger.valueOf(limit.permits());
    }

    private static BigInteger units(Limit limit, long permits) {
        return BigInteger.valueOf(permits)
                .multiply(BigInteger.valueOf(limit.window().toMillis()));
    }

    @Override
    long used(Limit limit, long now) {
        BigInteger[] permits = level(limit, now).divideAndRemainder(units(limit, 1));
        return permits[0].longValueExact() + permits[1].signum();
    }

    BucketState state(Limit limit, long now) {
        return new BucketState(level(limit, now).longValueExact(), now);
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        return level(limit, now).add(units(limit, cost)).compareTo(units(limit, limit.capacity())) <= 0;
    }

    @Override
    void take(Limit limit, long cost, long now) {
        add(limit, units(limit, cost), now);
    }

    @Override
    void takeBeyond(Limit limit, long cost, long most, long now) {
        add(limit, units(limit, cost).min(units(limit, most).subtract(level(limit, now))), now);
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        BigInteger free = units(limit, limit.capacity()).subtract(level(limit, now));
        add(limit, units(limit, cost).min(free), now);
    }

    private void add(Limit limit, BigInteger units, long now) {
        if (units.signum() <= 0) {
            return;
        }
        BigInteger before = level(limit, now);
        if (before.signum() == 0) {
            events.clear();
            isLeased = false;
        }
        add(limit, units, before, now);
    }

    /** Adds units; without them, the level would be as low as that at the time when they count as taken. */
    private void add(Limit limit, BigInteger units, BigInteger before, long now) {
        newer = newer.atMost(before);
        older = older.atMost(before);
        if (newer.since != now && older.low.shiftLeft(1).compareTo(newer.low) <= 0) {
            older = newer;
        }
        events.add(new Event(now, units, rate(limit)));
        newer = new Mark(level(limit, now), now);
    }

    /** Takes what returns in a lease time, as far as it is not in use anyway, and then the permits. */
    @Override
    long lease(Limit limit, long most, int parts, long now) {
        long leaseTime = leaseTime(limit);
        BigInteger returned = rate(limit).multiply(BigInteger.valueOf(leaseTime));
        BigInteger before = level(limit, now);
        BigInteger raised = before.max(returned);
        long leased = 0;
        while (leased < most
                && units(limit, (leased + 1) * parts).add(raised).compareTo(units(limit, limit.capacity())) <= 0) {
            leased++;
        }
        if (leased > 0) {
            if (before.signum() == 0) {
                events.clear();
            }
            BigInteger taken = raised.subtract(before).add(units(limit, leased));
            add(limit, taken, fallen(raised, leaseTime, rate(limit)), now);
            isLeased = true;
        }
        return leased;
    }

    private static long leaseTime(Limit limit) {
        return Math.min(100, limit.window().toMillis() / 100);
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {
        BigInteger level = level(limit, now);
        Mark high = newer.atMost(level);
        Mark low = older.atMost(level);
        // Leased permits count as taken when their lease ended.
        long since = isLeased ? takenAt - leaseTime(limit) : takenAt;
        BigInteger units = since > now
                ? BigInteger.ZERO
                : refundable(limit, high, since, permits).max(refundable(limit, low, since, permits));
        if (units.signum() > 0) {
            remove(limit, units, now);
            older = since >= high.since ? low.atMost(high.less(units).low) : low.less(units);
            newer = newer.less(units);
        }
    }

    /** A mark bounds the level since it began; before that, at least what was taken was left, less what returned. */
    private static BigInteger refundable(Limit limit, Mark mark, long takenAt, long permits) {
        BigInteger left = fallen(units(limit, permits), Math.max(0, mark.since - takenAt), rate(limit));
        return left.min(mark.low);
    }

    @Override
    void refundCharged(Limit limit, long permits, long gone, long now) {
        refund(limit, gone - LimitKind.reach(limit), permits, now);
    }

    @Override
    void refundOldest(Limit limit, long permits, long now) {
        BigInteger level = level(limit, now);
        BigInteger units = units(limit, permits).min(level);
        if (units.signum() > 0) {
            remove(limit, units, now);
            newer = newer.less(units);
            older = older.atMost(level).less(units);
        }
    }

    /** Removes what was taken last: then the level now is lower by as much. */
    private void remove(Limit limit, BigInteger units, long now) {
        BigInteger left = units;
        for (int i = events.size() - 1; left.signum() > 0; i--) {
            BigInteger some = events.get(i).units.min(left);
            events.set(i, events.get(i).less(some));
            left = left.subtract(some);
        }
        // An empty bucket is like none.
        if (level(limit, now).signum() == 0) {
            events.clear();
            isLeased = false;
        }
    }

    /** Grants that are later than all else count from their time, others from the last change on. */
    @Override
    boolean reconcile(Limit limit, List<Grants> times, long now) {
        long reach = LimitKind.reach(limit);
        boolean counts = false;
        for (Grants some : times) {
            long latest = Math.min(some.toMillis(), now);
            if (some.permits() > 0 && latest > now - reach) {
                long last = events.isEmpty() ? 0 : events.get(events.size() - 1).at;
                add(limit, units(limit, some.permits()), Math.max(latest, last));
                counts = true;
            }
        }
        return counts;
    }

    @Override
    @Nullable
    Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
        long reach = LimitKind.reach(limit);
        long permits = ages.stream()
                .filter(one -> one.toMillis() < reach)
                .mapToLong(Grants::permits)
                .sum();
        BigInteger has = earlier == null
                ? BigInteger.ZERO
                : fallen(units(limit, earlier.permits()), now - earlier.at(), rate(limit));
        BigInteger missing = units(limit, permits).subtract(has);
        if (missing.signum() <= 0) {
            return null;
        }
        add(limit, missing, now);
        return new Restored(now, permits, 0, 0);
    }

    @Override
    void reset() {
        events.clear();
        newer = NONE;
        older = NONE;
        isLeased = false;
    }

    /** Bisects, because a level only falls: a bucket may need days. */
    @Override
    long fitsAt(Limit limit, long cost, long now) {
        return firstAt(now, tick -> fits(limit, cost, tick));
    }

    @Override
    long wholeAt(Limit limit, long now) {
        return firstAt(now, tick -> isWhole(limit, tick));
    }

    private static long firstAt(long now, LongPredicate isTrue) {
        if (isTrue.test(now)) {
            return now;
        }
        long passed = 1;
        while (!isTrue.test(now + passed)) {
            passed *= 2;
        }
        long before = passed / 2;
        while (passed - before > 1) {
            long middle = (before + passed) / 2;
            if (isTrue.test(now + middle)) {
                passed = middle;
            } else {
                before = middle;
            }
        }
        return now + passed;
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        return level(limit, now).signum() == 0;
    }
}
