package io.github.spillgate.redis;

import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Charges what was decided elsewhere or has been lost, and corrects costs, in one command for each hash slot. */
final class ReconcileCommands {

    /** The stamp of a charge at an unknown time: it may be from before any reset. */
    private static final long UNKNOWN_STAMP = 0;

    private final SlotRouter router;
    private final CountKeys keys;
    private final HoldCommands holds;

    ReconcileCommands(SlotRouter router, CountKeys keys, HoldCommands holds) {
        this.router = router;
        this.keys = keys;
        this.holds = holds;
    }

    Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        if (reconciliations.isEmpty()) {
            return reconcile(0, reconciliations);
        }
        return router.inEachSlot(reconciliations, Reconciliation::claim, this::reconcile)
                .collectList()
                .map(parts -> join(reconciliations, Reconciliation::claim, parts));
    }

    private Mono<StoreDecision> reconcile(int slot, List<Reconciliation> reconciliations) {
        List<Reconciliation> ofHolds = reconciliations.stream()
                .filter(one -> HoldCommands.isHold(one.claim()))
                .toList();
        if (ofHolds.isEmpty()) {
            return reconcileRates(slot, reconciliations);
        }
        List<Reconciliation> rates = reconciliations.stream()
                .filter(one -> !HoldCommands.isHold(one.claim()))
                .toList();
        Mono<StoreDecision> held = holds.reconcile(slot, ofHolds);
        return rates.isEmpty()
                ? held
                : reconcileRates(slot, rates)
                        .zipWith(
                                held,
                                (charged, renewed) ->
                                        join(reconciliations, Reconciliation::claim, List.of(charged, renewed)));
    }

    private Mono<StoreDecision> reconcileRates(int slot, List<Reconciliation> reconciliations) {
        byte[][] names = keys.countsAndReconciliationMarks(reconciliations);
        // The request is made when it is sent, because it has the ages of the grants at that time.
        return router.run(slot, Script.Purpose.RECONCILE, names, clock -> ScriptRequest.reconcile(reconciliations))
                .map(reply -> reconciled(reconciliations, new ScriptReply(reply)));
    }

    private static StoreDecision reconciled(List<Reconciliation> reconciliations, ScriptReply reply) {
        List<StoreUsage> chargedNow = new ArrayList<>(reconciliations.size());
        List<StoreUsage> others = new ArrayList<>();
        for (int i = 0; i < reconciliations.size(); i++) {
            if (reply.status(i) != ScriptReply.Status.FOREIGN) {
                (reply.flag(i) ? chargedNow : others)
                        .add(reply.usage(i, reconciliations.get(i).claim()));
            }
        }
        // The others were charged earlier, perhaps before a reset, or no longer count.
        StoreDecision now = StoreDecision.ofPeek(Source.REDIS, reply.millis(), reply.micros(), chargedNow);
        StoreDecision earlier = StoreDecision.ofPeek(Source.REDIS, reply.millis(), UNKNOWN_STAMP, others);
        if (others.isEmpty()) {
            return now;
        }
        return chargedNow.isEmpty() ? earlier : join(reconciliations, Reconciliation::claim, List.of(now, earlier));
    }

    Mono<StoreDecision> restore(LostPermits permits) {
        Claim claim = permits.claim();
        byte[][] names = keys.countAndMarks(claim);
        byte[] request = ScriptRequest.restore(permits);
        return router.inEachSlot(
                        List.of(permits),
                        LostPermits::claim,
                        (slot, all) -> router.run(slot, Script.Purpose.RECONCILE, names, request))
                .next()
                .map(reply -> restored(new ScriptReply(reply), claim));
    }

    private static StoreDecision restored(ScriptReply reply, Claim claim) {
        boolean isForeign = reply.status(0) == ScriptReply.Status.FOREIGN;
        return StoreDecision.ofPeek(
                Source.REDIS,
                reply.millis(),
                reply.flag(0) ? reply.micros() : UNKNOWN_STAMP,
                isForeign ? List.of() : List.of(reply.usage(0, claim)));
    }

    Mono<StoreDecision> settle(List<Settlement> settlements) {
        return router.inEachSlot(settlements, Settlement::claim, this::settle)
                .collectList()
                .map(parts -> join(settlements, Settlement::claim, parts));
    }

    private Mono<StoreDecision> settle(int slot, List<Settlement> settlements) {
        byte[][] names = keys.countsAndSettlementMarks(settlements);
        return router.run(
                        slot, Script.Purpose.SETTLE, names, clock -> ScriptRequest.settle(settlements, clock::microsAt))
                .map(reply -> settled(settlements, new ScriptReply(reply)));
    }

    private static StoreDecision settled(List<Settlement> settlements, ScriptReply reply) {
        List<StoreUsage> usages = new ArrayList<>(settlements.size());
        for (int i = 0; i < settlements.size(); i++) {
            if (reply.status(i) == ScriptReply.Status.FREE) {
                Settlement one = settlements.get(i);
                // At the highest number of used permits, fewer may have been charged.
                boolean isCharged = reply.flag(i) && reply.usage(i, one.claim()).used() < one.most();
                usages.add(reply.usage(i, one.claim().withPermits(isCharged ? one.toCharge() : 0)));
            }
        }
        return StoreDecision.ofTake(Source.REDIS, reply.millis(), usages);
    }

    private static <E> StoreDecision join(List<E> all, Function<E, Claim> claim, List<StoreDecision> parts) {
        return parts.size() == 1
                ? parts.get(0)
                : StoreDecision.ofParts(
                        all.stream().map(claim).toList(),
                        parts.stream().flatMap(part -> part.parts().stream()).toList());
    }
}
