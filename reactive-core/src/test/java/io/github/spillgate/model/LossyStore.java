package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.model.CountModel.Restored;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Exchanges;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import reactor.core.publisher.Mono;

/**
 * A model of Redis that can lose its data: all of it, or one count. Its replies have the state of
 * counters and buckets, and it restores what instances know to be lost.
 */
public final class LossyStore extends StoreModel {

    private final Map<String, Long> resetMarks = new HashMap<>();

    /** By count, its life, and the life that was lost. */
    private final Map<String, Restored> restored = new HashMap<>();

    private final Map<UUID, Long> instances = new HashMap<>();
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
    StoreUsage usage(Reply reply, Claim claim, boolean isViolated, boolean isDenied) {
        long now = reply.at();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        if (count instanceof BucketModel bucket) {
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
        Claim claim = reconciliation.claim();
        long reset = resetMarks.getOrDefault(claim.identity(), Long.MIN_VALUE);
        boolean isPardoned = !claim.limit().takesPermits()
                && reset <= now
                && reconciliation.ages(reconciliation.grants()).stream().allMatch(ban -> now - ban.toMillis() < reset);
        boolean isChanged = !reconciliation.grants().isEmpty() && !isPardoned && super.charge(reconciliation, now);
        for (LostPermits lost : reconciliation.lost()) {
            isChanged |= reset < lost.since()
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
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            instances.put(request.instance(), now + request.lifetime().toMillis());
            instances.values().removeIf(until -> until <= now);
            return Exchanges.counted(request, instances.size());
        });
    }

    @Override
    public String toString() {
        return "LossyStore";
    }
}
