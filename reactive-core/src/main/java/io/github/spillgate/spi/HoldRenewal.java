package io.github.spillgate.spi;

import java.util.List;

/**
 * The result of renewing or releasing a hold.
 *
 * @param claim the claim that took the permits
 * @param outcome the outcome
 */
public record HoldRenewal(Claim claim, RenewalOutcome outcome) {

    /**
     * {@return the results of a release, one for each hold}
     *
     * @param holds the claims that were released
     */
    public static List<HoldRenewal> released(List<Claim> holds) {
        return holds.stream()
                .map(claim -> new HoldRenewal(claim, RenewalOutcome.RELEASED))
                .toList();
    }

    /** The outcome. */
    public enum RenewalOutcome {
        /** The store knew it. It lasts for another hold time. */
        RENEWED,

        /**
         * The store did not know it: it was reset, or its hold time had passed, or the store has lost data. It is held
         * again, even above the limit.
         */
        RESTORED,

        /** It was released, now or before, and is not held. */
        RELEASED,

        /** The store did not know it and does not hold it, because 10,000 permits are held, or more. */
        FULL,

        /** The store cannot hold it, because another program has written the key of its count. */
        FOREIGN
    }
}
