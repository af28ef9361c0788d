package io.github.spillgate.spi;

import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;

/**
 * Permits of one count that a store had confirmed and has lost, with its data, to be restored by a {@link
 * Reconciliation}: of each lost life, the count gets as many permits as any process knows of. They count in addition to
 * what was taken in the present life. Those from before a reset are not restored.
 *
 * @param life the {@linkplain StoreUsage#life() life} of the count with these permits
 * @param since the time of the reply that confirmed them, in milliseconds of the store's clock
 * @param grants the permits in use, at the latest times at which they may have been taken, the oldest first
 */
public record LostPermits(int life, long since, List<Grants> grants) {}
