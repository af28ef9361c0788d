package io.github.spillgate.spi;

/**
 * A change of one count that is decided already, and only has to reach the store. See {@link LimitStore#correct}.
 *
 * <p>If the reply is lost, these may be sent again, because the store applies each once: a {@link Reconciliation} by
 * its source and number, and a {@link Settlement} by its id. Refunds have no id: a second one would remove permits of
 * other requests. So they are sent at most once, and a lost one errs towards denying.
 */
public sealed interface Correction permits Refund, RefundOldest, RefundCharged, Settlement, Reconciliation {

    /**
     * Returns a claim on the count.
     *
     * @return the claim; the kind of the correction says what its cost means
     */
    Claim claim();
}
