package io.github.spillgate.spi;

/**
 * A refund of permits that a store has charged on behalf of another one, without the decision that took them: the
 * oldest of the count. Never refunds permits of a count that was reset after the charge, or permits that may have left
 * the window: it would remove permits that were taken later. A store without stamps treats it like {@link
 * RefundOldest}.
 *
 * @param claim a claim on the count, with the permits to refund as its cost
 * @param stamp the {@linkplain StoreDecision#stamp() stamp} with which the store reported the charge; 0 if it is
 *     unknown: then any known reset may have been later
 * @param until the time at which the permits may have left the window, in milliseconds of the store's clock
 */
public record RefundCharged(Claim claim, long stamp, long until) implements Correction {}
