package io.github.spillgate.spi;

import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;

/**
 * Permits of one count that a store had confirmed and has lost.
 *
 * @param claim a claim on the count; its cost is ignored
 * @param since the time of the reply that confirmed them, in milliseconds of the store's clock; if the count was reset,
 *     or permits were refunded, then or later, they are not lost
 * @param ages the permits in use with their ages, the oldest first, at least one
 */
public record LostPermits(Claim claim, long since, List<Grants> ages) {}
