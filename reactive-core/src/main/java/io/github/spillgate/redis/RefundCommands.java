package io.github.spillgate.redis;

import io.github.spillgate.redis.ScriptRequest.RefundMode;
import io.github.spillgate.redis.ScriptRequest.SentRefund;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Pattern;
import reactor.core.publisher.Mono;

/** Refunds permits, in one command for each hash slot. */
final class RefundCommands {

    /** The value of a reset mark; the script reads it as a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    private static final Corrected APPLIED = Corrected.of(CorrectionOutcome.APPLIED);

    private final SlotRouter router;
    private final CountKeys keys;

    RefundCommands(SlotRouter router, CountKeys keys) {
        this.router = router;
        this.keys = keys;
    }

    /** Refunds what decisions took. */
    Mono<List<Corrected>> refund(List<Refund> refunds) {
        return refund(
                RefundMode.DECISION,
                refunds,
                one -> new SentRefund(
                        one.claim(),
                        one.decision().chargedAt(one.claim()),
                        one.decision().stamp(),
                        0));
    }

    Mono<List<Corrected>> refundCharged(List<RefundCharged> refunds) {
        return refund(RefundMode.CHARGED, refunds, one -> new SentRefund(one.claim(), 0, one.stamp(), one.until()));
    }

    Mono<List<Corrected>> refundOldest(List<RefundOldest> refunds) {
        return refund(RefundMode.OLDEST, refunds, one -> new SentRefund(one.claim(), 0, 0, 0));
    }

    /** It is not known which holder of a concurrency limit has finished. */
    private <C extends Correction> Mono<List<Corrected>> refund(
            RefundMode mode, List<C> refunds, Function<C, SentRefund> encode) {
        List<SentRefund> sent = refunds.stream()
                .filter(one -> !HoldCommands.isHold(one.claim()))
                .map(encode)
                .toList();
        return router.inEachSlot(
                        sent,
                        SentRefund::claim,
                        (slot, all) -> router.togetherOrEach(
                                all, run(slot, mode, all, true), one -> refundWithoutMark(slot, mode, one)))
                .then(Mono.just(Collections.nCopies(refunds.size(), APPLIED)));
    }

    /** Refunds permits of a count without its mark, which may be on another node, unless it was reset since. */
    private Mono<byte[]> refundWithoutMark(int slot, RefundMode mode, SentRefund one) {
        Mono<byte[]> refund = run(slot, mode, List.of(one), false);
        return mode == RefundMode.OLDEST
                // Without a mark, another instance may take this refund for lost data, and undo it.
                ? refund
                : resetAt(slot, one.claim())
                        .filter(reset -> one.stamp() <= reset)
                        .hasElement()
                        .flatMap(isReset -> isReset ? Mono.empty() : refund);
    }

    private Mono<byte[]> run(int slot, RefundMode mode, List<SentRefund> refunds, boolean hasMarks) {
        List<Claim> claims = refunds.stream().map(SentRefund::claim).toList();
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
