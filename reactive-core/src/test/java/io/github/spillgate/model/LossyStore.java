package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.model.CountModel.Restored;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A model of Redis that can lose its data: all of it, or one count. Its replies have the state of
 * counters and buckets, and it restores what instances know to be lost.
 */
public final class LossyStore extends StoreModel {

    private final Map<String, Long> resetMarks = new HashMap<>();

    /** By count, its life, and the life that was lost. */
    private final Map<String, Restored> restored = new HashMap<>();

    private final Map<String, Map<UUID, Long>> instances = new HashMap<>();
    private boolean rejects;

    public LossyStore(InstantSource clock) {
        super(clock);
    }

    /** Loses all data. */
    public void loseAll() {
        counts.clear();
        lives.clear();
        instances.clear();
        resets.clear();
        resetMarks.clear();
        restored.clear();
        reconciled.clear();
        settled.clear();
    }

    /** Loses one count, of each limit. */
    public void lose(String key) {
        counts.keySet().removeIf(identity -> identity.contains(key));
        lives.keySet().removeIf(identity -> identity.contains(key));
    }

    /** Rejects the next reconciliation; a retry would not help. */
    public void rejectsAReconciliation() {
        rejects = true;
    }

    @Override
    CountModel newCount(Limit limit) {
        return limit instanceof Limit.Bucket ? new LevelModel() : super.newCount(limit);
    }

    @Override
    StoreUsage usage(Reply reply, Claim claim, boolean isViolated, boolean isDenied) {
        long now = reply.at();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        if (count instanceof LevelModel bucket) {
            return bucket.state(limit, now).usage(reply, claim, isViolated, isViolated, life(claim));
        } else if (count instanceof CounterModel counter) {
            return counter.state(limit, now).usage(reply, claim, isViolated, isViolated, life(claim));
        }
        if (!(count instanceof LogModel log)) {
            return super.usage(reply, claim, isViolated, isDenied);
        }
        long used = log.used(limit, now);
        long missing = isViolated ? used + claim.permits() - limit.permits() : 0;
        long fitsAt = log.leaveAt(limit, missing, now);
        long wholeAt = log.leaveAt(limit, used, now);
        return new StoreUsage(reply, claim, used, isViolated, fitsAt, wholeAt, life(claim), null, false, null);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return super.reset(claims, deadline)
                .doOnSubscribe(any -> claims.forEach(claim -> resetMarks.put(claim.identity(), clock.millis())));
    }

    @Override
    Corrected correct(Correction correction) {
        if (correction instanceof Reconciliation && rejects) {
            rejects = false;
            throw new LimitStoreException(Kind.REJECTED, "told to refuse");
        }
        return super.correct(correction);
    }

    @Override
    boolean charge(Reconciliation reconciliation, long now) {
        boolean isChanged = !reconciliation.grants().isEmpty() && super.charge(reconciliation, now);
        for (LostPermits lost : reconciliation.lost()) {
            isChanged |= resetMarks.getOrDefault(reconciliation.claim().identity(), Long.MIN_VALUE) < lost.since()
                    && restore(reconciliation.claim(), lost.life(), reconciliation.ages(lost.grants()), now);
        }
        return isChanged;
    }

    private boolean restore(Claim claim, int lostLife, List<Grants> ages, long now) {
        String before = life(claim) / StoreUsage.RESETS + " " + lostLife + " " + claim.identity();
        Restored both = count(claim).restore(claim.limit(), ages, restored.get(before), now);
        if (both != null) {
            restored.put(life(claim) / StoreUsage.RESETS + " " + lostLife + " " + claim.identity(), both);
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
            return used(limit, now) + cost <= limit.capacity();
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
            long free = Math.max(0, BucketState.units(limit, limit.capacity()) - raised);
            long leased = Math.min(most, free / limit.period().toMillis() / parts);
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
        void refundCharged(Limit limit, long permits, long gone, long now) {
            refund(limit, gone - limit.reach().toMillis(), permits, now);
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
        Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
            long reach = limit.reach().toMillis();
            long permits = ages.stream()
                    .filter(one -> one.toMillis() < reach)
                    .mapToLong(Grants::permits)
                    .sum();
            long most = BucketState.units(limit, permits);
            long has = 0;
            if (earlier != null) {
                has = BucketState.levelAfter(limit, BucketState.units(limit, earlier.permits()), now - earlier.at());
            }
            if (most <= has) {
                return null;
            }
            addUnits(limit, most - has, now);
            return new Restored(now, permits, 0, 0);
        }
    }
}
