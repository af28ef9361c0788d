package io.github.spillgate.model;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import reactor.core.publisher.Mono;

/** The brute-force oracle: a store made of models. For one thread. */
public class StoreModel implements LimitStore {

    final Map<String, CountModel> counts = new HashMap<>();
    final Map<String, Integer> resets = new HashMap<>();
    final Set<String> reconciled = new HashSet<>();
    final Set<String> settled = new HashSet<>();
    final InstantSource clock;
    int steps;

    public StoreModel(InstantSource clock) {
        this.clock = clock;
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, true));
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, false));
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    private StoreDecision decide(List<Claim> claims, boolean charging) {
        long now = clock.millis();
        claims.forEach(claim -> count(claim).pull(claim.limit(), now));
        List<Claim> violated = claims.stream()
                .filter(claim -> !count(claim).fits(claim.limit(), claim.permits(), now))
                .toList();
        if (charging) {
            for (Claim claim : claims) {
                if (claim.permits() > 0 && violated.isEmpty()) {
                    count(claim).take(claim.limit(), claim.permits(), now);
                } else if (claim.permits() > 0 && claim.limit().isCountingDenied()) {
                    count(claim).recordDenied(claim.limit(), claim.permits(), now);
                }
            }
        }
        List<StoreUsage> usages = new ArrayList<>();
        for (Claim claim : claims) {
            usages.add(usage(claim, violated.contains(claim), !violated.isEmpty(), now));
        }
        return charging
                ? StoreDecision.ofTake(Source.OTHER, now, ++steps, usages)
                : StoreDecision.ofPeek(Source.OTHER, now, usages);
    }

    /** Returns the usage of a count in a reply that allows or denies a request. */
    StoreUsage usage(Claim claim, boolean isViolated, boolean isDenied, long now) {
        Limit limit = claim.limit();
        CountModel count = count(claim);
        long fitsAt = isDenied ? count.fitsAt(limit, claim.permits(), now) : now;
        return StoreUsage.of(claim, count.used(limit, now), isViolated, fitsAt, count.wholeAt(limit, now));
    }

    @Override
    public Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            Limit limit = claim.limit();
            CountModel count = count(claim);
            count.pull(limit, now);
            long leased = count.lease(limit, claim.permits(), parts, now);
            return StoreDecision.ofLease(
                    Source.OTHER, now, ++steps, usage(claim.withPermits(leased), false, false, now));
        });
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        return Mono.fromRunnable(() -> decision.parts().forEach(this::refundPart));
    }

    private void refundPart(StoreDecision part) {
        for (StoreUsage usage : part.usages()) {
            Claim claim = usage.claim();
            long now = clock.millis();
            count(claim).pull(claim.limit(), now);
            if (claim.holdId() != null || part.stamp() > resets.getOrDefault(claim.identity(), 0)) {
                count(claim).refund(claim.limit(), part.chargedAt(claim), claim.permits(), now);
            }
        }
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return Mono.fromRunnable(() -> claims.forEach(this::refundOldest));
    }

    private void refundOldest(Claim claim) {
        long now = clock.millis();
        if (claim.limit().algorithm() != Algorithm.CONCURRENT) {
            count(claim).pull(claim.limit(), now);
            count(claim).refundOldest(claim.limit(), claim.permits(), now);
        }
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return Mono.fromRunnable(() -> permits.forEach(this::refundCharged));
    }

    private void refundCharged(ChargedPermits one) {
        long now = clock.millis();
        Claim claim = one.claim();
        Limit limit = claim.limit();
        if (one.stamp() <= resets.getOrDefault(claim.identity(), 0) || now >= one.until()) {
            return;
        }
        if (limit.algorithm() == Algorithm.BUCKET) {
            count(claim).pull(limit, now);
            count(claim).refund(limit, one.until() - limit.reach().toMillis(), claim.permits(), now);
        } else {
            refundOldest(claim);
        }
    }

    @Override
    public Mono<Void> release(List<Claim> holds) {
        return Mono.fromRunnable(() -> holds.forEach(claim -> hold(claim).release(clock.millis())));
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return Mono.fromCallable(() -> holds.stream()
                .map(claim -> new HoldRenewal(claim, hold(claim).renew(claim.limit(), claim.permits(), clock.millis())))
                .toList());
    }

    private HoldModel hold(Claim claim) {
        HoldModel count = (HoldModel) count(claim);
        count.pull(claim.limit(), clock.millis());
        return count;
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                count(claim).reset();
                resets.put(claim.identity(), ++steps);
            }
        });
    }

    @Override
    public Mono<StoreDecision> settle(List<Settlement> settlements) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            List<StoreUsage> usages = new ArrayList<>();
            for (Settlement one : settlements) {
                settle(one, now);
                Claim claim = one.claim();
                Limit limit = claim.limit();
                CountModel count = count(claim);
                usages.add(StoreUsage.of(claim, count.used(limit, now), false, now, count.wholeAt(limit, now)));
            }
            return StoreDecision.ofPeek(Source.OTHER, now, usages);
        });
    }

    /** Settles a cost, and returns whether it takes effect: it was not settled before, and the count was not reset. */
    boolean settle(Settlement one, long now) {
        Claim claim = one.claim();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        count.pull(limit, now);
        boolean isReset = one.decision().stamp() <= resets.getOrDefault(claim.identity(), 0);
        if (isReset || !settled.add(one.id() + " " + claim.identity())) {
            return false;
        }
        if (one.toRefund() > 0) {
            count.refund(limit, one.decision().chargedAt(claim), one.toRefund(), now);
        }
        if (one.toCharge() > 0) {
            count.takeBeyond(limit, one.toCharge(), one.most(), now);
        }
        return true;
    }

    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            List<StoreUsage> usages = new ArrayList<>();
            for (Reconciliation reconciliation : reconciliations) {
                charge(reconciliation, now);
                usages.add(usage(reconciliation.claim(), false, false, now));
            }
            return StoreDecision.ofPeek(Source.OTHER, now, ++steps, usages);
        });
    }

    /** Charges a reconciliation, and returns whether it was not charged before and still counts. */
    boolean charge(Reconciliation reconciliation, long now) {
        Limit limit = reconciliation.claim().limit();
        CountModel count = count(reconciliation.claim());
        count.pull(limit, now);
        return !reconciled.contains(reconciliation.id())
                && count.reconcile(limit, times(reconciliation.agesToSend(), now), now)
                && reconciled.add(reconciliation.id());
    }

    static List<Grants> times(List<Grants> ages, long now) {
        return ages.stream()
                .map(age -> new Grants(now - age.fromMillis(), now - age.toMillis(), age.permits()))
                .toList();
    }

    CountModel newCount(Limit limit) {
        return CountModel.of(limit);
    }

    CountModel count(Claim claim) {
        CountModel count = counts.computeIfAbsent(claim.identity(), identity -> newCount(claim.limit()));
        count.select(claim.holdId());
        return count;
    }
}
