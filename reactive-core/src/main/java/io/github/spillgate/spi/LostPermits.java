package io.github.spillgate.spi;

import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;

/**
 * Permits of one count that a store had confirmed and has lost, with its data, to be restored: raises the count to
 * them, unless it was reset since, or permits were refunded without their decision. Idempotent, and harmless if other
 * processes restore the same permits. A store that loses nothing does not support this.
 *
 * @param claim a claim on the count; its cost is ignored
 * @param since the time of the reply that confirmed them, in milliseconds of the store's clock; if the count was reset,
 *     or permits were refunded, then or later, they are not lost
 * @param life the {@linkplain StoreUsage#life() life} of the count in that reply; 0 if it is not known
 * @param ages the permits in use with their ages, the oldest first, at least one
 */
public record LostPermits(Claim claim, long since, int life, List<Grants> ages) implements Correction {

    /**
     * Returns these permits some time later.
     *
     * @param millis the time that has passed
     * @return the same permits, older by that time
     */
    public LostPermits after(long millis) {
        return new LostPermits(
                claim,
                since,
                life,
                ages.stream()
                        .map(some -> new Grants(some.fromMillis() + millis, some.toMillis() + millis, some.permits()))
                        .toList());
    }
}
