package io.github.spillgate.spi;

/**
 * A refund of permits that a store has charged on behalf of another one, without the decision that took them: the
 * oldest of the count. Never refunds permits of another life or after another reset, or permits that may have left the
 * window: it would remove permits that were taken later. A store without lives treats it like {@link RefundOldest}.
 *
 * @param claim a claim on the count, with the permits to refund as its cost
 * @param life the {@linkplain StoreUsage#life() life} of the count with the charge
 * @param until the time at which the permits may have left the window, in milliseconds of the store's clock
 */
public record RefundCharged(Claim claim, int life, long until) implements Correction {}
