package io.github.spillgate.spi;

import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Names;

/**
 * The real cost of a claim that a decision has charged, to replace that charge once: refunds what was not used, like a
 * {@link Refund}, and charges now what was used in addition, even above the limit, up to {@link #most}. Has no effect
 * on a count that was reset after the decision.
 *
 * <p>If a reply of the store can be lost, a settlement that is sent twice must take effect once: the store keeps its id
 * for longer than until its {@link #deadline}, after which it has no effect.
 *
 * @param id the id, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; unique among the settlements and
 *     reconciliations of all processes, except that the settlements of one decision may have the same
 * @param claim the claim, with the charged permits as its cost
 * @param usage the usage with which the store has charged it
 * @param fallbacks how many stores had to {@linkplain StoreDecision#fallbacks() fall back} for it
 * @param actual the real cost
 * @param most the highest number of used permits to which an additional charge may raise the count
 * @param deadline the last moment at which the settlement may take effect, in nanoseconds of {@code
 *     Schedulers.parallel()}
 */
public record Settlement(String id, Claim claim, StoreUsage usage, int fallbacks, long actual, long most, long deadline)
        implements Correction.OfDecision {

    /**
     * Creates the settlement.
     *
     * @param id the id
     * @param claim the claim, with the charged permits as its cost
     * @param usage the usage with which the store has charged it
     * @param fallbacks how many stores had to fall back for it
     * @param actual the real cost
     * @param most the highest number of used permits
     * @param deadline the last moment at which the settlement may take effect
     * @throws IllegalArgumentException if the id has another form, or the cost is negative
     */
    public Settlement {
        Names.check("settlement id", id, "\"k3x9-17\"");
        Checks.cost(actual);
    }

    @Override
    public Settlement inFallback() {
        return new Settlement(id, claim, usage, fallbacks - 1, actual, most, deadline);
    }

    /** {@return how many permits are refunded: those that were charged and not used} */
    public long toRefund() {
        return Math.max(0, claim.permits() - actual);
    }

    /** {@return how many permits are charged in addition: those that were used and not charged} */
    public long toCharge() {
        return Math.max(0, actual - claim.permits());
    }

    /** Returns the settlement for log messages, with the key encoded. */
    @Override
    public String toString() {
        return "Settlement[" + id + ", " + claim.identity() + ", charged=" + claim.permits() + ", actual=" + actual
                + "]";
    }
}
