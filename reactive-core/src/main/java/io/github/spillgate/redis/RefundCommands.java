package io.github.spillgate.redis;

import io.github.spillgate.redis.ScriptRequest.Refund;
import io.github.spillgate.redis.ScriptRequest.RefundMode;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import reactor.core.publisher.Mono;

/** Refunds permits, in one command for each hash slot. Those of concurrency limits are released. */
final class RefundCommands {

    /** The value of a reset mark; the script reads it as a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    private final SlotRouter router;
    private final CountKeys keys;
    private final HoldCommands holds;

    RefundCommands(SlotRouter router, CountKeys keys, HoldCommands holds) {
        this.router = router;
        this.keys = keys;
        this.holds = holds;
    }

    /** Refunds what a decision took. */
    Mono<Void> refund(StoreDecision decision) {
        List<Refund> taken = new ArrayList<>(decision.usages().size());
        for (StoreDecision part : decision.parts()) {
            part.usages().forEach(usage -> taken.add(ofDecision(usage.claim(), part)));
        }
        return refundDecided(taken);
    }

    /** Refunds these claims of the decision of one server. */
    Mono<Void> refund(StoreDecision part, List<Claim> taken) {
        return refundDecided(
                taken.stream().map(claim -> ofDecision(claim, part)).toList());
    }

    private static Refund ofDecision(Claim claim, StoreDecision part) {
        return new Refund(claim, part.chargedAt(claim), part.stamp(), 0);
    }

    private Mono<Void> refundDecided(List<Refund> taken) {
        List<Claim> held =
                taken.stream().map(Refund::claim).filter(HoldCommands::isHold).toList();
        if (held.isEmpty()) {
            return refund(RefundMode.DECISION, taken);
        }
        List<Refund> rates =
                taken.stream().filter(one -> !HoldCommands.isHold(one.claim())).toList();
        return rates.isEmpty()
                ? holds.release(held)
                : Mono.whenDelayError(refund(RefundMode.DECISION, rates), holds.release(held));
    }

    Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return refund(
                RefundMode.CHARGED,
                permits.stream()
                        .map(one -> new Refund(one.claim(), 0, one.stamp(), one.until()))
                        .toList());
    }

    Mono<Void> refundOldest(List<Claim> claims) {
        return refund(
                RefundMode.OLDEST,
                claims.stream()
                        .filter(claim -> !HoldCommands.isHold(claim))
                        .map(claim -> new Refund(claim, 0, 0, 0))
                        .toList());
    }

    private Mono<Void> refund(RefundMode mode, List<Refund> refunds) {
        return router.inEachSlot(
                        refunds,
                        Refund::claim,
                        (slot, all) -> router.togetherOrEach(
                                all, run(slot, mode, all, true), one -> refundWithoutMark(slot, mode, one)))
                .then();
    }

    /** Refunds permits of a count without its mark, which may be on another node, unless it was reset since. */
    private Mono<byte[]> refundWithoutMark(int slot, RefundMode mode, Refund one) {
        Mono<byte[]> refund = run(slot, mode, List.of(one), false);
        return mode == RefundMode.OLDEST
                // Without a mark, another instance may take this refund for lost data, and undo it.
                ? refund
                : resetAt(slot, one.claim())
                        .filter(reset -> one.stamp() <= reset)
                        .hasElement()
                        .flatMap(isReset -> isReset ? Mono.empty() : refund);
    }

    private Mono<byte[]> run(int slot, RefundMode mode, List<Refund> refunds, boolean hasMarks) {
        List<Claim> claims = refunds.stream().map(Refund::claim).toList();
        byte[][] names = !hasMarks
                ? keys.counts(claims)
                : mode == RefundMode.OLDEST ? keys.countsAndRefundMarks(claims) : keys.countsAndResetMarks(claims);
        return router.run(slot, Script.Purpose.REFUND, names, ScriptRequest.refund(mode, refunds));
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
}
