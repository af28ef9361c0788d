package io.github.spillgate.spi;

/**
 * Permits that a store has charged, to be refunded without the decision that took them. See {@link
 * LimitStore#refundCharged}.
 *
 * @param claim a claim on the count, with the permits to refund as its cost
 * @param stamp the {@linkplain StoreDecision#stamp() stamp} with which the store reported the charge; 0 if it is
 *     unknown: then any known reset may have been later
 * @param until the time at which the permits may have left the window, in milliseconds of the store's clock
 */
public record ChargedPermits(Claim claim, long stamp, long until) {}
