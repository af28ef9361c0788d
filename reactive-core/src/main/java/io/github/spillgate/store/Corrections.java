package io.github.spillgate.store;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.HoldCount;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Applies changes that are decided already, each by a task of its own. */
final class Corrections {

    private static final byte[] SET = {'1'};

    /** For how long the mark of a settlement is kept, in milliseconds; longer than it is sent again. */
    private static final long LIFE_OF_SETTLEMENT = 60_000;

    private static final Corrected APPLIED = Corrected.of(CorrectionOutcome.APPLIED);
    private static final Corrected WITHOUT_EFFECT = Corrected.of(CorrectionOutcome.WITHOUT_EFFECT);
    private static final Corrected NOT_POSSIBLE = Corrected.of(CorrectionOutcome.NOT_POSSIBLE);
    private static final Corrected UNSUPPORTED = Corrected.of(CorrectionOutcome.UNSUPPORTED);

    private Corrections() {}

    static Mono<List<Corrected>> correct(Engine engine, List<? extends Correction> corrections) {
        return inOrder(corrections, one -> correct(engine, one));
    }

    private static Mono<Corrected> correct(Engine engine, Correction one) {
        Claim claim = one.claim();
        if (one instanceof Reconciliation some) {
            return Reconciliations.correct(engine, some);
        } else if (claim.limit().holdsPermits()) {
            // It is not known which holder has finished.
            return Mono.just(WITHOUT_EFFECT);
        } else if (one instanceof Settlement some) {
            List<String> keys = List.of(claim.identity(), Page.mark(claim, ""), Page.mark(claim, some.id()));
            return engine.run(keys, some.deadline(), page -> settle(page, some))
                    .onErrorReturn(Kind.LATE::isOf, NOT_POSSIBLE);
        }
        return engine.run(List.of(claim.identity()), LimitStore.NO_DEADLINE, page -> refund(page, one));
    }

    // Refunds

    private static Corrected refund(Page page, Correction one) {
        Claim claim = one.claim();
        RateCount count = (RateCount) page.count(claim);
        if (count == null) {
            return NOT_POSSIBLE;
        } else if (one instanceof Refund some) {
            return refund(
                    count, some.usage().life(), () -> count.refund(some.usage().chargedAt(), claim.permits()));
        } else if (one instanceof RefundCharged some) {
            return page.millis() >= some.until()
                    ? WITHOUT_EFFECT
                    : refund(count, some.life(), () -> count.refundCharged(claim.permits(), some.until()));
        } else if (one instanceof RefundOldest) {
            return refund(count, count.life(), () -> count.refundOldest(claim.permits()));
        }
        return UNSUPPORTED;
    }

    /** Permits of another life, or from before a reset, are gone, and a refund must not remove others. */
    private static Corrected refund(RateCount count, int life, Runnable refund) {
        if (count.life() != life) {
            return WITHOUT_EFFECT;
        }
        refund.run();
        return APPLIED;
    }

    // Settlements

    private static Corrected settle(Page page, Settlement one) {
        Claim claim = one.claim();
        RateCount count = (RateCount) page.count(claim);
        if (count == null) {
            return NOT_POSSIBLE;
        }
        String mark = Page.mark(claim, one.id());
        boolean isNew = one.usage().reply().stamp() > page.resetAt(claim) && page.value(mark).length == 0;
        if (isNew) {
            page.put(mark, SET, page.millis() + LIFE_OF_SETTLEMENT);
            if (one.toCharge() > 0) {
                count.takeBeyond(one.toCharge(), one.most());
            } else if (one.toRefund() > 0 && one.usage().life() == count.life()) {
                count.refund(one.usage().chargedAt(), one.toRefund());
            }
        }
        // At the highest number of used permits, fewer may have been charged.
        boolean isCharged = isNew && count.used() < one.most();
        return new Corrected(
                isNew ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                count.usage(page.reply(), claim.withPermits(isCharged ? one.toCharge() : 0), false, false));
    }

    // Holds

    static Mono<List<HoldRenewal>> hold(Engine engine, List<Claim> holds, HoldAction action) {
        return Mono.defer(() -> inOrder(
                        List.copyOf(holds.stream()
                                .collect(Collectors.groupingBy(Claim::handle))
                                .values()),
                        ofCount -> engine.run(
                                List.of(ofCount.get(0).identity()),
                                LimitStore.NO_DEADLINE,
                                page -> ofCount.stream()
                                        .map(claim -> new HoldRenewal(claim, hold(page, claim, action)))
                                        .toList())))
                .map(all -> all.stream().flatMap(List::stream).toList());
    }

    private static RenewalOutcome hold(Page page, Claim claim, HoldAction action) {
        HoldCount count = (HoldCount) page.count(claim);
        if (action == HoldAction.RENEW) {
            return count == null ? RenewalOutcome.FOREIGN : count.renew(claim.permits());
        } else if (count != null) {
            count.release();
        }
        return RenewalOutcome.RELEASED;
    }

    // Resets

    static Mono<Void> reset(Engine engine, List<Claim> claims, long deadline) {
        if (claims.isEmpty()) {
            return Mono.empty();
        }
        List<String> keys = new ArrayList<>(2 * claims.size());
        for (Claim claim : claims) {
            keys.add(claim.identity());
            keys.add(Page.mark(claim, ""));
        }
        return engine.run(keys, deadline, page -> {
                    claims.forEach(claim -> reset(page, claim));
                    page.tick();
                    return claims;
                })
                .then();
    }

    private static void reset(Page page, Claim claim) {
        byte[] value = page.value(claim.identity());
        if (value.length > 0) {
            page.put(claim.identity(), Count.emptied(claim.limit(), value), 0);
        }
        page.put(Page.mark(claim, ""), Long.toString(page.micros()), page.millis() + Count.lifeOfReset(claim.limit()));
    }

    /** Does something for each, at the same time. One that fails does not prevent the others. */
    private static <E, T> Mono<List<T>> inOrder(List<E> all, Function<E, Mono<T>> each) {
        return Flux.fromIterable(all)
                .flatMapSequentialDelayError(each, 256, 1)
                .collectList()
                .onErrorMap(
                        Exceptions::isMultiple,
                        e -> Exceptions.unwrapMultiple(e).get(0));
    }
}
