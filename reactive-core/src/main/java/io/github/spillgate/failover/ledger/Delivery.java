package io.github.spillgate.failover.ledger;

import io.github.spillgate.spi.Corrected;

/**
 * A change of one count that is decided already and must reach the primary store.
 *
 * @param <M> what is sent to the store
 */
public interface Delivery<M> extends DeliverySource<M> {

    /** Returns what is sent: the same each time. */
    M message();

    /** Returns whether it takes effect once, however often it is sent. If not, it is lost when no reply arrives. */
    default boolean mayRepeat() {
        return true;
    }

    /** Returns whether it can have no effect any more. */
    boolean isExpired();

    /** The store has applied it, or says that it has no effect. */
    void delivered(Corrected result);

    /** Learns that the store cannot do this now, because of its count; returns whether to send it again later. */
    boolean refused();

    /** Learns that it will not be delivered. */
    void lost(String why);

    @Override
    default boolean isEmpty() {
        return isExpired();
    }

    @Override
    default boolean isHeld() {
        return false;
    }

    @Override
    default Delivery<M> take() {
        return this;
    }
}
