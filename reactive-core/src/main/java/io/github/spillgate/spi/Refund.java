package io.github.spillgate.spi;

import java.util.List;

/**
 * A refund of exactly the permits that a decision took of one count, if they are still within the window and were not
 * reset. Never refunds permits that were taken after the reset: a store may use the stamp of the {@linkplain
 * StoreUsage#reply() reply} to distinguish the two.
 *
 * @param claim a claim on a rate limit, with the permits to refund as its cost
 * @param usage the usage with which the store has charged them
 * @param fallbacks how many stores had to {@linkplain StoreDecision#fallbacks() fall back} for it
 */
public record Refund(Claim claim, StoreUsage usage, int fallbacks) implements Correction.OfDecision {

    /**
     * {@return the refunds of all that a decision took, one for each claim on a rate limit} Permits of concurrency
     * limits are not refunded: {@link LimitStore#hold} releases them.
     *
     * @param decision a decision that {@linkplain StoreDecision#isCharged() was charged}
     */
    public static List<Refund> of(StoreDecision decision) {
        return of(decision.usages(), decision.fallbacks());
    }

    /**
     * {@return the refunds of some usages of a decision, like {@link #of(StoreDecision)}}
     *
     * @param usages the usages
     * @param fallbacks how many stores had to fall back for them
     */
    public static List<Refund> of(List<StoreUsage> usages, int fallbacks) {
        return usages.stream()
                .filter(usage -> !usage.limit().holdsPermits())
                .map(usage -> new Refund(usage.claim(), usage.inStore(), fallbacks))
                .toList();
    }

    @Override
    public Refund inFallback() {
        return new Refund(claim, usage, fallbacks - 1);
    }

    /**
     * {@return this refund without some permits}
     *
     * @param permits how many are not refunded, at most those of the claim
     */
    public Refund without(long permits) {
        return new Refund(claim.withPermits(claim.permits() - permits), usage, fallbacks);
    }
}
