package io.github.spillgate.failover.ledger;

import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Reconciliation;

/** The delivery of a ledger's grants to the primary store. */
public final class HandOver implements Delivery<Reconciliation> {

    private final Ledger ledger;
    private final Reconciliation reconciliation;
    private volatile long sentAt;

    HandOver(Ledger ledger, Reconciliation reconciliation) {
        this.ledger = ledger;
        this.reconciliation = reconciliation;
    }

    @Override
    public Claim claim() {
        return reconciliation.claim();
    }

    @Override
    public Reconciliation message() {
        sentAt = Time.nanos();
        return reconciliation;
    }

    /** Returns whether none of the permits counts any more, or the count was reset, or is foreign and evicted. */
    @Override
    public boolean isExpired() {
        return !ledger.counts(reconciliation) || !ledger.awaits(reconciliation);
    }

    @Override
    public boolean isAlone() {
        return true;
    }

    @Override
    public void delivered(Corrected result) {
        ledger.ended(reconciliation, result, sentAt);
    }

    @Override
    public boolean refused() {
        ledger.refused(reconciliation);
        return true;
    }

    @Override
    public void lost(String why) {
        ledger.lost(reconciliation, why);
    }
}
