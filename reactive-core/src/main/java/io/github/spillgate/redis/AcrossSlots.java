package io.github.spillgate.redis;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Function;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * Decides on counts that lie in several slots of a cluster, where no command can be about all of them: one slot after
 * the other, and what was taken is given back when a later one denies.
 */
final class AcrossSlots {
    // Design notes.
    //
    // What must not happen is that a permit is used that no count knows of. So a count is charged before anybody is
    // told, and what is uncertain stays charged: where a slot does not answer, what was taken before is given back, and
    // what it has done itself is left, for giving back what may not have been taken would give back what others have
    // taken. Nor is a giving back repeated of which no answer has come.
    //
    // What must not happen either is that two decisions, each with what the other one needs, both are denied. All go
    // through the slots in the same order, so whoever has the first of what two of them need finds the rest. Still,
    // others may be denied for what is given back a moment later; a group of keys, which lies in one slot, avoids that.
    //
    // Once one has denied, the others are asked what they would say, so that who was denied is told everything that
    // stands in his way, and when to come back. That costs no command more than taking would have. Who does not answer
    // soon is left out: a denial must not be lost because its asker has given up waiting for the rest.

    private final BiFunction<List<Claim>, Long, Mono<Decision>> take;
    private final Function<List<Claim>, Mono<Decision>> peek;
    private final BiFunction<Decision, List<Claim>, Mono<Void>> refund;
    private final Duration longestPeek;
    private final Scheduler deliverOn;

    /**
     * Each is asked about counts of one slot only.
     *
     * @param take takes from one slot until a deadline
     * @param longestPeek how long somebody who has been denied waits to be told of the rest
     * @param deliverOn where he is told what is known by then; what he waits for is told there too
     */
    AcrossSlots(
            BiFunction<List<Claim>, Long, Mono<Decision>> take,
            Function<List<Claim>, Mono<Decision>> peek,
            BiFunction<Decision, List<Claim>, Mono<Void>> refund,
            Duration longestPeek,
            Scheduler deliverOn) {
        this.take = take;
        this.peek = peek;
        this.refund = refund;
        this.longestPeek = longestPeek;
        this.deliverOn = deliverOn;
    }

    /** Takes what is asked of all slots, or nothing; in each slot until the deadline. */
    Mono<Decision> take(List<Claim> claims, List<List<Claim>> bySlot, long deadline) {
        return takeNext(claims, bySlot, deadline, List.of());
    }

    /** Tells what all slots would say. */
    Mono<Decision> peek(List<Claim> claims, List<List<Claim>> bySlot) {
        return Flux.fromIterable(bySlot).flatMap(peek).collectList().map(parts -> Decision.ofParts(claims, parts));
    }

    private Mono<Decision> takeNext(
            List<Claim> claims, List<List<Claim>> bySlot, long deadline, List<Decision> before) {
        int slot = before.size();
        if (slot == bySlot.size()) {
            return Mono.just(Decision.ofParts(claims, before));
        }
        return take.apply(bySlot.get(slot), deadline)
                .doOnError(error -> giveBack(before))
                .flatMap(part -> {
                    List<Decision> parts = new ArrayList<>(before);
                    parts.add(part);
                    if (part.isAllowed()) {
                        return takeNext(claims, bySlot, deadline, parts);
                    }
                    giveBack(before);
                    return denied(claims, parts, bySlot.subList(slot + 1, bySlot.size()));
                });
    }

    /** Nobody waits for it: who is denied, is denied. What counts although it is denied, stays. */
    private void giveBack(List<Decision> parts) {
        for (Decision part : parts) {
            if (part.isCharged()) {
                List<Claim> taken = part.limits().stream()
                        .map(Usage::claim)
                        .filter(claim -> !claim.limit().isCountingDenied())
                        .toList();
                refund.apply(part, taken).subscribe(done -> {}, error -> {});
            }
        }
    }

    private Mono<Decision> denied(List<Claim> claims, List<Decision> parts, List<List<Claim>> rest) {
        return Flux.fromIterable(rest)
                .flatMap(slot -> peek.apply(slot)
                        .timeout(longestPeek, Mono.<Decision>empty().publishOn(deliverOn), Schedulers.parallel())
                        .onErrorResume(error -> Mono.empty()))
                .collectList()
                .map(others -> {
                    parts.addAll(others);
                    return Decision.ofParts(claims, parts);
                });
    }
}
