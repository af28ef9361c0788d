package io.github.spillgate.spi;

import java.util.ArrayList;
import java.util.List;

/**
 * A refund of exactly the permits that a decision took of one count, if they are still within the window and were not
 * reset. Never refunds permits that were taken after the reset: a store may use the {@linkplain StoreDecision#stamp()
 * stamp} of the decision to distinguish the two.
 *
 * @param claim a claim on a rate limit, with the permits to refund as its cost
 * @param decision the decision of one server that took them
 */
public record Refund(Claim claim, StoreDecision decision) implements Correction {

    /**
     * Returns the refunds of all that a decision took. Permits of concurrency limits are not refunded: {@link
     * LimitStore#hold} releases them.
     *
     * @param decision a decision that {@linkplain StoreDecision#isCharged() was charged}
     * @return the refunds, one for each claim on a rate limit
     */
    public static List<Refund> of(StoreDecision decision) {
        List<Refund> refunds = new ArrayList<>(decision.usages().size());
        for (StoreDecision part : decision.parts()) {
            for (StoreUsage usage : part.usages()) {
                if (!usage.limit().holdsPermits()) {
                    refunds.add(new Refund(usage.claim(), part));
                }
            }
        }
        return refunds;
    }

    /**
     * Returns this refund without some permits.
     *
     * @param permits how many are not refunded, at most those of the claim
     * @return a refund of the others
     */
    public Refund without(long permits) {
        return permits == 0 ? this : new Refund(claim.withPermits(claim.permits() - permits), decision);
    }
}
