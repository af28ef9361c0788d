package io.github.spillgate.failover;

import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.failover.ledger.Delivery;
import io.github.spillgate.internal.SummaryLog;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Settlement;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.Logger;
import reactor.util.Loggers;

/** Delivers settlements to the primary store. One that is not delivered by its deadline is lost, and counted. */
final class SettlementOutbox {

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    static final int MOST_WAITING = 10_000;

    private final LimitStore primary;
    private final DenialCache denials;
    private final Consumer<Corrected> results;
    private final Consumer<List<Claim>> beforeRefund;
    private final Outbox<Correction> outbox;
    private final Mono<Void> end;
    private final AtomicInteger pending = new AtomicInteger();
    private final AtomicLong lost = new AtomicLong();
    private final SummaryLog lostToLog = new SummaryLog(this::log);
    private volatile String reason = "";
    private volatile boolean isClosed;

    /**
     * Creates an empty one.
     *
     * @param denials the cached denials, of which a refund drops some
     * @param results learns of the usage of the counts that are settled
     * @param beforeRefund learns of the oldest permits that are about to be refunded
     */
    SettlementOutbox(
            LimitStore primary,
            CircuitGates gates,
            DenialCache denials,
            Consumer<Corrected> results,
            Consumer<List<Claim>> beforeRefund) {
        this.primary = primary;
        this.denials = denials;
        this.results = results;
        this.beforeRefund = beforeRefund;
        this.outbox = new Outbox<>(
                primary, gates, new Outbox.Channel<>("settlement", false, Duration.ZERO, primary::correct));
        this.end = Mono.defer(outbox::end).doOnSuccess(ended -> close()).cache();
    }

    /** Adds a settlement. The result completes when it is delivered or lost, with or without a subscriber. */
    Mono<Void> add(Settlement settlement) {
        return add(settlement, settlement.deadline());
    }

    /** Adds a refund until a deadline, like {@link #add(Settlement)}. */
    Mono<Void> add(RefundCharged refund, long deadline) {
        return add((Correction) refund, deadline);
    }

    private Mono<Void> add(Correction correction, long deadline) {
        if (isClosed) {
            lose("the limiter is closed");
            return Mono.empty();
        }
        if (pending.incrementAndGet() > MOST_WAITING) {
            pending.decrementAndGet();
            lose("too many are waiting");
            return Mono.empty();
        }
        LateCorrection one = new LateCorrection(correction, deadline);
        outbox.send(one);
        return one.end.asMono();
    }

    /** Returns how many settlements were lost. */
    long lost() {
        return lost.get();
    }

    /** Sends at once what waits for a node that is available again. */
    void nodeIsBack(String node) {
        outbox.nodeIsBack(node);
    }

    /** Makes a last attempt to deliver what waits, for at most a second, and ends. */
    Mono<Void> end() {
        end.subscribe();
        return end;
    }

    private synchronized void close() {
        if (!isClosed) {
            isClosed = true;
            int left = pending.get();
            if (left > 0) {
                lost.addAndGet(left);
                LOG.warn("{} settled costs will not be delivered to {}", left, primary);
            }
        }
    }

    private void lose(String why) {
        lost.incrementAndGet();
        reason = Text.line(why);
        lostToLog.count();
    }

    private void log(long settlements) {
        LOG.warn("{} settled costs could not be delivered to {}: {}", settlements, primary, reason);
    }

    /** A settlement, or a refund of permits that a settled decision of the fallback no longer needs. */
    private final class LateCorrection implements Delivery<Correction> {

        private final Correction correction;
        private final long deadline;
        private final Sinks.Empty<Void> end = Sinks.empty();

        /** Whether the refund is noted. It is sent again if it was certainly not executed. */
        private volatile boolean isNoted;

        LateCorrection(Correction correction, long deadline) {
            this.correction = correction;
            this.deadline = deadline;
        }

        @Override
        public Claim claim() {
            return correction.claim();
        }

        @Override
        public Correction message() {
            if (correction instanceof RefundCharged && !isNoted) {
                isNoted = true;
                beforeRefund.accept(List.of(claim()));
            }
            return correction;
        }

        @Override
        public boolean mayRepeat() {
            return correction instanceof Settlement;
        }

        @Override
        public boolean isAlone() {
            return correction instanceof RefundCharged;
        }

        @Override
        public boolean isExpired() {
            return deadline - Time.nanos() <= 0;
        }

        @Override
        public void delivered(Corrected result) {
            try {
                if (correction instanceof Settlement) {
                    results.accept(result);
                }
                if (!(correction instanceof Settlement one) || one.toRefund() > 0) {
                    denials.freed(List.of(claim()));
                }
            } finally {
                finish(null);
            }
        }

        @Override
        public boolean refused() {
            return false;
        }

        @Override
        public void lost(String why) {
            finish(why);
        }

        private void finish(@Nullable String whyLost) {
            synchronized (SettlementOutbox.this) {
                if (!isClosed) {
                    pending.decrementAndGet();
                    if (whyLost != null) {
                        lose(whyLost);
                    }
                }
            }
            end.tryEmitEmpty();
        }
    }
}
