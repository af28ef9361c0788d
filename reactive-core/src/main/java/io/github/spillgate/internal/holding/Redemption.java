package io.github.spillgate.internal.holding;

import io.github.spillgate.internal.PermitUse;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import reactor.core.publisher.Mono;

/**
 * Permits of a decision that are refunded or settled now. Each is redeemed once: a second call finds nothing.
 *
 * @param usages the usages, in the store that holds the permits; empty if nothing is left
 * @param fallbacks how many stores had to fall back for them
 */
public record Redemption(List<StoreUsage> usages, int fallbacks) {

    /** Redeems some usages of a decision, to be refunded. */
    public static Redemption of(StoreDecision decision, Predicate<? super StoreUsage> wanted) {
        return of(decision, wanted, Map.of());
    }

    /**
     * Redeems some usages of a decision.
     *
     * @param costs the costs that they have from now on, by the handles of their claims; 0 for others
     */
    public static Redemption of(StoreDecision decision, Predicate<? super StoreUsage> wanted, Map<Object, Long> costs) {
        Map<Object, Long> selected = new HashMap<>();
        for (StoreUsage usage : decision.isCharged() ? decision.usages() : List.<StoreUsage>of()) {
            if (usage.cost() > 0 && wanted.test(usage)) {
                Object handle = usage.claim().handle();
                selected.put(handle, costs.getOrDefault(handle, 0L));
            }
        }
        if (selected.isEmpty()) {
            return new Redemption(List.of(), 0);
        }
        PermitUse.Redeemed<StoreDecision> redeemed = decision.permitUse().redeem(selected);
        StoreDecision holder = redeemed.holder();
        // Permits that have moved have left the innermost fallback for the store around it.
        return holder == null
                ? in(decision, redeemed, decision.fallbacks())
                : in(holder, redeemed, holder.fallbacks() + decision.fallbacks() - 1);
    }

    private static Redemption in(StoreDecision holder, PermitUse.Redeemed<StoreDecision> redeemed, int fallbacks) {
        return new Redemption(
                holder.usages().stream()
                        .filter(usage ->
                                redeemed.handles().contains(usage.claim().handle()))
                        .toList(),
                fallbacks);
    }

    public boolean isEmpty() {
        return usages.isEmpty();
    }

    public List<Claim> claims() {
        return usages.stream().map(StoreUsage::claim).toList();
    }

    /**
     * Refunds permits of rate limits, and releases those of concurrency limits. A failure of one of the two does not
     * prevent the other.
     */
    public Mono<Void> refund(LimitStore store) {
        List<Claim> holds = HoldIds.holdsIn(claims());
        List<Refund> rates = Refund.of(usages, fallbacks);
        if (holds.isEmpty()) {
            return store.correct(rates).then();
        }
        Mono<Void> released = store.hold(holds, HoldAction.RELEASE).then();
        return rates.isEmpty()
                ? released
                : Mono.whenDelayError(released, store.correct(rates).then());
    }
}
