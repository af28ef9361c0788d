package io.github.spillgate.local;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
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

    private final CountTable<Count> counts;
    private volatile double share = 1;

    private LocalStore(int maximumCounts, InstantSource clock) {
        counts = new CountTable<>(maximumCounts, clock, LocalStore::newCount, count -> share, evicted -> {});
    }

    private static Count newCount(Claim claim) {
        return claim.limit().algorithm() == Algorithm.CONCURRENT ? new HoldCount() : RateCount.of(claim.limit());
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
    public Mono<StoreDecision> take(List<Claim> claims) {
        return LocalDecisionMono.inTurns(counts, claims, true);
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return LocalDecisionMono.inTurns(counts, claims, false);
    }

    @Override
    public Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        return counts.lease(claim, parts);
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        // Of another store, for which this one decides during an outage, nothing was taken here.
        return Mono.fromRunnable(() -> decision.parts().stream()
                .filter(part -> part.source() == Source.LOCAL)
                .forEach(this::refundPart));
    }

    private void refundPart(StoreDecision part) {
        for (StoreUsage usage : part.usages()) {
            Claim claim = usage.claim();
            counts.update(claim, count -> {
                if (count instanceof HoldCount holds) {
                    // A hold has an id, so its release removes no other.
                    holds.release();
                } else if (!count.isResetSince(part.stamp())) {
                    ((RateCount) count).refund(claim.limit(), part.chargedAt(claim), claim.permits());
                }
            });
        }
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        // It is not known which holder of a concurrency limit has finished.
        return Mono.fromRunnable(() -> claims.stream()
                .filter(claim -> claim.limit().algorithm() != Algorithm.CONCURRENT)
                .forEach(claim -> counts.update(claim, count -> ((RateCount) count).refundOldest(claim.permits()))));
    }

    @Override
    public Mono<Void> release(List<Claim> holds) {
        return Mono.fromRunnable(() -> holds.forEach(claim -> counts.apply(claim, true, count -> {
            ((HoldCount) count).release();
            return true;
        })));
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return Mono.fromCallable(() -> holds.stream()
                .map(claim -> Objects.requireNonNull(counts.apply(
                        claim, true, count -> new HoldRenewal(claim, ((HoldCount) count).renew(claim.permits())))))
                .toList());
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.fromRunnable(() -> claims.forEach(claim -> counts.reset(claim, false)));
    }

    @Override
    public Mono<StoreDecision> settle(List<Settlement> settlements) {
        return Mono.fromRunnable(() -> settlements.stream()
                .filter(one -> one.decision().source() == Source.LOCAL)
                .forEach(this::settle));
    }

    private void settle(Settlement one) {
        Claim claim = one.claim();
        counts.apply(claim, one.toCharge() > 0, count -> {
            if (count.isResetSince(one.decision().stamp())) {
                return false;
            }
            if (one.toCharge() > 0) {
                count.takeBeyond(claim.limit(), one.toCharge(), one.most());
            } else {
                ((RateCount) count).refund(claim.limit(), one.decision().chargedAt(claim), one.toRefund());
            }
            return true;
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
