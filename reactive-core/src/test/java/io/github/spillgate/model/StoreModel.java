package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
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
import java.util.concurrent.atomic.AtomicInteger;
import reactor.core.publisher.Mono;

/** The brute-force oracle: a store made of models. For one thread. */
public class StoreModel implements LimitStore {

    final Map<String, CountModel> counts = new HashMap<>();
    final Map<String, Integer> resets = new HashMap<>();

    /** The life in which each reconciliation was charged. */
    final Map<String, Mark> reconciled = new HashMap<>();

    /** The life of each count that has one, which never ends by itself. */
    final Map<String, Integer> lives = new HashMap<>();

    final Set<String> settled = new HashSet<>();
    final InstantSource clock;
    int steps;

    /** The number of births in all models, so that one that replaces another has other lives. */
    private static final AtomicInteger BIRTHS = new AtomicInteger();

    public StoreModel(InstantSource clock) {
        this.clock = clock;
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        return Mono.fromCallable(() -> switch (request.mode()) {
            case PEEK -> decide(request.claims(), false);
            case TAKE -> decide(request.claims(), true);
            case LEASE -> lease(request.claims().get(0), request.parts());
        });
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
                } else if (claim.limit() instanceof Limit.Ban ban && !ban.isPause()) {
                    recordIfStruck(claim, violated, now);
                }
            }
        }
        Reply reply = new Reply(Source.OTHER, now, charging ? ++steps : 0);
        List<StoreUsage> usages = new ArrayList<>();
        for (Claim claim : claims) {
            usages.add(usage(reply, claim, violated.contains(claim), !violated.isEmpty()));
        }
        return charging ? StoreDecision.ofTake(reply, usages) : StoreDecision.ofPeek(reply, usages);
    }

    /** A denial counts if limits of the charge deny, and none of its bans. */
    private void recordIfStruck(Claim ban, List<Claim> violated, long now) {
        List<Claim> ofCharge = violated.stream()
                .filter(claim -> claim.charge() == ban.charge())
                .toList();
        if (!ofCharge.isEmpty() && ofCharge.stream().noneMatch(claim -> claim.limit() instanceof Limit.Ban)) {
            count(ban).recordDenied(ban.limit(), 1, now);
        }
    }

    /** Returns the usage of a count in a reply that allows or denies a request. */
    StoreUsage usage(Reply reply, Claim claim, boolean isViolated, boolean isDenied) {
        long now = reply.at();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        long fitsAt = isDenied ? count.fitsAt(limit, claim.permits(), now) : now;
        long used = count.used(limit, now);
        long wholeAt = count.wholeAt(limit, now);
        return new StoreUsage(
                reply, claim, used, isViolated, fitsAt, wholeAt, life(claim), count.period(), false, null);
    }

    private static int birth() {
        return (BIRTHS.getAndIncrement() % 8_191 + 1) * StoreUsage.RESETS;
    }

    /** Returns the life of a count, which begins when it is first in use. */
    final int life(Claim claim) {
        boolean isUsed = count(claim).used(claim.limit(), clock.millis()) > 0;
        Integer life = isUsed && !claim.limit().holdsPermits()
                ? lives.computeIfAbsent(claim.identity(), any -> birth())
                : lives.get(claim.identity());
        return life == null ? 0 : life;
    }

    private StoreDecision lease(Claim claim, int parts) {
        long now = clock.millis();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        count.pull(limit, now);
        long leased = count.lease(limit, claim.permits(), parts, now);
        Reply reply = new Reply(Source.OTHER, now, ++steps);
        return StoreDecision.ofLease(reply, usage(reply, claim.withPermits(leased), false, false));
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return Mono.fromCallable(() -> corrections.stream().map(this::correct).toList());
    }

    Corrected correct(Correction correction) {
        if (correction instanceof Refund one) {
            refund(one);
        } else if (correction instanceof RefundOldest) {
            refundOldest(correction.claim());
        } else if (correction instanceof RefundCharged one) {
            refundCharged(one);
        } else if (correction instanceof Settlement one) {
            return settle(one);
        } else if (correction instanceof Reconciliation one) {
            return corrected(charge(one, clock.millis()), one.claim());
        } else {
            return Corrected.of(CorrectionOutcome.UNSUPPORTED);
        }
        return Corrected.of(CorrectionOutcome.APPLIED);
    }

    /** Returns the result of a correction, with the usage of its count for a claim. */
    Corrected corrected(boolean isApplied, Claim claim) {
        long now = clock.millis();
        steps += isApplied ? 1 : 0;
        return new Corrected(
                isApplied ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                usage(new Reply(Source.OTHER, now, steps), claim, false, false));
    }

    private void refund(Refund one) {
        Claim claim = one.claim();
        long now = clock.millis();
        count(claim).pull(claim.limit(), now);
        if (one.usage().life() == life(claim)) {
            count(claim).refund(claim.limit(), one.usage().chargedAt(), claim.permits(), now);
        }
    }

    private void refundOldest(Claim claim) {
        long now = clock.millis();
        if (!claim.limit().holdsPermits()) {
            count(claim).pull(claim.limit(), now);
            count(claim).refundOldest(claim.limit(), claim.permits(), now);
        }
    }

    private void refundCharged(RefundCharged one) {
        long now = clock.millis();
        Claim claim = one.claim();
        Limit limit = claim.limit();
        if (one.life() != life(claim) || now >= one.until()) {
            return;
        }
        count(claim).pull(limit, now);
        count(claim).refundCharged(limit, claim.permits(), one.until(), now);
    }

    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return Mono.fromCallable(
                () -> holds.stream().map(claim -> hold(claim, action)).toList());
    }

    private HoldRenewal hold(Claim claim, HoldAction action) {
        if (action == HoldAction.RENEW) {
            return new HoldRenewal(claim, hold(claim).renew(claim.limit(), claim.permits(), clock.millis()));
        }
        hold(claim).release(clock.millis());
        return new HoldRenewal(claim, HoldRenewal.RenewalOutcome.RELEASED);
    }

    private HoldModel hold(Claim claim) {
        HoldModel count = (HoldModel) count(claim);
        count.pull(claim.limit(), clock.millis());
        return count;
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                count(claim).reset();
                resets.put(claim.identity(), ++steps);
                lives.computeIfPresent(
                        claim.identity(),
                        (identity, life) ->
                                life / StoreUsage.RESETS * StoreUsage.RESETS + (life + 1) % StoreUsage.RESETS);
            }
        });
    }

    /** Settles a cost. Like Redis, says what was certainly charged now: of one at the bound, less may have been. */
    private Corrected settle(Settlement one) {
        long now = clock.millis();
        boolean isApplied = settle(one, now);
        boolean isCharged = isApplied && count(one.claim()).used(one.claim().limit(), now) < one.most();
        return corrected(isApplied, one.claim().withPermits(isCharged ? one.toCharge() : 0));
    }

    /** Settles a cost, and returns whether it takes effect: it was not settled before, and the count was not reset. */
    boolean settle(Settlement one, long now) {
        Claim claim = one.claim();
        Limit limit = claim.limit();
        CountModel count = count(claim);
        count.pull(limit, now);
        boolean isReset = one.usage().reply().stamp() <= resets.getOrDefault(claim.identity(), 0);
        if (isReset || !settled.add(one.id() + " " + claim.identity())) {
            return false;
        }
        if (one.toRefund() > 0 && one.usage().life() == life(claim)) {
            count.refund(limit, one.usage().chargedAt(), one.toRefund(), now);
        }
        if (one.toCharge() > 0) {
            count.takeBeyond(limit, one.toCharge(), one.most(), now);
        }
        return true;
    }

    /** Charges a reconciliation, and returns whether it was not charged before and still counts. */
    boolean charge(Reconciliation reconciliation, long now) {
        Limit limit = reconciliation.claim().limit();
        CountModel count = count(reconciliation.claim());
        count.pull(limit, now);
        String mark = reconciliation.source() + " " + reconciliation.claim().identity();
        Mark before = reconciled.getOrDefault(mark, new Mark(-1, 0));
        if ((before.life == life(reconciliation.claim()) / StoreUsage.RESETS
                        && reconciliation.number() <= before.number)
                || !count.reconcile(limit, times(limit, reconciliation.agesToSend(), now), now)) {
            return false;
        }
        int life = lives.computeIfAbsent(reconciliation.claim().identity(), any -> birth());
        reconciled.put(mark, new Mark(reconciliation.number(), life / StoreUsage.RESETS));
        return true;
    }

    static List<Grants> times(Limit limit, List<Grants> ages, long now) {
        return limit instanceof Limit.Quota ? ages : times(ages, now);
    }

    static List<Grants> times(List<Grants> ages, long now) {
        return ages.stream()
                .map(age -> new Grants(now - age.fromMillis(), now - age.toMillis(), age.permits()))
                .toList();
    }

    CountModel count(Claim claim) {
        CountModel count = counts.computeIfAbsent(claim.identity(), identity -> CountModel.of(claim.limit()));
        count.select(claim.holdId());
        return count;
    }

    /** The last charge of a source on a count. */
    record Mark(long number, int life) {}
}
