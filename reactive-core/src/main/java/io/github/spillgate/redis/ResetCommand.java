package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.ScriptReply;
import io.github.spillgate.redis.lane.ScriptRequest;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.retry.Retry;

/** Clears counts until a deadline, in one command for each hash slot. */
final class ResetCommand {

    /** How often a reset is retried if the bound of the server's clock was too low. */
    private static final int MOST_RETRIES = 3;

    private final SlotRouter router;
    private final CountKeys keys;

    ResetCommand(SlotRouter router, CountKeys keys) {
        this.router = router;
        this.keys = keys;
    }

    Mono<Void> reset(List<Claim> claims, long deadline) {
        return router.inEachSlot(
                claims,
                (slot, all) -> router.togetherOrEach(
                        all,
                        reset(slot, keys.countsAndResetMarks(all), all, deadline),
                        // A count that has been emptied needs its mark, however late.
                        claim -> reset(slot, keys.counts(List.of(claim)), List.of(), deadline)
                                .then(reset(
                                        slot,
                                        new byte[][] {keys.resetMark(claim)},
                                        List.of(claim),
                                        LimitStore.NO_DEADLINE))));
    }

    private Mono<byte[]> reset(int slot, byte[][] names, List<Claim> marked, long deadline) {
        return router.send(slot, names, (server, sender) -> {
            AtomicReference<@Nullable StoreClock> used = new AtomicReference<>();
            return server.script(Script.Purpose.RESET)
                    .run(sender, names, clock -> {
                        used.set(clock);
                        return ScriptRequest.reset(marked, clock.microsAt(deadline));
                    })
                    .doOnNext(reply -> checkInTime(new ScriptReply(reply), used.get()))
                    .retryWhen(Retry.max(MOST_RETRIES)
                            .filter(e -> Kind.LATE.isOf(e) && isBefore(deadline, used.get()))
                            .onRetryExhaustedThrow((spec, last) -> last.failure()));
        });
    }

    private static boolean isBefore(long deadline, @Nullable StoreClock clock) {
        return clock != null && !clock.isAfter(deadline);
    }

    /** Only the reply to a late reset, which changes nothing, has a time: a new bound of the deadline by that clock. */
    private static void checkInTime(ScriptReply reply, @Nullable StoreClock clock) {
        if (reply.hasTime()) {
            if (clock != null) {
                clock.record(reply.micros());
            }
            throw new LimitStoreException(Kind.LATE, "Redis did not reset: it received the request after the deadline");
        }
    }
}
