package io.github.spillgate.failover.ledger;

import io.github.spillgate.spi.Claim;
import org.jspecify.annotations.Nullable;

/**
 * Something that has a delivery when it is its turn.
 *
 * @param <M> what is sent to the store
 */
public interface DeliverySource<M> {

    /** Returns a claim on the count, which names the node. */
    Claim claim();

    /** Returns whether there is nothing to deliver any more. */
    boolean isEmpty();

    /** Returns whether its delivery must wait. */
    boolean isHeld();

    /** Returns whether a batch may have no other one of its count. */
    boolean isAlone();

    /** Returns its delivery, and is not waiting any more; null if there is none. */
    @Nullable
    Delivery<M> take();
}
