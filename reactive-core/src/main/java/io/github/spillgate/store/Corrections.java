package io.github.spillgate.store;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.HoldCount;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.count.RestoredMark;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreUsage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Applies changes that are decided already, each by a task of its own. */
final class Corrections {

    /** The separator between the key of a count and the id of a mark, or nothing. Neither contains it. */
    private static final String MARK = "!";

    /** The mark of the last reset, in microseconds. */
    private static final Pattern TIME = Pattern.compile("\\d{1,18}");

    /** The mark of what has granted permits elsewhere: the number of its last charge, and the life of the count. */
    private static final Pattern SOURCE_MARK = Pattern.compile("(\\d{1,18}) (\\d{1,9})");

    /** In milliseconds. A charge that is sent again even later is made twice, towards denying. */
    private static final long LONGEST_SOURCE_MARK = 3_600_000;

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
        boolean isHold = claim.limit().holdsPermits();
        if (one instanceof Reconciliation some) {
            return isHold ? reconcileHolds(engine, some) : reconcileRate(engine, some);
        } else if (isHold) {
            // It is not known which holder has finished.
            return Mono.just(WITHOUT_EFFECT);
        } else if (one instanceof Settlement some) {
            List<String> keys = List.of(claim.identity(), mark(claim, ""), mark(claim, some.id()));
            return run(engine, keys, some.deadline(), page -> settle(page, some))
                    .onErrorReturn(LimitStoreDeadlineException.class, NOT_POSSIBLE);
        }
        return run(engine, List.of(claim.identity()), LimitStore.NO_DEADLINE, page -> refund(page, one));
    }

    private static <T> Mono<T> run(Engine engine, List<String> keys, long deadline, Function<Page, T> step) {
        return engine.run(new Task.Work<T>(keys, deadline, step, unused -> {}));
    }

    // Refunds

    private static Corrected refund(Page page, Correction one) {
        Claim claim = one.claim();
        RateCount count = (RateCount) page.count(claim);
        if (count == null) {
            return NOT_POSSIBLE;
        } else if (one instanceof Refund some) {
            return refund(
                    count,
                    some.decision().life(claim),
                    () -> count.refund(some.decision().chargedAt(claim), claim.permits()));
        } else if (one instanceof RefundCharged some) {
            return page.millis() >= some.until()
                    ? WITHOUT_EFFECT
                    : refund(count, some.life(), () -> refund(count, some));
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

    private static void refund(RateCount count, RefundCharged one) {
        Limit limit = one.claim().limit();
        if (limit instanceof Limit.Bucket) {
            // Permits that were charged later than they were taken leave the bucket one reach after that, at the
            // latest.
            count.refund(
                    Math.max(0, one.until() - limit.reach().toMillis()),
                    one.claim().permits());
        } else {
            count.refundOldest(one.claim().permits());
        }
    }

    // Settlements

    private static Corrected settle(Page page, Settlement one) {
        Claim claim = one.claim();
        RateCount count = (RateCount) page.count(claim);
        if (count == null) {
            return corrected(page, CorrectionOutcome.NOT_POSSIBLE, null);
        }
        String mark = mark(claim, one.id());
        boolean isNew = one.decision().stamp() > resetAt(page, claim) && page.value(mark).length == 0;
        if (isNew) {
            page.put(mark, SET, page.millis() + LIFE_OF_SETTLEMENT);
            if (one.toCharge() > 0) {
                count.takeBeyond(one.toCharge(), one.most());
            } else if (one.toRefund() > 0 && one.decision().life(claim) == count.life()) {
                count.refund(one.decision().chargedAt(claim), one.toRefund());
            }
        }
        // At the highest number of used permits, fewer may have been charged.
        boolean isCharged = isNew && count.used() < one.most();
        return corrected(
                page,
                isNew ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                count.usage(claim.withPermits(isCharged ? one.toCharge() : 0), page.micros(), false, false));
    }

    /** Returns the time of the last reset, in microseconds; -1 if none is known. */
    private static long resetAt(Page page, Claim claim) {
        String mark = text(page, mark(claim, ""));
        return TIME.matcher(mark).matches() ? Long.parseLong(mark) : -1;
    }

    private static Corrected corrected(Page page, CorrectionOutcome outcome, @Nullable StoreUsage usage) {
        return new Corrected(outcome, new Corrected.Reply(usage, page.millis(), page.micros()));
    }

    private static String mark(Claim claim, String id) {
        return claim.identity() + MARK + id;
    }

    // Reconciliations

    /**
     * Charges and restores permits. Their ages are those of the subscription, which is before the time of the page: if
     * the request waits, they count as if they had been granted later, which errs towards denying.
     */
    private static Mono<Corrected> reconcileRate(Engine engine, Reconciliation one) {
        Claim claim = one.claim();
        List<String> keys = List.of(claim.identity(), mark(claim, one.source()), mark(claim, ""), mark(claim, MARK));
        return Mono.defer(() -> {
            List<Grants> ages = one.agesToSend();
            List<LostPermits> lost = one.lost().stream()
                    .map(some -> new LostPermits(some.life(), some.since(), one.ages(some.grants())))
                    .toList();
            return run(engine, keys, LimitStore.NO_DEADLINE, page -> {
                RateCount count = (RateCount) page.count(claim);
                if (count == null) {
                    return corrected(page, CorrectionOutcome.NOT_POSSIBLE, null);
                }
                boolean isCharged = charge(page, count, one, ages);
                boolean isRestored = restore(page, count, claim, lost);
                return corrected(
                        page,
                        isCharged || isRestored ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                        count.usage(claim, page.micros(), false, false));
            });
        });
    }

    /** Charges grants, unless they were charged in this life of the count before. */
    private static boolean charge(Page page, RateCount count, Reconciliation one, List<Grants> ages) {
        String key = mark(one.claim(), one.source());
        Matcher before = SOURCE_MARK.matcher(text(page, key));
        boolean isOld = before.matches()
                && Long.parseLong(before.group(2)) == count.life() / StoreUsage.RESETS
                && one.number() <= Long.parseLong(before.group(1));
        long reach = isOld ? 0 : count.charge(ages);
        if (reach > 0) {
            String mark = one.number() + " " + count.lifeAt(page.micros()) / StoreUsage.RESETS;
            page.put(key, bytes(mark), page.millis() + Math.min(reach, LONGEST_SOURCE_MARK));
        }
        return reach > 0;
    }

    /** Restores permits of lost lives, unless the count was reset since they were known. */
    private static boolean restore(Page page, RateCount count, Claim claim, List<LostPermits> lost) {
        String key = mark(claim, MARK);
        RestoredMark before = RestoredMark.parse(text(page, key));
        RestoredMark restored = before;
        for (LostPermits some : lost) {
            if (resetAt(page, claim) < Math.max(0, 1_000 * some.since())) {
                restored = count.restore(some.life(), some.grants(), restored, page.micros());
            }
        }
        if (restored != before) {
            page.put(
                    key,
                    bytes(restored.text()),
                    page.millis() + claim.limit().reach().toMillis());
        }
        return restored != before;
    }

    private static String text(Page page, String key) {
        return new String(page.value(key), StandardCharsets.US_ASCII);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static Mono<Corrected> reconcileHolds(Engine engine, Reconciliation one) {
        Claim claim = one.claim();
        return run(engine, List.of(claim.identity()), LimitStore.NO_DEADLINE, page -> {
            // Those without a hold were released since.
            Corrected result = WITHOUT_EFFECT;
            for (Claim hold : one.holds()) {
                HoldCount count = (HoldCount) page.count(hold);
                if (count == null) {
                    return corrected(page, CorrectionOutcome.NOT_POSSIBLE, null);
                }
                count.renew(hold.permits());
                StoreUsage usage = count.usage(hold.withPermits(0), page.micros(), false, false);
                result = corrected(page, CorrectionOutcome.APPLIED, usage);
            }
            return result;
        });
    }

    // Holds

    static Mono<List<HoldRenewal>> hold(Engine engine, List<Claim> holds, HoldAction action) {
        return Mono.defer(() -> inOrder(
                        List.copyOf(holds.stream()
                                .collect(Collectors.groupingBy(Claim::handle))
                                .values()),
                        ofCount -> run(
                                engine,
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
            keys.add(mark(claim, ""));
        }
        return run(engine, keys, deadline, page -> {
                    claims.forEach(claim -> reset(page, claim));
                    page.tick();
                    return claims;
                })
                .then();
    }

    private static void reset(Page page, Claim claim) {
        byte[] value = page.value(claim.identity());
        if (value.length > 0) {
            page.put(claim.identity(), Count.emptied(value), 0);
        }
        page.put(
                mark(claim, ""), bytes(Long.toString(page.micros())), page.millis() + Count.lifeOfReset(claim.limit()));
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
