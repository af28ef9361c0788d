package io.github.spillgate.failover;

import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The ledgers that have grants to reconcile, and the sum of these grants. A granted permit is in the sum until it is
 * reconciled, lost, refunded, or no longer counts. Methods with a ledger are called under its monitor.
 */
final class ReconciliationQueue {

    private final Set<Ledger> waiting = ConcurrentHashMap.newKeySet();
    private final Set<Ledger> urgent = ConcurrentHashMap.newKeySet();
    private final InstantSource clock;
    private final BooleanSupplier isOpen;

    /** Unique to this process, by chance; with a number it is an id that no other process uses. */
    private final String process = Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36)
            + Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36);

    private final AtomicLong handedOver = new AtomicLong();
    private final AtomicLong toReconcile = new AtomicLong();
    private final AtomicLong reconciled = new AtomicLong();
    private final AtomicLong lost = new AtomicLong();

    /**
     * Creates an empty queue.
     *
     * @param clock the clock of the ledgers
     * @param isOpen whether there is a primary store in which grants can be charged
     */
    ReconciliationQueue(InstantSource clock, BooleanSupplier isOpen) {
        this.clock = clock;
        this.isOpen = isOpen;
    }

    boolean isOpen() {
        return isOpen.getAsBoolean();
    }

    void add(Ledger ledger, long permits) {
        toReconcile.addAndGet(permits);
        if (ledger.toReconcile() == permits) {
            waiting.add(ledger);
        }
    }

    void remove(Ledger ledger) {
        waiting.remove(ledger);
        urgent.remove(ledger);
    }

    /** Notes permits that need not be reconciled any more. */
    void removed(long permits) {
        toReconcile.addAndGet(-permits);
    }

    /** Notes permits that cannot be reconciled. */
    void lost(long permits) {
        lost.addAndGet(permits);
    }

    boolean isEmpty() {
        return toReconcile.get() == 0;
    }

    /** Returns whether the ledger has grants that are not handed over, and hands them over before others. */
    boolean expedite(Ledger ledger) {
        boolean waits = ledger.toReconcile() > 0;
        if (waits) {
            urgent.add(ledger);
        }
        return waits;
    }

    /** Hands over the grants of some ledgers, like {@link LocalFallback#handOver}. */
    List<Reconciliation> handOver(int most, Predicate<Claim> skip) {
        List<Reconciliation> batch = new ArrayList<>();
        handOver(urgent, most, skip, batch);
        handOver(waiting, most, skip, batch);
        return batch;
    }

    private void handOver(Set<Ledger> from, int most, Predicate<Claim> skip, List<Reconciliation> batch) {
        for (Iterator<Ledger> all = from.iterator(); all.hasNext() && batch.size() < most; ) {
            Ledger ledger = all.next();
            synchronized (ledger) {
                Reconciliation reconciliation = handOver(ledger, skip);
                if (reconciliation != null) {
                    batch.add(reconciliation);
                }
            }
        }
    }

    private @Nullable Reconciliation handOver(Ledger ledger, Predicate<Claim> skip) {
        Claim claim = ledger.claim();
        if (ledger.toReconcile() == 0) {
            remove(ledger);
            return null;
        }
        if (ledger.isInFlight() || skip.test(claim)) {
            return null;
        }
        ledger.advanceTo(clock.millis());
        long before = ledger.toReconcile();
        Reconciliation reconciliation = ledger.handOver(process + "-" + handedOver.incrementAndGet(), clock);
        if (reconciliation != null) {
            toReconcile.addAndGet(reconciliation.permits() - before);
        }
        return reconciliation;
    }

    void charged(Reconciliation reconciliation) {
        removed(reconciliation.permits());
        reconciled.addAndGet(reconciliation.permits());
    }

    void notCharged(Reconciliation reconciliation) {
        removed(reconciliation.permits());
        if (reconciliation.counts()) {
            lost(reconciliation.permits());
        }
    }

    StoreState state() {
        return StoreState.ofFallback(Source.LOCAL, toReconcile.get(), reconciled.get(), lost.get());
    }
}
