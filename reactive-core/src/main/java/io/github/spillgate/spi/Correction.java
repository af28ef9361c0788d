package io.github.spillgate.spi;

/**
 * A change of one count that is decided already, and only has to reach the store. See {@link LimitStore#correct}.
 *
 * <p>If the reply is lost, these may be sent again, because the store applies each once: a {@link Reconciliation} by
 * its source and number, and a {@link Settlement} by its id. Refunds have no id: a second one would remove permits of
 * other requests. So they are sent at most once, and a lost one errs towards denying.
 */
public sealed interface Correction permits Correction.OfDecision, RefundOldest, RefundCharged, Reconciliation {

    /** {@return a claim on the count; the kind of the correction says what its cost means} */
    Claim claim();

    /** A correction of what one decision has charged. */
    sealed interface OfDecision extends Correction permits Refund, Settlement {

        /** {@return the usage with which the store has charged the claim} */
        StoreUsage usage();

        /** {@return how many stores had to {@linkplain StoreDecision#fallbacks() fall back} for the decision} */
        int fallbacks();

        /** {@return this correction for the fallback of a store, which has decided; with one less of them} */
        OfDecision inFallback();
    }
}
