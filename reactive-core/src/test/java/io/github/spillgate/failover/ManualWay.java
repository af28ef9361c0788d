package io.github.spillgate.failover;

import io.github.spillgate.failover.ledger.HandOver;
import io.github.spillgate.failover.ledger.HandOvers;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.RefundCharged;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** The way of grants to a primary store, on which a test takes each step. */
final class ManualWay implements HandOvers.Store {

    private final Set<Ledger> waiting = new LinkedHashSet<>();
    private final Set<Ledger> urgent = new LinkedHashSet<>();
    private final Map<Reconciliation, HandOver> handedOver = new HashMap<>();
    private @Nullable RefundCharged refund;

    /** Hands over the grants of some counts, the urgent ones first. */
    List<Reconciliation> handOver(int most, Predicate<Claim> skip) {
        List<Reconciliation> batch = new ArrayList<>();
        handOver(urgent, most, skip, batch);
        handOver(waiting, most, skip, batch);
        return batch;
    }

    private void handOver(Set<Ledger> from, int most, Predicate<Claim> skip, List<Reconciliation> batch) {
        for (Iterator<Ledger> all = from.iterator(); all.hasNext() && batch.size() < most; ) {
            Ledger ledger = all.next();
            if (ledger.isEmpty()) {
                all.remove();
                ledger.take();
            } else if (!ledger.isHeld() && !skip.test(ledger.claim())) {
                all.remove();
                HandOver one = ledger.take();
                if (one != null) {
                    handedOver.put(one.message(), one);
                    batch.add(one.message());
                }
            }
        }
    }

    /** Reports a reconciliation as charged, and returns the permits that must be refunded in the primary store. */
    @Nullable
    RefundCharged charged(Reconciliation reconciliation, Corrected result) {
        refund = null;
        handedOver.get(reconciliation).delivered(result);
        return refund;
    }

    /** Reports that a reconciliation cannot be charged. */
    void notCharged(Reconciliation reconciliation) {
        handedOver.get(reconciliation).lost("the store cannot");
    }

    @Override
    public void add(Ledger ledger) {
        waiting.add(ledger);
    }

    @Override
    public void moveToFront(Ledger ledger) {
        urgent.add(ledger);
    }

    @Override
    public void wakeNode(Ledger ledger) {}

    @Override
    public boolean isAfterOutage(Claim claim) {
        return false;
    }

    @Override
    public void refund(RefundCharged permits) {
        refund = permits;
    }

    @Override
    public void reportRestored() {}

    @Override
    public void reportLost(long permits, String why) {}

    @Override
    public void reportForeign(Claim claim) {}
}
