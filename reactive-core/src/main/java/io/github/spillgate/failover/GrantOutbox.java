package io.github.spillgate.failover;

import io.github.spillgate.failover.ledger.HandOvers;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.RefundCharged;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Charges the grants of the fallback in the primary store. */
final class GrantOutbox implements HandOvers.Way {

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    /** The longest pause after a batch, so that decisions are hardly delayed. */
    private static final Duration LONGEST_REST = Duration.ofMillis(5);

    private final LimitStore primary;
    private final LimitStore fallback;
    private final CircuitGates gates;
    private final Consumer<RefundCharged> refunds;
    private final Outbox<Reconciliation> outbox;
    private final Mono<Void> end;
    private final SummaryLog restoredCounts = new SummaryLog(this::logRestored);

    /**
     * Creates an empty one.
     *
     * @param fallback the fallback that grants
     * @param refunds refunds permits in the primary store
     */
    GrantOutbox(LimitStore primary, LimitStore fallback, CircuitGates gates, Consumer<RefundCharged> refunds) {
        this.primary = primary;
        this.fallback = fallback;
        this.gates = gates;
        this.refunds = refunds;
        this.outbox = new Outbox<>(
                primary, gates, new Outbox.Channel<>("reconciliation", true, LONGEST_REST, primary::correct));
        this.end = Mono.defer(outbox::end).doOnSuccess(ended -> logWhatIsLeft()).cache();
    }

    @Override
    public void add(Ledger ledger) {
        outbox.add(ledger);
    }

    @Override
    public void expedite(Ledger ledger) {
        outbox.expedite(ledger);
    }

    @Override
    public void hurry(Ledger ledger) {
        outbox.hurry(ledger.claim());
    }

    @Override
    public boolean isAfterOutage(Claim claim) {
        try {
            return gates.to(List.of(claim)).isAfterOutage();
        } catch (RuntimeException e) {
            // The store cannot name the node of the claim.
            return false;
        }
    }

    @Override
    public void refund(RefundCharged permits) {
        refunds.accept(permits);
    }

    @Override
    public void reportRestored() {
        restoredCounts.count();
    }

    private void logRestored(long counts) {
        LOG.warn("{} has lost data; {} counts were restored to what this instance knows", primary, counts);
    }

    @Override
    public void reportForeign(Claim claim) {
        gates.to(List.of(claim))
                .recordForeignValue("local grants on " + claim.identity()
                        + " cannot be charged: expected a count or no value under its key; delete the value");
    }

    /** Sends at once what waits for a node that is available again. */
    void nodeIsBack(String node) {
        outbox.nodeIsBack(node);
    }

    /** Makes a last attempt, for at most a second, and ends. */
    Mono<Void> end() {
        end.subscribe();
        return end;
    }

    private void logWhatIsLeft() {
        long left = fallback.state().toReconcile();
        if (left > 0) {
            LOG.warn("{} permits that {} has granted will not be charged in {}", left, fallback, primary);
        }
    }
}
