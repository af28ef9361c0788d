package io.github.spillgate.redis;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * Decides on counts in several hash slots of a cluster, which one command cannot do: charges slot by slot, and refunds
 * the earlier slots if a later one denies.
 */
final class MultiSlotDecider {
    // Design notes.
    //
    // No permit may be used that no count has charged. So all slots are charged before the caller gets a decision, and
    // what is uncertain stays charged. If a slot does not reply, the earlier slots are refunded, and that slot is not:
    // if it has not charged, a refund would return permits of other requests. A refund without a reply is not retried.
    //
    // Two decisions must not both be denied because each holds what the other needs. All decisions charge the slots in
    // the same order, so the one that gets the first common slot finds the others free. Other requests may still be
    // denied by permits that are refunded a moment later. Keys of one group are in one slot and avoid that.
    //
    // After a denial the remaining slots are peeked, so that the decision has all violated limits and the time of the
    // next retry. That needs no more commands than charging. A slot that does not reply soon is left out: the denial
    // must reach its caller before the caller's deadline.

    /** Decides on counts in one slot. */
    private final RedisStore store;

    /** How long a denial waits for the remaining slots. */
    private final Duration longestPeek;

    private final Scheduler deliverOn;

    MultiSlotDecider(RedisStore store, Duration longestPeek, Scheduler deliverOn) {
        this.store = store;
        this.longestPeek = longestPeek;
        this.deliverOn = deliverOn;
    }

    /** Charges all slots or none, each until the deadline. */
    Mono<StoreDecision> take(List<Claim> claims, List<List<Claim>> bySlot, long deadline) {
        return takeNext(claims, bySlot, deadline, List.of());
    }

    /** Returns the decision that charging all slots would make. */
    Mono<StoreDecision> peek(List<Claim> claims, List<List<Claim>> bySlot) {
        return Flux.fromIterable(bySlot)
                .flatMap(slot -> store.take(StoreRequest.peek(slot)))
                .collectList()
                .map(parts -> combined(claims, parts));
    }

    private Mono<StoreDecision> takeNext(
            List<Claim> claims, List<List<Claim>> bySlot, long deadline, List<StoreDecision> earlier) {
        int slot = earlier.size();
        if (slot == bySlot.size()) {
            return Mono.just(combined(claims, earlier));
        }
        return store.take(StoreRequest.take(bySlot.get(slot), deadline))
                .doOnError(error -> refund(earlier))
                .flatMap(part -> {
                    List<StoreDecision> parts = new ArrayList<>(earlier);
                    parts.add(part);
                    if (part.isAllowed()) {
                        return takeNext(claims, bySlot, deadline, parts);
                    }
                    refund(earlier);
                    return denied(claims, parts, bySlot.subList(slot + 1, bySlot.size()));
                });
    }

    /** Refunds without waiting: the denial is final. Limits that count denied requests keep their permits. */
    private void refund(List<StoreDecision> parts) {
        for (StoreDecision part : parts) {
            if (part.isCharged()) {
                List<Refund> taken = Refund.of(part).stream()
                        .filter(one -> !one.claim().limit().isCountingDenied())
                        .toList();
                store.correct(taken).subscribe(done -> {}, error -> {});
                store.releaseUnused(part);
            }
        }
    }

    private Mono<StoreDecision> denied(List<Claim> claims, List<StoreDecision> parts, List<List<Claim>> remaining) {
        return Flux.fromIterable(remaining)
                .flatMap(slot -> store.take(StoreRequest.peek(slot))
                        .timeout(longestPeek, Mono.<StoreDecision>empty().publishOn(deliverOn), Schedulers.parallel())
                        .onErrorResume(error -> Mono.empty()))
                .collectList()
                .map(others -> {
                    parts.addAll(others);
                    return combined(claims, parts);
                });
    }

    /**
     * Combines the decisions of several servers, each by its own clock. If one of them denied, what the others took is
     * shown as refunded.
     *
     * @param parts at least one, no two with the same claim
     * @return the decision, with a usage for each claim that a part has, in the order of the claims
     */
    static StoreDecision combined(List<Claim> claims, List<StoreDecision> parts) {
        boolean isAllowed = parts.stream().allMatch(StoreDecision::isAllowed);
        boolean isCharged = parts.stream().anyMatch(StoreDecision::isCharged);
        long latest = parts.stream().mapToLong(part -> part.reply().at()).max().orElseThrow();
        Reply reply = new Reply(parts.get(0).source(), latest);
        Map<Object, StoreUsage> known = new HashMap<>();
        for (StoreDecision part : parts) {
            for (StoreUsage usage : part.usages()) {
                StoreUsage left = !isAllowed && part.isCharged() ? refunded(usage) : usage;
                known.put(usage.claim().handle(), left.shownAt(reply));
            }
        }
        List<StoreUsage> usages = claims.stream()
                .map(claim -> known.get(claim.handle()))
                .filter(Objects::nonNull)
                .toList();
        return isCharged ? StoreDecision.ofTake(reply, usages) : StoreDecision.ofPeek(reply, usages);
    }

    /**
     * Returns a usage after a refund of its claim. The store has replied the usage before it, and replies to the refund
     * later. Limits that count denied requests are not refunded.
     */
    private static StoreUsage refunded(StoreUsage taken) {
        return taken.limit().isCountingDenied()
                ? taken
                : new StoreUsage(
                        taken.reply(),
                        taken.claim(),
                        Math.max(0, taken.used() - taken.cost()),
                        taken.isViolated(),
                        taken.fitsAtMillis(),
                        taken.wholeAtMillis(),
                        taken.life(),
                        null,
                        false,
                        taken.inStore());
    }
}
