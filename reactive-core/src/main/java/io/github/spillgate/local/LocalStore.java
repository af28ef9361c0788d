package io.github.spillgate.local;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.HoldCount;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.fleet.PublishedValues;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/**
 * A store in the memory of this process, which is bounded.
 *
 * <p>Use it for a single instance and for tests. It decides as Redis would, on the clock that it was given. A decision
 * is made on the subscribing thread, which waits for nothing but another thread that is deciding on the same key at
 * that moment. What decides during a Redis outage is a store of its own: {@link
 * io.github.spillgate.failover.Fallback#local(int) Fallback.local}.
 *
 * <h2>At the bound</h2>
 *
 * The store holds a bounded number of counts, one for each key under each limit. Beyond it, the cache evicts the count
 * that was used least, and that key starts with an empty count when it is used again. A flood of keys can therefore
 * evict other counts. It cannot evict the counts of clients that are denied and keep retrying: the store keeps up to a
 * quarter as many counts (at least 16) separately, in addition to the bound. Such a count keeps its place until it is
 * fully replenished or has not been denied for 10 s.
 *
 * <p>A counter takes about 300 bytes. A log takes some more, plus 16 bytes for each entry. It has as many entries as
 * the limit has permits, or as a window has slots, and never more than {@link Limit#MOST_LOG_ENTRIES}.
 */
public final class LocalStore implements LimitStore {

    private static final Corrected NOTHING = Corrected.of(CorrectionOutcome.WITHOUT_EFFECT);

    private final CountTable<Count> counts;
    private volatile double share = 1;

    /** What is published. Guarded by {@link #counts}. */
    private byte[] published = {};

    private LocalStore(int maximumCounts, InstantSource clock) {
        counts =
                new CountTable<>(maximumCounts, clock, claim -> Count.of(claim.limit()), count -> share, evicted -> {});
    }

    /**
     * Returns a store with a bounded number of counts, on the system clock.
     *
     * @param maximumCounts the highest number of counts, 16 or more; the separate counts of denied clients are in
     *     addition
     * @return the store
     * @throws IllegalArgumentException if the number is below 16
     */
    public static LocalStore bounded(int maximumCounts) {
        return bounded(maximumCounts, InstantSource.system());
    }

    /**
     * Returns a store with a bounded number of counts.
     *
     * @param maximumCounts the highest number of counts, 16 or more; the separate counts of denied clients are in
     *     addition
     * @param clock the clock, read in milliseconds; it may stand still, jump and go back
     * @return the store
     * @throws IllegalArgumentException if the number is below 16
     */
    public static LocalStore bounded(int maximumCounts, InstantSource clock) {
        return new LocalStore(maximumCounts, clock);
    }

    /**
     * Sets the share of each limit that this store may grant, if several processes count independently: a quarter, if
     * there are four. It can be changed at any time, and applies from the next decision on. A share of less than one
     * permit is rounded up to one. In a decision, the rest of the limit is reported as used.
     *
     * @param share more than 0, and at most 1, the default
     * @return this store
     * @throws IllegalArgumentException if the share is out of range
     */
    public LocalStore share(double share) {
        this.share = Checks.share(share);
        return this;
    }

    /**
     * Returns the share of each limit that this store may grant.
     *
     * @return the share
     */
    public double share() {
        return share;
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        return switch (request.mode()) {
            case PEEK -> LocalDecisionMono.inTurns(counts, request.claims(), false);
            case TAKE -> LocalDecisionMono.inTurns(counts, request.claims(), true);
            case LEASE -> counts.lease(request.claims().get(0), request.parts());
        };
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return Mono.fromCallable(() -> corrections.stream().map(this::correct).toList());
    }

    private Corrected correct(Correction correction) {
        if (correction instanceof Correction.OfDecision one
                && one.usage().reply().source() != Source.LOCAL) {
            // Of another store, for which this one decides during an outage, nothing was taken here.
            return NOTHING;
        } else if (correction instanceof Refund one) {
            return refund(one, one.claim().permits());
        } else if (correction instanceof Settlement one) {
            return settle(one);
        } else if (correction instanceof RefundOldest || correction instanceof RefundCharged) {
            return refundOldest(correction.claim());
        }
        return correction instanceof Reconciliation one && !one.claim().limit().takesPermits()
                ? ban(one)
                : Corrected.of(CorrectionOutcome.UNSUPPORTED);
    }

    private Corrected ban(Reconciliation one) {
        Claim claim = one.claim();
        Long lasts = counts.apply(claim, true, count -> ((RateCount) count).charge(one.agesToSend()));
        if (lasts == null || lasts == 0) {
            return NOTHING;
        }
        counts.protect(claim, counts.now() + lasts);
        return Corrected.of(CorrectionOutcome.APPLIED);
    }

    private Corrected refund(Correction.OfDecision one, long permits) {
        return changeUnlessReset(
                one, false, count -> ((RateCount) count).refund(one.usage().chargedAt(), permits));
    }

    private Corrected settle(Settlement one) {
        return one.toCharge() == 0
                ? refund(one, one.toRefund())
                : changeUnlessReset(one, true, count -> count.takeBeyond(one.toCharge(), one.most()));
    }

    /** Changes the count of a decision, unless it was reset since. */
    private Corrected changeUnlessReset(Correction.OfDecision one, boolean create, Consumer<Count> change) {
        return change(one.claim(), create, count -> {
            if (count.isResetSince(one.usage().reply().stamp())) {
                return false;
            }
            change.accept(count);
            return true;
        });
    }

    private Corrected refundOldest(Claim claim) {
        // It is not known which holder of a concurrency limit has finished.
        return claim.limit().holdsPermits()
                ? NOTHING
                : change(claim, false, count -> {
                    ((RateCount) count).refundOldest(claim.permits());
                    return true;
                });
    }

    private Corrected change(Claim claim, boolean create, Function<Count, Boolean> change) {
        return Boolean.TRUE.equals(counts.apply(claim, create, change))
                ? Corrected.of(CorrectionOutcome.APPLIED)
                : NOTHING;
    }

    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return Mono.fromCallable(
                () -> holds.stream().map(claim -> hold(claim, action)).toList());
    }

    private HoldRenewal hold(Claim claim, HoldAction action) {
        return Objects.requireNonNull(counts.apply(claim, true, count -> {
            if (action == HoldAction.RENEW) {
                return new HoldRenewal(claim, ((HoldCount) count).renew(claim.permits()));
            }
            count.release();
            return new HoldRenewal(claim, HoldRenewal.RenewalOutcome.RELEASED);
        }));
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return Mono.fromRunnable(() -> claims.forEach(counts::reset));
    }

    /** {@inheritDoc} There is no other process. */
    @Override
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return Mono.fromCallable(() -> {
            synchronized (counts) {
                long micros = TimeUnit.MILLISECONDS.toMicros(counts.now());
                PublishedValues values = PublishedValues.exchange(published, micros, request);
                published = values.toBytes();
                return values.reply(
                        micros, Collections.nCopies(request.limiters().size(), 1), request);
            }
        });
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.LOCAL);
    }

    /** Returns the table, for tests. */
    CountTable<Count> counts() {
        return counts;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "LocalStore";
    }
}
