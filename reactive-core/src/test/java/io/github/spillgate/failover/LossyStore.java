package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** A model of the scripts of Redis that can lose its data: all of it, or what is newer than a snapshot. */
final class LossyStore implements LimitStore {

    private final InstantSource clock;
    private Data data = new Data();
    private Data snapshot = new Data();
    private long steps;
    private boolean rejects;

    LossyStore(InstantSource clock) {
        this.clock = clock;
    }

    /** Loses all data. */
    void loseAll() {
        data = new Data();
        snapshot = new Data();
    }

    /** Keeps a copy of all data. */
    void takeSnapshot() {
        snapshot = data.copy();
    }

    /** Returns to the last copy. */
    void returnToSnapshot() {
        data = snapshot.copy();
    }

    /** Rejects the next reconciliation; a retry would not help. */
    void rejectsAReconciliation() {
        rejects = true;
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, true));
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, false));
    }

    private StoreDecision decide(List<Claim> claims, boolean charging) {
        long now = clock.millis();
        boolean fits = true;
        for (Claim claim : claims) {
            fits &= fits(claim, now);
        }
        List<StoreUsage> usages = new ArrayList<>();
        for (Claim claim : claims) {
            boolean violated = !fits(claim, now);
            if (charging && fits) {
                count(claim).add(claim.limit(), now, claim.permits());
            }
            usages.add(count(claim).usage(claim, violated, now));
        }
        return charging
                ? StoreDecision.ofTake(Source.OTHER, now, ++steps, usages)
                : StoreDecision.ofPeek(Source.OTHER, now, usages);
    }

    private boolean fits(Claim claim, long now) {
        return count(claim).used(claim.limit(), now) + claim.permits()
                <= claim.limit().burst();
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : decision.claims()) {
                if (decision.stamp() > data.resets.getOrDefault(claim.identity(), 0L)) {
                    count(claim).refund(claim.limit(), decision.at().toEpochMilli(), claim.permits(), clock.millis());
                }
            }
        });
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                count(claim).refundOldest(claim.limit(), claim.permits(), clock.millis());
                data.refundMarks.put(claim.identity(), new Mark(clock.millis(), -1, 0));
            }
        });
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return Mono.fromRunnable(() -> {
            for (ChargedPermits one : permits) {
                Claim claim = one.claim();
                if (one.stamp() > data.resets.getOrDefault(claim.identity(), 0L) && clock.millis() < one.until()) {
                    count(claim).refundCharged(claim.limit(), one, clock.millis());
                }
            }
        });
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                data.counts.remove(claim.identity());
                data.resets.put(claim.identity(), ++steps);
                data.resetMarks.put(claim.identity(), clock.millis());
            }
        });
    }

    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return Mono.fromCallable(() -> {
            if (rejects) {
                rejects = false;
                throw new LimitStoreException("told to refuse", null);
            }
            long now = clock.millis();
            List<StoreDecision> parts = new ArrayList<>();
            for (Reconciliation one : reconciliations) {
                Claim claim = one.claim();
                boolean isNew = !data.reconciled.contains(one.id())
                        && count(claim).charge(claim.limit(), one.agesToSend(), now);
                if (isNew) {
                    data.reconciled.add(one.id());
                }
                StoreUsage usage = count(claim).usage(claim, false, now);
                parts.add(StoreDecision.ofPeek(Source.OTHER, now, isNew ? ++steps : 0, List.of(usage)));
            }
            return StoreDecision.ofParts(
                    reconciliations.stream().map(Reconciliation::claim).toList(), parts);
        });
    }

    @Override
    public Mono<StoreDecision> restore(LostPermits permits) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            Claim claim = permits.claim();
            boolean restored = isMissing(permits) && restore(permits, now);
            return StoreDecision.ofPeek(
                    Source.OTHER,
                    now,
                    restored ? ++steps : 0,
                    List.of(count(claim).usage(claim, false, now)));
        });
    }

    /** Returns whether the count was not reset, and no permits refunded, since the last reply with the permits. */
    private boolean isMissing(LostPermits permits) {
        String count = permits.claim().identity();
        Mark mark = data.refundMarks.get(count);
        return data.resetMarks.getOrDefault(count, Long.MIN_VALUE) < permits.since()
                && (mark == null || mark.at < permits.since() || mark.restored >= 0);
    }

    private boolean restore(LostPermits permits, long now) {
        Claim claim = permits.claim();
        Mark mark = data.refundMarks.get(claim.identity());
        Mark restored = count(claim)
                .restore(claim.limit(), permits, mark != null && mark.at >= permits.since() ? mark : null, now);
        if (restored != null) {
            data.refundMarks.put(claim.identity(), restored);
        }
        return restored != null;
    }

    @Override
    public Mono<Integer> register(String limiter, UUID instance, Duration lifetime) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            Map<UUID, Long> instances = data.instances.computeIfAbsent(limiter, any -> new HashMap<>());
            instances.put(instance, now + lifetime.toMillis());
            instances.values().removeIf(until -> until <= now);
            return instances.size();
        });
    }

    private CountData count(Claim claim) {
        Limit limit = claim.limit();
        return data.counts.computeIfAbsent(claim.identity(), any -> switch (limit.algorithm()) {
            case LOG -> new LogData();
            case BUCKET -> new BucketData();
            default -> new CounterData();
        });
    }

    @Override
    public String toString() {
        return "LossyStore";
    }

    /**
     * The time of the last refund without a decision, or of the last restoration.
     *
     * @param restored the number of restored permits; negative for a refund
     * @param newest for a log the slot of the latest of them
     */
    private record Mark(long at, long restored, long newest) {}

    /** Everything that the store can lose. */
    private static final class Data {

        private final Map<String, CountData> counts = new HashMap<>();
        private final Map<String, Long> resets = new HashMap<>();
        private final Map<String, Long> resetMarks = new HashMap<>();
        private final Map<String, Mark> refundMarks = new HashMap<>();
        private final Set<String> reconciled = new HashSet<>();
        private final Map<String, Map<UUID, Long>> instances = new HashMap<>();

        Data copy() {
            Data copy = new Data();
            counts.forEach((identity, count) -> copy.counts.put(identity, count.copy()));
            copy.resets.putAll(resets);
            copy.resetMarks.putAll(resetMarks);
            copy.refundMarks.putAll(refundMarks);
            copy.reconciled.addAll(reconciled);
            instances.forEach((limiter, some) -> copy.instances.put(limiter, new HashMap<>(some)));
            return copy;
        }
    }

    private abstract static class CountData {

        abstract long used(Limit limit, long now);

        abstract StoreUsage usage(Claim claim, boolean violated, long now);

        abstract void add(Limit limit, long now, long permits);

        abstract void refund(Limit limit, long takenAt, long permits, long now);

        abstract void refundOldest(Limit limit, long permits, long now);

        void refundCharged(Limit limit, ChargedPermits permits, long now) {
            refundOldest(limit, permits.claim().permits(), now);
        }

        /** Charges permits at their ages, and returns whether any of them still count. */
        abstract boolean charge(Limit limit, List<Grants> ages, long now);

        /**
         * Restores what is missing.
         *
         * @param earlier the mark of an earlier restoration; null if there was none
         * @return the mark of both; null if nothing is missing
         */
        abstract @Nullable Mark restore(Limit limit, LostPermits lost, @Nullable Mark earlier, long now);

        abstract CountData copy();
    }

    /** The permits of each slot. */
    private static final class LogData extends CountData {

        private final TreeMap<Long, Long> slots = new TreeMap<>();

        @Override
        long used(Limit limit, long now) {
            long sum = 0;
            for (Map.Entry<Long, Long> slot : slots.entrySet()) {
                sum += isLive(limit, slot.getKey(), now) ? slot.getValue() : 0;
            }
            return sum;
        }

        @Override
        StoreUsage usage(Claim claim, boolean violated, long now) {
            Limit limit = claim.limit();
            long used = used(limit, now);
            long missing = violated ? used + claim.permits() - limit.permits() : 0;
            long fitsAt = now;
            for (Map.Entry<Long, Long> slot : slots.entrySet()) {
                if (missing > 0 && isLive(limit, slot.getKey(), now)) {
                    missing -= slot.getValue();
                    fitsAt = leavesAt(limit, slot.getKey());
                }
            }
            long wholeAt = used == 0 ? now : leavesAt(limit, slots.lastKey());
            return StoreUsage.of(claim, used, violated, fitsAt, wholeAt);
        }

        @Override
        void add(Limit limit, long now, long permits) {
            slots.keySet().removeIf(slot -> !isLive(limit, slot, now));
            if (permits > 0) {
                slots.merge(now / limit.resolution().toMillis(), permits, Long::sum);
            }
        }

        @Override
        void refund(Limit limit, long takenAt, long permits, long now) {
            slots.computeIfPresent(
                    takenAt / limit.resolution().toMillis(),
                    (slot, before) -> before > permits ? before - permits : null);
        }

        @Override
        void refundOldest(Limit limit, long permits, long now) {
            add(limit, now, 0);
            long left = permits;
            while (left > 0 && !slots.isEmpty()) {
                Map.Entry<Long, Long> oldest = slots.firstEntry();
                if (oldest.getValue() > left) {
                    slots.put(oldest.getKey(), oldest.getValue() - left);
                } else {
                    slots.remove(oldest.getKey());
                }
                left -= oldest.getValue();
            }
        }

        @Override
        boolean charge(Limit limit, List<Grants> ages, long now) {
            NavigableMap<Long, Long> live = liveSlots(limit, ages, now);
            live.forEach((slot, permits) -> slots.merge(slot, permits, Long::sum));
            return !live.isEmpty();
        }

        private static NavigableMap<Long, Long> liveSlots(Limit limit, List<Grants> ages, long now) {
            NavigableMap<Long, Long> live = new TreeMap<>();
            for (Grants some : ages) {
                long slot = (now - some.toMillis()) / limit.resolution().toMillis();
                if (some.permits() > 0 && isLive(limit, slot, now)) {
                    live.merge(slot, some.permits(), Long::sum);
                }
            }
            return live;
        }

        @Override
        @Nullable
        Mark restore(Limit limit, LostPermits lost, @Nullable Mark earlier, long now) {
            add(limit, now, 0);
            long last = earlier == null ? lost.since() / limit.resolution().toMillis() : earlier.newest;
            long most = earlier == null ? Long.MAX_VALUE : earlier.restored;
            NavigableMap<Long, Long> lostSlots = liveSlots(limit, lost.ages(), now);
            long all = sum(lostSlots);
            long has = Math.min(most, sum(0, last));
            long missing = Math.max(0, all - has);
            NavigableMap<Long, Long> toAdd = new TreeMap<>();
            long known = 0;
            long added = 0;
            for (Map.Entry<Long, Long> slot : lostSlots.descendingMap().entrySet()) {
                known += slot.getValue();
                long wanted =
                        earlier == null ? Math.min(missing, known) : known - Math.min(most, sum(slot.getKey(), last));
                if (wanted > added) {
                    toAdd.put(slot.getKey(), wanted - added);
                    added = wanted;
                }
            }
            if (added == 0) {
                return null;
            }
            refundOldest(limit, added - missing, now);
            toAdd.forEach((slot, permits) -> slots.merge(slot, permits, Long::sum));
            return new Mark(now, Math.max(all, has), Math.max(last, lostSlots.lastKey()));
        }

        private long sum(long first, long last) {
            return first > last ? 0 : sum(slots.subMap(first, true, last, true));
        }

        private static long sum(Map<Long, Long> some) {
            return some.values().stream().mapToLong(Long::longValue).sum();
        }

        private static boolean isLive(Limit limit, long slot, long now) {
            return leavesAt(limit, slot) > now;
        }

        private static long leavesAt(Limit limit, long slot) {
            return (slot + 1) * limit.resolution().toMillis() + limit.window().toMillis();
        }

        @Override
        CountData copy() {
            LogData copy = new LogData();
            copy.slots.putAll(slots);
            return copy;
        }
    }

    /** A state, which is null if no permits are in use. */
    private static final class CounterData extends CountData {

        private CounterState state;

        private CounterState at(Limit limit, long now) {
            return state == null ? CounterState.empty(limit, now) : state.at(limit, now);
        }

        @Override
        long used(Limit limit, long now) {
            return at(limit, now).used(limit, now);
        }

        @Override
        StoreUsage usage(Claim claim, boolean violated, long now) {
            return StoreUsage.ofCounter(claim, at(claim.limit(), now), violated, violated, now);
        }

        @Override
        void add(Limit limit, long now, long permits) {
            state = at(limit, now).plus(permits);
        }

        @Override
        void refund(Limit limit, long takenAt, long permits, long now) {
            state = at(limit, now).minus(limit, takenAt, permits);
        }

        @Override
        void refundOldest(Limit limit, long permits, long now) {
            state = at(limit, now).minusOldest(permits);
        }

        @Override
        boolean charge(Limit limit, List<Grants> ages, long now) {
            CounterState before = at(limit, now);
            state = before.isEmpty() ? replay(limit, ages, now) : with(before, limit, ages, now);
            return state.previous() != before.previous() || state.current() != before.current();
        }

        private static CounterState with(CounterState before, Limit limit, List<Grants> ages, long now) {
            CounterState charged = before;
            for (Grants some : ages) {
                long time = now - some.toMillis();
                if (time >= charged.start()) {
                    charged = charged.plus(some.permits());
                } else if (time >= charged.start() - limit.window().toMillis()) {
                    charged = new CounterState(charged.start(), charged.previous() + some.permits(), charged.current());
                }
            }
            return charged;
        }

        /** Returns the state of an empty count to which the permits come at their time. */
        private static CounterState replay(Limit limit, List<Grants> ages, long now) {
            CounterState state = CounterState.empty(limit, now - ages.get(0).fromMillis());
            for (Grants some : ages) {
                long time = now - some.toMillis();
                state = (time - state.start() < limit.window().toMillis() ? state : state.at(limit, time))
                        .plus(some.permits());
            }
            return state.at(limit, now);
        }

        @Override
        @Nullable
        Mark restore(Limit limit, LostPermits lost, @Nullable Mark earlier, long now) {
            CounterState before = at(limit, now);
            CounterState restored = replay(limit, lost.ages(), now);
            long all = restored.used(limit, now);
            boolean isNew = earlier == null && before.start() >= lost.since();
            long has = isNew ? 0 : before.used(limit, now);
            if (earlier != null) {
                has = Math.min(earlier.restored, has - (before.start() > earlier.at ? before.current() : 0));
            }
            if (all <= has) {
                return null;
            }
            state = isNew ? restored.plus(before.current() + before.previous()) : before.plus(all - has);
            return new Mark(now, all, 0);
        }

        @Override
        CountData copy() {
            CounterData copy = new CounterData();
            copy.state = state;
            return copy;
        }
    }

    /** The level after the last change, and the older of its low-water marks, as in bucket.lua. */
    private static final class BucketData extends CountData {

        private long level;
        private long at;
        private long older;
        private long olderAt;

        private long levelAt(Limit limit, long time) {
            return BucketState.levelAfter(limit, level, time - at);
        }

        @Override
        long used(Limit limit, long now) {
            return state(limit, now).used(limit);
        }

        private BucketState state(Limit limit, long now) {
            return new BucketState(levelAt(limit, now), now);
        }

        @Override
        StoreUsage usage(Claim claim, boolean violated, long now) {
            return StoreUsage.ofBucket(claim, state(claim.limit(), now), violated, violated);
        }

        @Override
        void add(Limit limit, long now, long permits) {
            addUnits(limit, BucketState.units(limit, permits), now);
        }

        private void addUnits(Limit limit, long units, long time) {
            if (units == 0) {
                return;
            }
            if (at != time) {
                long before = levelAt(limit, time);
                older = Math.min(older, before);
                if (2 * older <= before) {
                    older = before;
                    olderAt = at;
                }
                level = before;
                at = time;
            }
            level += units;
        }

        @Override
        void refund(Limit limit, long takenAt, long permits, long now) {
            long before = levelAt(limit, now);
            long mark = Math.min(older, before);
            long taken = BucketState.units(limit, permits);
            long units = Math.max(
                    Math.min(before, BucketState.levelAfter(limit, taken, at - takenAt)),
                    Math.min(mark, BucketState.levelAfter(limit, taken, olderAt - takenAt)));
            subtract(before, mark, units, takenAt >= at);
        }

        @Override
        void refundOldest(Limit limit, long permits, long now) {
            long before = levelAt(limit, now);
            subtract(before, Math.min(older, before), Math.min(before, BucketState.units(limit, permits)), false);
        }

        @Override
        void refundCharged(Limit limit, ChargedPermits permits, long now) {
            refund(
                    limit,
                    permits.until() - limit.reach().toMillis(),
                    permits.claim().permits(),
                    now);
        }

        private void subtract(long before, long mark, long units, boolean isSinceMark) {
            if (units > 0) {
                level = units < before ? level - units : 0;
                older = isSinceMark ? Math.min(mark, before - units) : Math.max(0, mark - units);
            }
        }

        @Override
        boolean charge(Limit limit, List<Grants> ages, long now) {
            boolean charges = false;
            for (Grants some : ages) {
                if (some.permits() > 0 && some.toMillis() < limit.reach().toMillis()) {
                    addUnits(limit, BucketState.units(limit, some.permits()), Math.max(now - some.toMillis(), at));
                    charges = true;
                }
            }
            return charges;
        }

        @Override
        @Nullable
        Mark restore(Limit limit, LostPermits lost, @Nullable Mark earlier, long now) {
            BucketData restored = new BucketData();
            restored.charge(limit, lost.ages(), now);
            long most = restored.levelAt(limit, now);
            long present = levelAt(limit, now);
            long began = Math.min(older, present) > 0 ? olderAt : at;
            long has = began >= lost.since() ? 0 : present;
            if (earlier != null) {
                has = BucketState.levelAfter(limit, BucketState.units(limit, earlier.restored), now - earlier.at);
            }
            if (most <= has) {
                return null;
            }
            addUnits(limit, most - has, now);
            return new Mark(now, new BucketState(most, now).used(limit), 0);
        }

        @Override
        CountData copy() {
            BucketData copy = new BucketData();
            copy.level = level;
            copy.at = at;
            copy.older = older;
            copy.olderAt = olderAt;
            return copy;
        }
    }
}
