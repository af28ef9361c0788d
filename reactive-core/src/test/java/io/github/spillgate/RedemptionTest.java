package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.internal.holding.Redemption;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Permits of a decision that are refunded or settled once, also if another store holds them by then. */
class RedemptionTest {

    private static final LimitStore STORE = LocalStore.bounded(16);

    @Test
    void eachUsageOfADecisionIsRedeemedOnce() {
        StoreDecision charged = onAAndB(Source.OTHER);
        assertThat(Redemption.of(charged, usage -> false).usages()).isEmpty();
        assertThat(Redemption.of(charged, usage -> usage.key().equals("a")).claims())
                .extracting(Claim::key)
                .containsExactly("a");
        assertThat(Redemption.of(charged, usage -> true).claims())
                .extracting(Claim::key)
                .containsExactly("b");
        assertThat(Redemption.of(charged, usage -> true).isEmpty()).isTrue();
    }

    @Test
    void onlyAChargedDecisionIsRedeemed() {
        Reply reply = new Reply(Source.OTHER, 1_000);
        StoreDecision peek = StoreDecision.ofPeek(reply, List.of(usage(reply, "a")));
        assertThat(Redemption.of(peek, usage -> true).isEmpty()).isTrue();
    }

    @Test
    void whatHasMovedIsRedeemedOnceFromTheOtherDecision() {
        StoreDecision granted = onAAndB(Source.LOCAL).byFallback();
        StoreDecision charged = onAAndB(Source.OTHER);
        Redemption first = Redemption.of(granted, usage -> usage.key().equals("a"));
        assertThat(first.usages()).extracting(usage -> usage.reply().source()).containsExactly(Source.LOCAL);
        assertThat(first.fallbacks()).isEqualTo(1);
        assertThat(granted.permitUse().moveTo(charged)).hasSize(1);
        Redemption redeemed = Redemption.of(granted, usage -> true);
        assertThat(redeemed.usages())
                .extracting(usage -> usage.reply().source())
                .containsExactly(Source.OTHER);
        assertThat(redeemed.claims()).extracting(Claim::key).containsExactly("b");
        assertThat(redeemed.fallbacks()).isZero();
        assertThat(Redemption.of(granted, usage -> true).isEmpty()).isTrue();
    }

    /** The fallback has a fallback of its own, and its primary store has charged the permits after all. */
    @Test
    void permitsThatHaveMovedAreStillInTheFallbackOfTheOuterStore() {
        StoreDecision byInnermost = onAAndB(Source.LOCAL).byFallback();
        StoreDecision byInner = byInnermost.byFallback();
        byInnermost.permitUse().moveTo(onAAndB(Source.OTHER));
        assertThat(Redemption.of(byInner, usage -> true).fallbacks()).isEqualTo(1);
        assertThat(Redemption.of(byInnermost, usage -> true).isEmpty()).isTrue();
    }

    /** Otherwise a late reply would cancel a grant that is refunded at the same time. */
    @Test
    void atTheSameTimeAUsageIsEitherRedeemedOrMovesFirst() {
        AtomicInteger started = new AtomicInteger();
        AtomicInteger moved = new AtomicInteger();
        List<StoreDecision> granted = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            granted.add(onAAndB(Source.LOCAL));
        }
        StoreDecision charged = onAAndB(Source.OTHER);
        CompletableFuture<List<Boolean>> moving = CompletableFuture.supplyAsync(() -> {
            List<Boolean> left = new ArrayList<>();
            for (StoreDecision one : granted) {
                awaitAtLeast(started, left.size() + 1);
                left.add(one.permitUse().moveTo(charged).isEmpty());
                moved.incrementAndGet();
            }
            return left;
        });
        List<Redemption> redeemed = new ArrayList<>();
        for (StoreDecision one : granted) {
            started.incrementAndGet();
            redeemed.add(Redemption.of(one, usage -> true));
            awaitAtLeast(moved, redeemed.size());
        }
        List<Boolean> movedFirst = moving.join();
        for (int i = 0; i < redeemed.size(); i++) {
            Source holder = movedFirst.get(i) ? Source.OTHER : Source.LOCAL;
            assertThat(redeemed.get(i).usages())
                    .hasSize(2)
                    .allMatch(usage -> usage.reply().source() == holder);
        }
    }

    private static void awaitAtLeast(AtomicInteger number, int least) {
        // Spins first, so that both continue at the same time.
        for (int spins = 0; number.get() < least; spins++) {
            if (spins > 10_000) {
                LockSupport.parkNanos(1_000);
            }
        }
    }

    private static StoreDecision onAAndB(Source source) {
        Reply reply = new Reply(source, 1_000);
        return StoreDecision.ofTake(
                reply, Stream.of("a", "b").map(key -> usage(reply, key)).toList());
    }

    private static StoreUsage usage(Reply reply, String key) {
        Claim claim = CountClaim.of(STORE, "api", List.of(), Charge.of(key, Limit.perMinute(10)))
                .get(0);
        return StoreUsage.of(reply, claim, 1, false, reply.at(), reply.at() + 60_000);
    }
}
