package io.github.spillgate.failover.ledger;

import io.github.spillgate.count.QuotaCount;
import io.github.spillgate.spi.Claim;

/**
 * The permits that a {@link RateLedger} of a quota has granted and not handed over. They are counted by the clock of
 * the primary store, as last known, and in the period in which it counts: so its boundary ends both at the same time,
 * and a hand-over has the period of the primary store.
 */
final class QuotaGrants extends QuotaCount {

    private final HandOvers handOvers;

    QuotaGrants(HandOvers handOvers) {
        this.handOvers = handOvers;
    }

    /** Notes the period in which the primary store counts, on its clock. */
    void follow(Snapshot reply) {
        if (reply.used() > 0) {
            expect(reply.start(), reply.ends());
        }
    }

    private long ahead() {
        return handOvers.storeAhead();
    }

    @Override
    public void advance(Claim claim, long now) {
        super.advance(claim, now + ahead());
    }

    @Override
    public long fitsAt(long cost) {
        return super.fitsAt(cost) - ahead();
    }

    @Override
    public long wholeAt() {
        return super.wholeAt() - ahead();
    }

    @Override
    public void refund(long takenAt, long permits) {
        super.refund(takenAt + ahead(), permits);
    }
}
