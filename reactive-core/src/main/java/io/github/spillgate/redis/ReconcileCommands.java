package io.github.spillgate.redis;

import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.ScriptReply;
import io.github.spillgate.redis.lane.ScriptRequest;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Mono;

/** Charges what was decided elsewhere or has been lost, and corrects costs, in one command for each hash slot. */
final class ReconcileCommands {

    private final SlotRouter router;
    private final CountKeys keys;
    private final HoldCommands holds;

    ReconcileCommands(SlotRouter router, CountKeys keys, HoldCommands holds) {
        this.router = router;
        this.keys = keys;
        this.holds = holds;
    }

    Mono<List<Corrected>> reconcile(List<Reconciliation> reconciliations) {
        return router.correctInEachSlot(
                reconciliations,
                (slot, some) -> SlotRouter.correctInGroups(
                        some,
                        one -> one.claim().limit().holdsPermits(),
                        (areHolds, group) -> areHolds ? holds.reconcile(slot, group) : reconcileRates(slot, group)));
    }

    private Mono<List<Corrected>> reconcileRates(int slot, List<Reconciliation> reconciliations) {
        byte[][] names = keys.countsAndReconciliationMarks(reconciliations);
        // The request is made when it is sent, because it has the ages of the grants at that time.
        return router.run(slot, Script.Purpose.RECONCILE, names, clock -> ScriptRequest.reconcile(reconciliations))
                .map(reply -> reconciled(reconciliations, new ScriptReply(reply)));
    }

    private static List<Corrected> reconciled(List<Reconciliation> reconciliations, ScriptReply reply) {
        List<Corrected> results = new ArrayList<>(reconciliations.size());
        for (Reconciliation one : reconciliations) {
            results.add(charged(reply, results.size(), one.claim()));
        }
        return results;
    }

    /** Returns the result of a charge, which may have been made earlier. */
    private static Corrected charged(ScriptReply reply, int i, Claim claim) {
        return reply.status(i) == ScriptReply.Status.FOREIGN
                ? Corrected.of(CorrectionOutcome.NOT_POSSIBLE)
                : new Corrected(outcome(reply, i), reply.usage(i, claim));
    }

    private static CorrectionOutcome outcome(ScriptReply reply, int i) {
        return reply.flag(i) ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT;
    }

    Mono<List<Corrected>> settle(List<Settlement> settlements) {
        return router.correctInEachSlot(settlements, this::settle);
    }

    private Mono<List<Corrected>> settle(int slot, List<Settlement> settlements) {
        byte[][] names = keys.countsAndSettlementMarks(settlements);
        return router.run(slot, Script.Purpose.SETTLE, names, clock -> ScriptRequest.settle(settlements, clock))
                .map(reply -> settled(settlements, new ScriptReply(reply)));
    }

    private static List<Corrected> settled(List<Settlement> settlements, ScriptReply reply) {
        List<Corrected> results = new ArrayList<>(settlements.size());
        for (Settlement one : settlements) {
            results.add(settled(one, reply, results.size()));
        }
        return results;
    }

    private static Corrected settled(Settlement one, ScriptReply reply, int i) {
        if (reply.status(i) != ScriptReply.Status.FREE) {
            return Corrected.of(CorrectionOutcome.NOT_POSSIBLE);
        }
        // At the highest number of used permits, fewer may have been charged.
        StoreUsage usage = reply.usage(i, one.claim().withPermits(0));
        boolean isCharged = reply.flag(i) && usage.used() < one.most();
        return new Corrected(
                outcome(reply, i), isCharged ? reply.usage(i, one.claim().withPermits(one.toCharge())) : usage);
    }
}
