package io.github.spillgate.redis;

import io.github.spillgate.redis.ScriptRequest.DecidedClaim;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;

/** Refunds permits, in one command for each hash slot. Those of concurrency limits are released. */
final class RefundCommands {

    /** The value of a reset mark; the script reads it as a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    private final SlotRouter router;
    private final CountKeys keys;
    private final HoldCommands holds;
    private final Scheduler deliverOn;

    RefundCommands(SlotRouter router, CountKeys keys, HoldCommands holds, Scheduler deliverOn) {
        this.router = router;
        this.keys = keys;
        this.holds = holds;
        this.deliverOn = deliverOn;
    }

    /** Refunds what a decision took. */
    Mono<Void> refund(StoreDecision decision) {
        List<DecidedClaim> taken = new ArrayList<>(decision.usages().size());
        for (StoreDecision part : decision.parts()) {
            part.usages().forEach(usage -> taken.add(new DecidedClaim(usage.claim(), part)));
        }
        return refundDecided(taken);
    }

    /** Refunds these claims of the decision of one server. */
    Mono<Void> refund(StoreDecision part, List<Claim> taken) {
        return refundDecided(
                taken.stream().map(claim -> new DecidedClaim(claim, part)).toList());
    }

    private Mono<Void> refundDecided(List<DecidedClaim> taken) {
        List<Claim> held = taken.stream()
                .map(DecidedClaim::claim)
                .filter(HoldCommands::isHold)
                .toList();
        if (held.isEmpty()) {
            return refundRates(taken);
        }
        List<DecidedClaim> rates =
                taken.stream().filter(one -> !HoldCommands.isHold(one.claim())).toList();
        return rates.isEmpty()
                ? holds.release(held)
                : Mono.whenDelayError(refundRates(rates), holds.release(held)).publishOn(deliverOn);
    }

    private Mono<Void> refundRates(List<DecidedClaim> taken) {
        return router.inEachSlot(taken, DecidedClaim::claim, this::refundRates).then();
    }

    private Mono<Void> refundRates(int slot, List<DecidedClaim> taken) {
        List<Claim> claims = taken.stream().map(DecidedClaim::claim).toList();
        return router.togetherOrEach(
                taken,
                run(slot, keys.countsAndResetMarks(claims), ScriptRequest.refund(taken)),
                one -> unlessReset(slot, one.claim(), one.decision().stamp(), ScriptRequest.refund(List.of(one))));
    }

    Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return router.inEachSlot(permits, ChargedPermits::claim, this::refundCharged)
                .then();
    }

    private Mono<Void> refundCharged(int slot, List<ChargedPermits> permits) {
        List<Claim> claims = permits.stream().map(ChargedPermits::claim).toList();
        return router.togetherOrEach(
                permits,
                run(slot, keys.countsAndResetMarks(claims), ScriptRequest.refundCharged(permits)),
                one -> unlessReset(slot, one.claim(), one.stamp(), ScriptRequest.refundCharged(List.of(one))));
    }

    /** Refunds permits of a count, unless it was reset at the time of the stamp or later. */
    private Mono<byte[]> unlessReset(int slot, Claim claim, long stamp, byte[] request) {
        return resetAt(slot, claim)
                .filter(reset -> stamp <= reset)
                .hasElement()
                .flatMap(isReset -> isReset ? Mono.empty() : run(slot, keys.counts(List.of(claim)), request));
    }

    /** Returns when a count was last reset, in microseconds; empty if it never was, or too long ago to matter. */
    private Mono<Double> resetAt(int slot, Claim claim) {
        byte[] mark = keys.resetMark(claim);
        return router.send(
                        slot,
                        new byte[][] {mark},
                        (server, sender) -> sender.send(commands -> commands.getrange(mark, 0, -1)))
                .map(text -> new String(text, StandardCharsets.US_ASCII))
                // A foreign value is not a reset, here or in the script; the script also reads 0x1f and 1e3 as numbers.
                .filter(NUMBER.asMatchPredicate())
                .map(Double::parseDouble);
    }

    Mono<Void> refundOldest(List<Claim> claims) {
        return router.inEachSlot(
                claims.stream().filter(claim -> !HoldCommands.isHold(claim)).toList(),
                (slot, all) -> router.togetherOrEach(
                        all,
                        run(slot, keys.countsAndRefundMarks(all), ScriptRequest.refundOldest(all)),
                        // Without a mark, another instance may take this refund for lost data, and undo it.
                        claim -> run(slot, keys.counts(List.of(claim)), ScriptRequest.refundOldest(List.of(claim)))));
    }

    private Mono<byte[]> run(int slot, byte[][] names, byte[] request) {
        return router.run(slot, Script.Purpose.REFUND, names, request);
    }
}
