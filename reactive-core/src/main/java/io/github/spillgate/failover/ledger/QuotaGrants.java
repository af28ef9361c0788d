package io.github.spillgate.failover.ledger;

import io.github.spillgate.count.QuotaCount;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;

/**
 * The permits that a {@link RateLedger} of a quota has granted and not handed over. They are counted by the clock of
 * the primary store, as last known, and in the period in which it counts: so its boundary ends both at the same time,
 * and a hand-over has the period of the primary store.
 */
final class QuotaGrants extends RateCount {

    private final QuotaCount count = new QuotaCount();
    private final HandOvers handOvers;

    QuotaGrants(HandOvers handOvers) {
        this.handOvers = handOvers;
    }

    /** Notes the period in which the primary store counts, on its clock. */
    void follow(Snapshot reply) {
        if (reply.used() > 0) {
            count.expect(reply.start(), reply.ends());
        }
    }

    private long ahead() {
        return handOvers.storeAhead();
    }

    @Override
    public void advance(Claim claim, long now) {
        count.advance(claim, now + ahead());
    }

    @Override
    public long used() {
        return count.used();
    }

    @Override
    public boolean fits(long cost) {
        return count.fits(cost);
    }

    @Override
    public long fitsAt(long cost) {
        return count.fitsAt(cost) - ahead();
    }

    @Override
    public long wholeAt() {
        return count.wholeAt() - ahead();
    }

    @Override
    public List<Grants> grants() {
        return count.grants();
    }

    @Override
    public void take(long cost) {
        count.take(cost);
    }

    @Override
    public void recordDenied(long cost) {
        count.recordDenied(cost);
    }

    @Override
    public void refund(long takenAt, long permits) {
        count.refund(takenAt + ahead(), permits);
    }

    @Override
    public void refundOldest(long permits) {
        count.refundOldest(permits);
    }

    @Override
    public void clear() {
        count.clear();
    }
}
