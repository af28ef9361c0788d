package io.github.spillgate.redis;

import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.ScriptReply;
import io.github.spillgate.redis.lane.ScriptRequest;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.Reconciliation;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

/** Releases and renews the permits of concurrency limits, in one command for each hash slot. */
final class HoldCommands {

    private final SlotRouter router;
    private final CountKeys keys;

    HoldCommands(SlotRouter router, CountKeys keys) {
        this.router = router;
        this.keys = keys;
    }

    Mono<Void> release(List<Claim> holds) {
        return router.inEachSlot(
                holds,
                (slot, all) -> router.togetherOrEach(
                        byCount(all), release(slot, byCount(all)), ofCount -> release(slot, List.of(ofCount))));
    }

    private Mono<ScriptReply> release(int slot, Collection<List<Claim>> byCount) {
        return run(slot, byCount, ScriptRequest.release(byCount));
    }

    Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return router.inEachSlot(
                        holds,
                        Function.identity(),
                        (slot, all) -> router.togetherOrEach(
                                byCount(all),
                                renewals(slot, byCount(all)),
                                ofCount -> renewals(slot, List.of(ofCount))))
                .collectList()
                .map(HoldCommands::flatten);
    }

    private Mono<List<HoldRenewal>> renewals(int slot, Collection<List<Claim>> byCount) {
        return renew(slot, byCount).map(reply -> {
            List<HoldRenewal> renewals = new ArrayList<>();
            for (Claim hold : flatten(byCount)) {
                renewals.add(new HoldRenewal(hold, outcome(reply, renewals.size())));
            }
            return renewals;
        });
    }

    private static RenewalOutcome outcome(ScriptReply reply, int i) {
        return switch (reply.status(i)) {
            case FREE -> reply.flag(i) ? RenewalOutcome.RENEWED : RenewalOutcome.RESTORED;
            case DENIED -> RenewalOutcome.RELEASED;
            case UNWRITTEN -> RenewalOutcome.FULL;
            case FOREIGN, LATE -> RenewalOutcome.FOREIGN;
        };
    }

    /** Holds permits again that another store has granted or renewed. */
    Mono<List<Corrected>> reconcile(int slot, List<Reconciliation> reconciliations) {
        Collection<List<Claim>> byCount = byCount(
                reconciliations.stream().flatMap(one -> one.holds().stream()).toList());
        Map<Object, Corrected> byHandle = new HashMap<>();
        Mono<Map<Object, Corrected>> results = byCount.isEmpty()
                ? Mono.just(byHandle)
                : renew(slot, byCount).map(reply -> {
                    int last = -1;
                    for (List<Claim> holds : byCount) {
                        last += holds.size();
                        Claim claim = holds.get(0);
                        byHandle.put(
                                claim.handle(),
                                reply.status(last) == ScriptReply.Status.FOREIGN
                                        ? Corrected.of(CorrectionOutcome.NOT_POSSIBLE)
                                        : new Corrected(
                                                CorrectionOutcome.APPLIED, reply.usage(last, claim.withPermits(0))));
                    }
                    return byHandle;
                });
        // Those without a hold were released since.
        return results.map(known -> reconciliations.stream()
                .map(one -> known.getOrDefault(one.claim().handle(), Corrected.of(CorrectionOutcome.WITHOUT_EFFECT)))
                .toList());
    }

    private Mono<ScriptReply> renew(int slot, Collection<List<Claim>> byCount) {
        return run(slot, byCount, ScriptRequest.renew(byCount));
    }

    /** Runs the script in one command. While the slot is being migrated, Redis may refuse that. */
    private Mono<ScriptReply> run(int slot, Collection<List<Claim>> byCount, byte[] request) {
        byte[][] counts =
                keys.counts(byCount.stream().map(holds -> holds.get(0)).toList());
        return router.run(slot, Script.Purpose.RENEW, counts, request).map(ScriptReply::new);
    }

    private static Collection<List<Claim>> byCount(List<Claim> holds) {
        return holds.stream().collect(Collectors.groupingBy(Claim::handle)).values();
    }

    private static <T> List<T> flatten(Collection<List<T>> lists) {
        return lists.stream().flatMap(List::stream).toList();
    }
}
