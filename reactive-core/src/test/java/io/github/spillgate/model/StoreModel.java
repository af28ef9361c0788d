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
public final class StoreModel implements LimitStore {

    private final Map<String, CountModel> counts = new HashMap<>();
    private final Map<String, Integer> resets = new HashMap<>();
    private final Set<String> reconciled = new HashSet<>();
    private final Set<String> settled = new HashSet<>();
    private final InstantSource clock;
    private int steps;

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
            Limit limit = claim.limit();
            CountModel count = count(claim);
            usages.add(StoreUsage.of(
                    claim,
                    count.used(limit, now),
                    violated.contains(claim),
                    violated.isEmpty() ? now : count.fitsAt(limit, claim.permits(), now),
                    count.wholeAt(limit, now)));
        }
        return charging
                ? StoreDecision.ofTake(Source.OTHER, now, ++steps, usages)
                : StoreDecision.ofPeek(Source.OTHER, now, usages);
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
                    Source.OTHER,
                    now,
                    ++steps,
                    StoreUsage.of(claim.asking(leased), count.used(limit, now), false, now, count.wholeAt(limit, now)));
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
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                long now = clock.millis();
                if (claim.limit().algorithm() != Algorithm.CONCURRENT) {
                    count(claim).pull(claim.limit(), now);
                    count(claim).refundOldest(claim.limit(), claim.permits(), now);
                }
            }
        });
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        long now = clock.millis();
        List<Claim> oldest = new ArrayList<>();
        for (ChargedPermits one : permits) {
            Claim claim = one.claim();
            Limit limit = claim.limit();
            if (one.stamp() <= resets.getOrDefault(claim.identity(), 0) || now >= one.until()) {
                continue;
            }
            if (limit.algorithm() == Algorithm.BUCKET) {
                count(claim).pull(limit, now);
                count(claim).refund(limit, one.until() - limit.reach().toMillis(), claim.permits(), now);
            } else {
                oldest.add(claim);
            }
        }
        return refund(oldest);
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
                Claim claim = one.claim();
                Limit limit = claim.limit();
                CountModel count = count(claim);
                count.pull(limit, now);
                boolean isReset = one.decision().stamp() <= resets.getOrDefault(claim.identity(), 0);
                if (!isReset && settled.add(one.id() + " " + claim.identity())) {
                    if (one.toRefund() > 0) {
                        count.refund(limit, one.decision().chargedAt(claim), one.toRefund(), now);
                    }
                    if (one.toCharge() > 0) {
                        count.takeBeyond(limit, one.toCharge(), one.most(), now);
                    }
                }
                usages.add(StoreUsage.of(claim, count.used(limit, now), false, now, count.wholeAt(limit, now)));
            }
            return StoreDecision.ofPeek(Source.OTHER, now, usages);
        });
    }

    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return Mono.fromCallable(() -> {
            long now = clock.millis();
            List<StoreUsage> usages = new ArrayList<>();
            for (Reconciliation reconciliation : reconciliations) {
                Claim claim = reconciliation.claim();
                Limit limit = claim.limit();
                CountModel count = count(claim);
                count.pull(limit, now);
                if (!reconciled.contains(reconciliation.id())
                        && count.reconcile(limit, times(reconciliation, now), now)) {
                    reconciled.add(reconciliation.id());
                }
                usages.add(StoreUsage.of(claim, count.used(limit, now), false, now, count.wholeAt(limit, now)));
            }
            return StoreDecision.ofPeek(Source.OTHER, now, ++steps, usages);
        });
    }

    private static List<Grants> times(Reconciliation reconciliation, long now) {
        return reconciliation.agesToSend().stream()
                .map(age -> new Grants(now - age.fromMillis(), now - age.toMillis(), age.permits()))
                .toList();
    }

    private CountModel count(Claim claim) {
        CountModel count = counts.computeIfAbsent(claim.identity(), identity -> CountModel.of(claim.limit()));
        count.select(claim.holdId());
        return count;
    }
}
