package io.github.spillgate.model;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.model.CountModel.Restored;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A model of Redis that can lose its data: all of it, or what is newer than a snapshot. Its replies have the state of
 * counters and buckets, and it restores what instances know to be lost.
 */
public final class LossyStore extends StoreModel {

    private final Map<String, Long> resetMarks = new HashMap<>();

    /** When permits were last refunded without a decision, if that was after the last restoration. */
    private final Map<String, Long> refundMarks = new HashMap<>();

    private final Map<String, Restored> restored = new HashMap<>();
    private final Map<String, Map<UUID, Long>> instances = new HashMap<>();
    private @Nullable LossyStore snapshot;
    private boolean rejects;

    public LossyStore(InstantSource clock) {
        super(clock);
    }

    /** Loses all data. */
    public void loseAll() {
        snapshot = null;
        returnToSnapshot();
    }

    /** Keeps a copy of all data. */
    public void takeSnapshot() {
        snapshot = new LossyStore(clock);
        snapshot.become(this);
    }

    /** Returns to the last copy. */
    public void returnToSnapshot() {
        become(snapshot == null ? new LossyStore(clock) : snapshot);
    }

    private void become(LossyStore other) {
        counts.clear();
        other.counts.forEach((identity, count) -> counts.put(identity, count.copy()));
        instances.clear();
        other.instances.forEach((limiter, some) -> instances.put(limiter, new HashMap<>(some)));
        become(resets, other.resets);
        become(resetMarks, other.resetMarks);
        become(refundMarks, other.refundMarks);
        become(restored, other.restored);
        become(reconciled, other.reconciled);
        become(settled, other.settled);
    }

    private static <V> void become(Map<String, V> some, Map<String, V> other) {
        some.clear();
        some.putAll(other);
    }

    private static void become(Set<String> some, Set<String> other) {
        Set<String> ids = Set.copyOf(other);
        some.clear();
        some.addAll(ids);
    }

    /** Rejects the next reconciliation; a retry would not help. */
    public void rejectsAReconciliation() {
        rejects = true;
    }

    @Override
    CountModel newCount(Limit limit) {
        return limit.algorithm() == Algorithm.BUCKET ? new LevelModel() : super.newCount(limit);
    }

    @Override
    StoreUsage usage(Claim claim, boolean isViolated, boolean isDenied, long now) {
        Limit limit = claim.limit();
        CountModel count = count(claim);
        if (count instanceof LevelModel bucket) {
            return StoreUsage.ofBucket(claim, bucket.state(limit, now), isViolated, isViolated);
        } else if (count instanceof CounterModel counter) {
            return StoreUsage.ofCounter(claim, counter.state(limit, now), isViolated, isViolated, now);
        }
        LogModel log = (LogModel) count;
        long used = log.used(limit, now);
        long missing = isViolated ? used + claim.permits() - limit.permits() : 0;
        return StoreUsage.of(claim, used, isViolated, log.leaveAt(limit, missing, now), log.leaveAt(limit, used, now));
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return super.reset(claims, deadline)
                .doOnSubscribe(any -> claims.forEach(claim -> resetMarks.put(claim.identity(), clock.millis())));
    }

    @Override
    Corrected correct(Correction correction) {
        if (correction instanceof RefundOldest) {
            refundMarks.put(correction.claim().identity(), clock.millis());
        } else if (correction instanceof LostPermits lost) {
            return restore(lost);
        } else if (correction instanceof Reconciliation && rejects) {
            rejects = false;
            throw new LimitStoreException("told to refuse", null);
        }
        return super.correct(correction);
    }

    /** Restores permits, unless the count was reset, or any were refunded, since the last reply with the permits. */
    private Corrected restore(LostPermits permits) {
        String count = permits.claim().identity();
        boolean isMissing = resetMarks.getOrDefault(count, Long.MIN_VALUE) < permits.since()
                && refundMarks.getOrDefault(count, Long.MIN_VALUE) < permits.since();
        return corrected(isMissing && restoreMissing(permits), permits.claim());
    }

    private boolean restoreMissing(LostPermits permits) {
        Claim claim = permits.claim();
        Restored earlier = restored.get(claim.identity());
        Restored both = count(claim)
                .restore(
                        claim.limit(),
                        permits,
                        earlier != null && earlier.at() >= permits.since() ? earlier : null,
                        clock.millis());
        if (both != null) {
            refundMarks.remove(claim.identity());
            restored.put(claim.identity(), both);
        }
        return both != null;
    }

    @Override
    public Mono<Integer> register(String limiter, UUID instance, Duration lifetime) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            Map<UUID, Long> known = instances.computeIfAbsent(limiter, any -> new HashMap<>());
            known.put(instance, now + lifetime.toMillis());
            known.values().removeIf(until -> until <= now);
            return known.size();
        });
    }

    @Override
    public String toString() {
        return "LossyStore";
    }

    /** The level after the last change, and the older of its low-water marks, as in bucket.lua. */
    private static final class LevelModel extends CountModel {

        private long level;
        private long at;
        private long older;
        private long olderAt;

        /** Whether permits were leased since the bucket was empty. */
        private boolean isLeased;

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
        void pull(Limit limit, long now) {}

        @Override
        boolean fits(Limit limit, long cost, long now) {
            return used(limit, now) + cost <= limit.burst();
        }

        @Override
        void take(Limit limit, long cost, long now) {
            addUnits(limit, BucketState.units(limit, cost), now);
        }

        @Override
        void recordDenied(Limit limit, long cost, long now) {
            throw new UnsupportedOperationException();
        }

        @Override
        void reset() {
            level = 0;
            at = 0;
            older = 0;
            olderAt = 0;
            isLeased = false;
        }

        @Override
        boolean isWhole(Limit limit, long now) {
            return levelAt(limit, now) == 0;
        }

        private void addUnits(Limit limit, long units, long time) {
            if (units == 0) {
                return;
            }
            long before = levelAt(limit, time);
            isLeased &= before > 0;
            mark(before, time);
            level = before + units;
        }

        /** Begins a mark, at most at this level. */
        private void mark(long low, long time) {
            older = Math.min(older, low);
            if (at != time && 2 * older <= low) {
                older = low;
                olderAt = at;
            }
            at = time;
        }

        @Override
        long lease(Limit limit, long most, int parts, long now) {
            long returned = limit.permits() * limit.leaseTime().toMillis();
            long raised = Math.max(levelAt(limit, now), returned);
            long free = Math.max(0, BucketState.units(limit, limit.burst()) - raised);
            long leased = Math.min(most, free / limit.window().toMillis() / parts);
            if (leased > 0) {
                mark(Math.min(levelAt(limit, now), raised - returned), now);
                level = raised + BucketState.units(limit, leased);
                isLeased = true;
            }
            return leased;
        }

        @Override
        void refund(Limit limit, long takenAt, long permits, long now) {
            long lease = isLeased ? limit.leaseTime().toMillis() : 0;
            long before = levelAt(limit, now);
            long mark = Math.min(older, before);
            long taken = BucketState.units(limit, permits);
            long units = Math.max(
                    Math.min(before, BucketState.levelAfter(limit, taken, at + lease - takenAt)),
                    Math.min(mark, BucketState.levelAfter(limit, taken, olderAt + lease - takenAt)));
            subtract(before, mark, units, takenAt >= at + lease);
        }

        @Override
        void refundOldest(Limit limit, long permits, long now) {
            long before = levelAt(limit, now);
            subtract(before, Math.min(older, before), Math.min(before, BucketState.units(limit, permits)), false);
        }

        private void subtract(long before, long mark, long units, boolean isSinceMark) {
            if (units > 0) {
                level = units < before ? level - units : 0;
                older = isSinceMark ? Math.min(mark, before - units) : Math.max(0, mark - units);
            }
        }

        @Override
        boolean reconcile(Limit limit, List<Grants> times, long now) {
            boolean charges = false;
            for (Grants some : times) {
                if (some.permits() > 0 && now - some.toMillis() < limit.reach().toMillis()) {
                    addUnits(limit, BucketState.units(limit, some.permits()), Math.max(some.toMillis(), at));
                    charges = true;
                }
            }
            return charges;
        }

        @Override
        @Nullable
        Restored restore(Limit limit, LostPermits lost, @Nullable Restored earlier, long now) {
            LevelModel restored = new LevelModel();
            restored.reconcile(limit, times(lost.ages(), now), now);
            long most = restored.levelAt(limit, now);
            long present = levelAt(limit, now);
            long began = Math.min(older, present) > 0 ? olderAt : at;
            long has = began >= lost.since() ? 0 : present;
            if (earlier != null) {
                has = BucketState.levelAfter(limit, BucketState.units(limit, earlier.permits()), now - earlier.at());
            }
            if (most <= has) {
                return null;
            }
            addUnits(limit, most - has, now);
            return new Restored(now, new BucketState(most, now).used(limit), 0);
        }

        @Override
        LevelModel copy() {
            LevelModel copy = new LevelModel();
            copy.level = level;
            copy.at = at;
            copy.older = older;
            copy.olderAt = olderAt;
            copy.isLeased = isLeased;
            return copy;
        }
    }
}
