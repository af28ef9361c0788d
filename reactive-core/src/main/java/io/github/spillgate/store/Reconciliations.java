package io.github.spillgate.store;

import io.github.spillgate.count.HoldCount;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.count.RestoredMark;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import reactor.core.publisher.Mono;

/** Charges what another store has granted, each hand-over once, and restores what this store has lost. */
final class Reconciliations {

    /** The id of the mark of what was restored. */
    private static final String RESTORED = "!";

    /** The mark of what has granted permits elsewhere: the number of its last charge, and the life of the count. */
    private static final Pattern SOURCE_MARK = Pattern.compile("(\\d{1,18}) (\\d{1,9})");

    /** In milliseconds. A charge that is sent again even later is made twice, towards denying. */
    private static final long LONGEST_SOURCE_MARK = 3_600_000;

    private Reconciliations() {}

    static Mono<Corrected> correct(Engine engine, Reconciliation one) {
        return one.claim().limit().holdsPermits() ? ofHolds(engine, one) : ofRate(engine, one);
    }

    /**
     * Charges and restores permits. Their ages are those of the subscription, which is before the time of the page: if
     * the request waits, they count as if they had been granted later, which errs towards denying.
     */
    private static Mono<Corrected> ofRate(Engine engine, Reconciliation one) {
        Claim claim = one.claim();
        List<String> keys = List.of(
                claim.identity(), Page.mark(claim, one.source()), Page.mark(claim, ""), Page.mark(claim, RESTORED));
        return Mono.defer(() -> {
            List<Grants> ages = one.agesToSend();
            List<LostPermits> lost = one.lost().stream()
                    .map(some -> new LostPermits(some.life(), some.since(), one.ages(some.grants())))
                    .toList();
            return engine.run(keys, LimitStore.NO_DEADLINE, page -> {
                RateCount count = (RateCount) page.count(claim);
                if (count == null) {
                    return Corrected.of(CorrectionOutcome.NOT_POSSIBLE);
                }
                boolean isCharged = charge(page, count, one, ages);
                boolean isRestored = restore(page, count, claim, lost);
                return new Corrected(
                        isCharged || isRestored ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                        count.usage(page.reply(), claim, false, false));
            });
        });
    }

    /** Charges grants, unless they were charged in this life of the count before, or are a ban from before a reset. */
    private static boolean charge(Page page, RateCount count, Reconciliation one, List<Grants> ages) {
        String key = Page.mark(one.claim(), one.source());
        Matcher before = SOURCE_MARK.matcher(page.text(key));
        boolean isOld = before.matches()
                && Long.parseLong(before.group(2)) == count.life() / StoreUsage.RESETS
                && one.number() <= Long.parseLong(before.group(1));
        long reach = isOld || isPardoned(page, one.claim(), ages) ? 0 : count.charge(ages);
        if (reach > 0) {
            String mark = one.number() + " " + count.lifeAt(page.micros()) / StoreUsage.RESETS;
            page.put(key, mark, page.millis() + Math.min(reach, LONGEST_SOURCE_MARK));
        }
        return reach > 0;
    }

    /** Returns whether a ban was reset after it had begun. If the clock was set back since, that is not known. */
    private static boolean isPardoned(Page page, Claim claim, List<Grants> ages) {
        long now = page.millis();
        long reset = page.resetAt(claim) / 1_000;
        return !claim.limit().takesPermits()
                && reset <= now
                && ages.stream().allMatch(ban -> now - ban.toMillis() < reset);
    }

    /** Restores permits of lost lives, unless the count was reset since they were known. */
    private static boolean restore(Page page, RateCount count, Claim claim, List<LostPermits> lost) {
        String key = Page.mark(claim, RESTORED);
        RestoredMark before = RestoredMark.parse(page.text(key));
        RestoredMark restored = before;
        for (LostPermits some : lost) {
            if (page.resetAt(claim) < Math.max(0, 1_000 * some.since())) {
                restored = count.restore(some.life(), some.grants(), restored, page.micros());
            }
        }
        if (restored != before) {
            page.put(key, restored.text(), page.millis() + LimitKind.reach(claim.limit()));
        }
        return restored != before;
    }

    private static Mono<Corrected> ofHolds(Engine engine, Reconciliation one) {
        Claim claim = one.claim();
        return engine.run(List.of(claim.identity()), LimitStore.NO_DEADLINE, page -> {
            // Those without a hold were released since.
            Corrected result = Corrected.of(CorrectionOutcome.WITHOUT_EFFECT);
            for (Claim hold : one.holds()) {
                HoldCount count = (HoldCount) page.count(hold);
                if (count == null) {
                    return Corrected.of(CorrectionOutcome.NOT_POSSIBLE);
                }
                count.renew(hold.permits());
                StoreUsage usage = count.usage(page.reply(), hold.withPermits(0), false, false);
                result = new Corrected(CorrectionOutcome.APPLIED, usage);
            }
            return result;
        });
    }
}
