package io.github.spillgate.redis;

import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.ScriptRequest;
import io.github.spillgate.redis.lane.ScriptRequest.RefundMode;
import io.github.spillgate.redis.lane.ScriptRequest.SentRefund;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Refunds permits, in one command for each hash slot. */
final class RefundCommands {

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
                        one.claim(), one.usage().chargedAt(), one.usage().life(), 0));
    }

    Mono<List<Corrected>> refundCharged(List<RefundCharged> refunds) {
        return refund(RefundMode.CHARGED, refunds, one -> new SentRefund(one.claim(), 0, one.life(), one.until()));
    }

    Mono<List<Corrected>> refundOldest(List<RefundOldest> refunds) {
        return refund(RefundMode.OLDEST, refunds, one -> new SentRefund(one.claim(), 0, 0, 0));
    }

    /** It is not known which holder of a concurrency limit has finished. */
    private <C extends Correction> Mono<List<Corrected>> refund(
            RefundMode mode, List<C> refunds, Function<C, SentRefund> encode) {
        List<SentRefund> sent = refunds.stream()
                .filter(one -> !one.claim().limit().holdsPermits())
                .map(encode)
                .toList();
        return router.inEachSlot(
                        sent,
                        SentRefund::claim,
                        (slot, all) ->
                                router.togetherOrEach(all, run(slot, mode, all), one -> run(slot, mode, List.of(one))))
                .then(Mono.just(Collections.nCopies(refunds.size(), APPLIED)));
    }

    private Mono<byte[]> run(int slot, RefundMode mode, List<SentRefund> refunds) {
        byte[][] names = keys.counts(refunds.stream().map(SentRefund::claim).toList());
        return router.run(slot, Script.Purpose.REFUND, names, ScriptRequest.refund(mode, refunds));
    }
}
