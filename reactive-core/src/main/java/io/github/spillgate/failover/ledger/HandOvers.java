package io.github.spillgate.failover.ledger;

import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.RefundCharged;
import java.time.InstantSource;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The sums of the fallback's grants, and the primary store. A granted permit is to be reconciled until it
 * is reconciled, lost, refunded, or no longer counts.
 */
public final class HandOvers {

    /** Unique to this fallback, by chance; with an epoch it is a source that no other ledger has. */
    private final String prefix = Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36)
            + Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36);

    private final InstantSource clock;
    private final LongSupplier nextEpoch;
    private final AtomicLong toReconcile = new AtomicLong();
    private final AtomicLong reconciled = new AtomicLong();
    private final AtomicLong lost = new AtomicLong();
    private volatile @Nullable Store store;

    /** How far the clock of the primary store is ahead of that of the ledgers, as last known, in milliseconds. */
    private volatile long storeAhead;

    /**
     * Creates one that takes no grants before there is a store.
     *
     * @param clock the clock of the ledgers
     * @param nextEpoch begins an epoch: decisions from then on are not handed over yet
     */
    public HandOvers(InstantSource clock, LongSupplier nextEpoch) {
        this.clock = clock;
        this.nextEpoch = nextEpoch;
    }

    public void bindTo(Store toStore) {
        store = toStore;
    }

    /** Returns whether there is a store in which grants can be charged. */
    boolean isBound() {
        return store != null;
    }

    /** Returns the primary store, which is bound as soon as any grant is to be charged there. */
    Store store() {
        return Objects.requireNonNull(store, "a fallback without a primary store hands over nothing");
    }

    // Sums.

    /** Notes granted permits. */
    void granted(long permits) {
        toReconcile.addAndGet(permits);
    }

    /** Notes permits that need not be reconciled any more. */
    void removed(long permits) {
        toReconcile.addAndGet(-permits);
    }

    /** Notes permits that cannot be reconciled. */
    void lost(long permits) {
        lost.addAndGet(permits);
    }

    void charged(long permits) {
        removed(permits);
        reconciled.addAndGet(permits);
    }

    /** Returns whether all grants are reconciled. */
    public boolean isEmpty() {
        return toReconcile.get() == 0;
    }

    public StoreState state() {
        return StoreState.ofFallback(Source.LOCAL, toReconcile.get(), reconciled.get(), lost.get());
    }

    // For ledgers.

    InstantSource clock() {
        return clock;
    }

    long storeAhead() {
        return storeAhead;
    }

    void noteStoreAhead(long millis) {
        storeAhead = millis;
    }

    long nextEpoch() {
        return nextEpoch.getAsLong();
    }

    /** Returns what a ledger is called in the primary store. */
    String source(long born) {
        return prefix + "-" + Long.toString(born, 36);
    }

    /** The primary store, as ledgers see it. */
    public interface Store {

        /** Delivers the grants of a ledger. */
        void add(Ledger ledger);

        /** Delivers the grants of a ledger, which was added before, before others. */
        void moveToFront(Ledger ledger);

        /** Delivers the grants of such a ledger soon. */
        void wakeNode(Ledger ledger);

        /** Returns whether the node of this count is unavailable, or was lately, so that others fell back, too. */
        boolean isAfterOutage(Claim claim);

        /** Refunds permits in the primary store that were refunded before they were charged there. */
        void refund(RefundCharged permits);

        /** Reports that the primary store had lost the data of a count, and has them again. */
        void reportRestored();

        /** Reports that grants are lost, because the primary store will not charge them. */
        void reportLost(long permits, String why);

        /** Reports that grants on a count cannot be charged, because another program has written its key. */
        void reportForeign(Claim claim);
    }
}
