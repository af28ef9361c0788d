package io.github.spillgate.redis;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Source;
import io.github.spillgate.redis.CountKeys.HoldKeys;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Releases and renews the permits of concurrency limits, in one command for each hash slot. */
final class HoldCommands {

    private final SlotRouter router;
    private final CountKeys keys;

    HoldCommands(SlotRouter router, CountKeys keys) {
        this.router = router;
        this.keys = keys;
    }

    /** Returns whether the claim is on a concurrency limit. */
    static boolean isHold(Claim claim) {
        return claim.limit().algorithm() == Algorithm.CONCURRENT;
    }

    Mono<Void> release(List<Claim> holds) {
        return router.inEachSlot(
                holds,
                (slot, all) ->
                        router.togetherOrEach(byCount(all), release(slot, all), ofCount -> release(slot, ofCount)));
    }

    private Mono<ScriptReply> release(int slot, List<Claim> holds) {
        HoldKeys counts = keys.ofHolds(holds);
        return run(slot, counts, ScriptRequest.release(holds, counts.indexes()));
    }

    Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return router.inEachSlot(
                        holds,
                        Function.identity(),
                        (slot, all) -> renewals(slot, all)
                                .onErrorResume(
                                        Redirect::isCausedByTryAgain,
                                        e -> flatten(
                                                router.concurrently(byCount(all), ofCount -> renewals(slot, ofCount)))))
                .as(HoldCommands::flatten);
    }

    private Mono<List<HoldRenewal>> renewals(int slot, List<Claim> holds) {
        return renew(slot, holds).map(reply -> {
            List<HoldRenewal> renewals = new ArrayList<>(holds.size());
            for (int i = 0; i < holds.size(); i++) {
                renewals.add(new HoldRenewal(holds.get(i), outcome(reply, i)));
            }
            return renewals;
        });
    }

    private static RenewalOutcome outcome(ScriptReply reply, int i) {
        return switch (reply.status(i)) {
            case FREE -> reply.flag(i) ? RenewalOutcome.RENEWED : RenewalOutcome.RESTORED;
            case DENIED -> RenewalOutcome.RELEASED;
            default -> RenewalOutcome.FOREIGN;
        };
    }

    /** Holds permits again that another store has granted or renewed. */
    Mono<StoreDecision> reconcile(int slot, List<Reconciliation> reconciliations) {
        List<Claim> holds =
                reconciliations.stream().flatMap(one -> one.holds().stream()).toList();
        if (holds.isEmpty()) {
            return Mono.just(StoreDecision.ofPeek(
                    Source.REDIS,
                    0,
                    reconciliations.stream()
                            .map(one -> StoreUsage.ofHolds(one.claim(), 0, false, 0, 0))
                            .toList()));
        }
        return renew(slot, holds).map(reply -> {
            Map<Object, StoreUsage> usages = new LinkedHashMap<>();
            for (Reconciliation one : reconciliations) {
                // Released since, so that there is nothing to hold.
                usages.put(one.claim().handle(), StoreUsage.ofHolds(one.claim(), 0, false, reply.millis(), 0));
            }
            for (int i = 0; i < holds.size(); i++) {
                Claim claim = holds.get(i);
                if (reply.status(i) == ScriptReply.Status.FOREIGN) {
                    usages.remove(claim.handle());
                } else {
                    usages.put(claim.handle(), reply.usage(i, claim.asking(0)));
                }
            }
            return StoreDecision.ofPeek(Source.REDIS, reply.millis(), reply.micros(), List.copyOf(usages.values()));
        });
    }

    private Mono<ScriptReply> renew(int slot, List<Claim> holds) {
        HoldKeys counts = keys.ofHolds(holds);
        return run(slot, counts, ScriptRequest.renew(holds, counts.indexes()));
    }

    /** Runs the script in one command. While the slot is being migrated, Redis may refuse that. */
    private Mono<ScriptReply> run(int slot, HoldKeys counts, byte[] request) {
        return router.run(slot, Script.Purpose.RENEW, counts.toArray(), request)
                .map(reply -> new ScriptReply((byte[]) reply));
    }

    private static Collection<List<Claim>> byCount(List<Claim> holds) {
        return holds.stream().collect(Collectors.groupingBy(Claim::handle)).values();
    }

    private static Mono<List<HoldRenewal>> flatten(Flux<List<HoldRenewal>> renewals) {
        return renewals.collectList()
                .map(lists -> lists.stream().flatMap(List::stream).toList());
    }
}
