package io.github.spillgate.failover;

import io.github.spillgate.failover.ledger.HandOvers;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.internal.SummaryLog;
import io.github.spillgate.internal.Text;
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
final class GrantOutbox implements HandOvers.Store {

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
    private final SummaryLog lostPermits = new SummaryLog(this::logLost);
    private volatile String whyLost = "";

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
    public void moveToFront(Ledger ledger) {
        outbox.moveToFront(ledger);
    }

    @Override
    public void wakeNode(Ledger ledger) {
        outbox.wakeNode(ledger.claim());
    }

    @Override
    public boolean isAfterOutage(Claim claim) {
        return gates.toOrWhole(List.of(claim)).isAfterOutage();
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
    public void reportLost(long permits, String why) {
        whyLost = Text.line(why);
        lostPermits.count(permits);
    }

    private void logLost(long permits) {
        LOG.warn(
                "{} permits that {} has granted cannot be charged in {}, so more than a limit may be granted: {}",
                permits,
                fallback,
                primary,
                whyLost);
    }

    @Override
    public void reportForeign(Claim claim) {
        gates.toOrWhole(List.of(claim))
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
