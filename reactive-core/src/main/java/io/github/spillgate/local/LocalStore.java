package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.RemovalCause;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.FallbackStore;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.Settlement;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A store in the memory of this process, which is bounded.
 *
 * <p>Use it for a single instance, for tests, and as the fallback during a Redis outage. It decides as Redis would, on
 * the clock that it was given. A decision is made on the subscribing thread, which waits for nothing but another thread
 * that is deciding on the same key at that moment.
 *
 * <h2>At the bound</h2>
 *
 * The store holds a bounded number of counts, one for each key under each limit. Beyond it, the cache evicts the count
 * that was used least, and that key starts with an empty count when it is used again. A flood of keys can therefore
 * evict other counts. It cannot evict the counts of clients that are denied and keep retrying: the store keeps up to a
 * quarter as many counts (at least 16) separately, in addition to the bound. Such a count keeps its place until it is
 * fully replenished or has not been denied for 10 s.
 *
 * <p>A counter takes about 300 bytes, or 500 in a store that is a fallback for another. A log takes some more, plus 16
 * bytes for each entry. It has as many entries as the limit has permits, or as a window has slots, and never more than
 * {@link Limit#MOST_LOG_ENTRIES}.
 *
 * <h2>As a fallback for another store</h2>
 *
 * If several processes fall back at the same time, together they would grant the permits of each limit several times
 * over. Set the {@linkplain #share(double) share} of each process to avoid that.
 */
public final class LocalStore implements FallbackStore {
    // Design notes.
    //
    // A count is guarded by its own monitor: uncontended, that is one compare-and-set, and a verdict over several
    // counts takes their monitors in the order of their identities, so that no two verdicts wait for each other in a
    // circle. No cache operation happens while a monitor is held, because the cache has locks of its own.
    //
    // The cache may evict a count while a thread is deciding on it. Then there could be two counts of one identity,
    // and both would admit. So the cache retires a count in the same step in which it evicts it. A thread that finds
    // that the count it has locked is retired looks it up again. A thread that locked it before has decided before the
    // eviction.
    //
    // If the cache is so small for the load that it evicts counts as fast as they are looked up, that would never end.
    // After a few attempts the verdict uses the counts at hand, as if they had been evicted right after it.
    //
    // A count in `apart` is not retired when the cache evicts it. So a lookup goes to `apart` first, then to the
    // cache, and then to `apart` again: the count may have moved there, and been evicted, in between.

    /** The smallest bound: no verdict has more claims, so a store of that size holds all counts of one verdict. */
    private static final int SMALLEST = 16;

    private static final int LOOKS = 16;

    private static final int APART = 4;

    /** The retry time, in milliseconds, if no wait helps before the other store decides again. */
    private static final long ASK_AGAIN = 1_000;

    private final Cache<Object, Count> counts;
    private final DeniedCounts apart;
    private final Owed owed;
    private final InstantSource clock;
    private final AtomicLong resets = new AtomicLong();
    private volatile double share = 1;

    private LocalStore(int maximumCounts, InstantSource clock) {
        this.clock = clock;
        this.counts = Caffeine.newBuilder()
                .maximumSize(maximumCounts)
                .evictionListener((@Nullable Object handle, @Nullable Count count, RemovalCause cause) -> {
                    if (count != null) {
                        forgotten(count);
                    }
                })
                .executor(Runnable::run)
                .build();
        this.apart = new DeniedCounts(Math.max(SMALLEST, maximumCounts / APART), (handle, count) -> {
            Count other = counts.asMap().put(handle, count);
            if (other != null && other != count) {
                forgotten(other);
            }
        });
        this.owed = new Owed(clock);
    }

    private void forgotten(Count count) {
        if (count.retire()) {
            synchronized (count) {
                owed.lose(count);
            }
        }
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
        if (maximumCounts < SMALLEST) {
            throw new IllegalArgumentException("maximumCounts " + maximumCounts
                    + " is less than one verdict may need: expected " + SMALLEST + " or more, for example 100_000");
        }
        return new LocalStore(
                maximumCounts,
                Objects.requireNonNull(clock, "clock is null: expected one, for example InstantSource.system()"));
    }

    /**
     * Sets the share of each limit that this store may grant while several processes decide independently: a quarter,
     * if there are four. It can be changed at any time, for example when instances start or stop, and applies from the
     * next decision on. A share of less than one permit is rounded up to one. Permits that are known to be used
     * elsewhere are subtracted in proportion to the share; permits that this store itself has granted count in full.
     *
     * <p>In a decision, the remaining permits are those that this store may still grant; the rest of the limit is
     * reported as used.
     *
     * @param share more than 0, and at most 1, the default
     * @return this store
     * @throws IllegalArgumentException if the share is out of range
     */
    public LocalStore share(double share) {
        if (!(share > 0 && share <= 1)) {
            throw new IllegalArgumentException("share " + share
                    + " is no part of a limit: expected more than 0 and at most 1, for example 0.25 where "
                    + "four instances run");
        }
        this.share = share;
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
    public Mono<Decision> take(List<Claim> claims) {
        return LocalDecisionMono.of(this, claims, true);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return LocalDecisionMono.of(this, claims, false);
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        return Mono.fromRunnable(() -> {
            if (decision.source() == Source.LOCAL) {
                takeBack(decision);
                return;
            }
            for (Decision part : decision.parts()) {
                long takenAt = part.at().toEpochMilli();
                for (Usage usage : part.limits()) {
                    Claim claim = usage.claim();
                    change(claim, count -> {
                        if (count.carried().isAmongKnown(claim.limit(), takenAt)) {
                            count.carried().forget(claim.permits(), clock.millis());
                        }
                    });
                }
            }
        });
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                change(claim, count -> {
                    long rest = claim.permits() - count.carried().forget(claim.permits(), clock.millis());
                    refundOldest(count, rest);
                });
            }
        });
    }

    @Override
    public List<Claim> refundGranted(List<Claim> claims) {
        List<Claim> rest = new ArrayList<>();
        for (Claim claim : claims) {
            AtomicLong left = new AtomicLong(claim.permits());
            change(claim, count -> left.addAndGet(-refundOldest(count, claim.permits())));
            if (left.get() > 0) {
                rest.add(claim.asking(left.get()));
            }
        }
        return rest;
    }

    private long refundOldest(Count count, long permits) {
        long given = giveBack(count, () -> count.refundOldest(permits));
        if (given > 0 && owed.isToAnother()) {
            count.carrying().countRefunded(given);
        }
        return given;
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                // Also if nothing is known yet: the first reply, from before the reset, may be in flight.
                change(claim, remembered(claim, owed.isToAnother()), count -> {
                    owed.forgive(count);
                    count.forgetAll(resets.incrementAndGet(), clock.millis());
                });
            }
        });
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    @Override
    public StoreState state() {
        return owed.tell(StoreState.of(Source.LOCAL));
    }

    @Override
    public void standInFor(LimitStore store) {
        owed.to(store);
    }

    @Override
    public Fit remember(Decision decision) {
        Fit all = Fit.YES;
        for (Decision part : decision.parts()) {
            for (Usage usage : part.limits()) {
                Fit fit = remember(usage, part);
                all = fit.compareTo(all) > 0 ? fit : all;
            }
        }
        return decision.isCharged() ? all : Fit.YES;
    }

    private Fit remember(Usage usage, Decision decision) {
        Claim claim = usage.claim();
        for (int look = 1; ; look++) {
            Count count = remembered(claim, usage.used() > 0);
            if (count == null) {
                return Fit.YES;
            }
            long now = clock.millis();
            Fit fit;
            synchronized (count) {
                if (count.isRetired() && look < LOOKS) {
                    continue;
                }
                count.carrying().know(usage, decision, now);
                fit = fit(usage, count, now);
            }
            if (usage.isViolated()) {
                keepApart(
                        claim,
                        count,
                        now + usage.wholeAt().toEpochMilli() - decision.at().toEpochMilli(),
                        now);
            }
            return fit;
        }
    }

    /**
     * Returns whether a grant of the other store fits together with what that store may not know of. Its replies may
     * arrive in any order.
     */
    private static Fit fit(Usage usage, Count count, long now) {
        Limit limit = usage.limit();
        Carried carried = count.carried();
        long known = Math.max(usage.used(), carried.known(now));
        if (!carried.isOwing() && known <= limit.permits()) {
            return Fit.YES;
        }
        count.look(limit, now);
        carried.look(limit, now);
        if (!count.fits(limit, known)) {
            return Fit.NO;
        }
        return count.fits(limit, known + carried.handedOver(now)) ? Fit.YES : Fit.IF_SETTLED;
    }

    @Override
    public List<Claim> takeBack(Decision decision) {
        long takenAt = decision.at().toEpochMilli();
        return takeBack(decision, (claim, count, missing) -> {
            boolean counts = takenAt + claim.limit().reach().toMillis() > clock.millis();
            return counts && count.carried().isHandedOver(takenAt) ? missing : 0;
        });
    }

    @Override
    public List<Claim> cancel(Decision decision) {
        return takeBack(decision, (claim, count, missing) -> count.carrying().takeRefunded(missing));
    }

    /** Refunds a decision, and returns claims for those of its permits that are missing here and recorded elsewhere. */
    private List<Claim> takeBack(Decision decision, Elsewhere elsewhere) {
        long takenAt = decision.at().toEpochMilli();
        List<Claim> rest = new ArrayList<>();
        for (Usage usage : decision.limits()) {
            Claim claim = usage.claim();
            change(claim, count -> {
                if (count.carried().isReset(decision.stamp())) {
                    return;
                }
                long missing =
                        claim.permits() - giveBack(count, () -> count.refund(claim.limit(), takenAt, claim.permits()));
                long there = missing == 0 ? 0 : elsewhere.permits(claim, count, missing);
                if (there > 0) {
                    rest.add(claim.asking(there));
                }
            });
        }
        return rest;
    }

    @Override
    public boolean owes(List<Claim> claims) {
        if (owed.isNothing()) {
            return false;
        }
        boolean owes = false;
        for (Claim claim : claims) {
            Count count = remembered(claim, false);
            if (count != null) {
                synchronized (count) {
                    owes |= owed.isUrgent(count);
                }
            }
        }
        return owes;
    }

    @Override
    public List<Settlement> toSettle(int most, Predicate<Claim> left) {
        return owed.handOver(most, left);
    }

    @Override
    public void settled(Settlement settlement, boolean charged) {
        owed.settled(settlement, charged);
        change(settlement.claim(), count -> count.carried().settled(settlement, charged));
    }

    /** Returns how many permits were refunded, and reduces what has to be reconciled by as many. */
    private long giveBack(Count count, Runnable refund) {
        long before = count.recorded();
        refund.run();
        long given = before - count.recorded();
        owed.less(count, given);
        return given;
    }

    /** Decides now; {@link #take} and {@link #peek} call it on subscription. */
    Decision decide(List<Claim> claims, boolean charging) {
        return claims.size() == 1 ? decideOne(claims.get(0), charging) : decideAll(claims, charging);
    }

    /**
     * Does what {@link #decideAll} does for a single claim, the most frequent case, without the work that only several
     * claims need.
     */
    private Decision decideOne(Claim claim, boolean charging) {
        for (int look = 1; ; look++) {
            Count count = held(claim, charging);
            Decision decision;
            synchronized (count) {
                if (count.isRetired() && look < LOOKS) {
                    continue;
                }
                long now = clock.millis();
                double ours = share;
                boolean fits = fits(claim, count, ours, now);
                if (charging) {
                    charge(claim, count, fits);
                }
                Usage usage = usage(claim, count, ours, !fits, !fits, now);
                decision = decision(charging, now, List.of(usage));
            }
            if (!decision.isAllowed()) {
                keepDenied(claim, count, decision, 0);
            }
            return decision;
        }
    }

    private Decision decideAll(List<Claim> claims, boolean charging) {
        for (int look = 1; ; look++) {
            List<Held> held = new ArrayList<>(claims.size());
            for (Claim claim : claims) {
                held.add(new Held(claim, held(claim, charging)));
            }
            Decision decision = lockFrom(0, inOrder(held), look == LOOKS, () -> decideLocked(held, charging));
            if (decision != null) {
                for (int i = 0; i < held.size() && !decision.isAllowed(); i++) {
                    keepDenied(held.get(i).claim, held.get(i).count, decision, i);
                }
                return decision;
            }
        }
    }

    private Count held(Claim claim, boolean charging) {
        Count count = remembered(claim, charging);
        return count == null ? Count.of(claim.limit()) : count;
    }

    private @Nullable Count remembered(Claim claim, boolean create) {
        Object handle = claim.handle();
        Count kept = apart.get(handle);
        if (kept != null) {
            return kept;
        }
        Count count = counts.getIfPresent(handle);
        if (count == null && create) {
            count = counts.get(handle, name -> Count.of(claim.limit()));
        }
        Count putApart = apart.get(handle);
        return putApart == null ? count : putApart;
    }

    private void keepDenied(Claim claim, Count count, Decision decision, int i) {
        Usage usage = decision.limits().get(i);
        if (usage.isViolated()) {
            keepApart(
                    claim, count, usage.wholeAt().toEpochMilli(), decision.at().toEpochMilli());
        }
    }

    private void keepApart(Claim claim, Count count, long until, long now) {
        apart.keep(claim.handle(), count, until, now);
    }

    private static List<Held> inOrder(List<Held> held) {
        List<Held> ordered = new ArrayList<>(held);
        ordered.sort(Comparator.comparing(one -> one.claim.identity()));
        return ordered;
    }

    private static @Nullable Decision lockFrom(int i, List<Held> held, boolean insist, Deciding deciding) {
        if (i == held.size()) {
            return deciding.decide();
        }
        Count count = held.get(i).count;
        synchronized (count) {
            return count.isRetired() && !insist ? null : lockFrom(i + 1, held, insist, deciding);
        }
    }

    private Decision decideLocked(List<Held> held, boolean charging) {
        long now = clock.millis();
        double ours = share;
        boolean allowed = true;
        boolean[] fits = new boolean[held.size()];
        for (int i = 0; i < fits.length; i++) {
            fits[i] = fits(held.get(i).claim, held.get(i).count, ours, now);
            allowed &= fits[i];
        }
        List<Usage> usages = new ArrayList<>(fits.length);
        for (int i = 0; i < fits.length; i++) {
            Claim claim = held.get(i).claim;
            Count count = held.get(i).count;
            if (charging) {
                charge(claim, count, allowed);
            }
            usages.add(usage(claim, count, ours, !fits[i], !allowed, now));
        }
        return decision(charging, now, usages);
    }

    /** Updates a count to the present, and returns whether it allows the claim. */
    private static boolean fits(Claim claim, Count count, double ours, long now) {
        Limit limit = claim.limit();
        count.look(limit, now);
        count.carried().look(limit, now);
        return count.fits(limit, claim.permits() + count.carried().weight(limit, ours, now));
    }

    /** Records an allowed claim; also a denied one, if the limit counts denied requests. */
    private void charge(Claim claim, Count count, boolean allowed) {
        long permits = claim.permits();
        if (permits == 0) {
            return;
        }
        if (allowed) {
            count.take(permits);
            owed.more(count, claim, permits);
        } else if (claim.limit().isCountingDenied()) {
            long before = count.recorded();
            count.recordDenied(claim.limit(), permits);
            owed.more(count, claim, Math.max(0, count.recorded() - before));
        }
    }

    /** Makes the decision. Must run under the monitors of its counts, so that only a later reset has a newer stamp. */
    private Decision decision(boolean charging, long now, List<Usage> usages) {
        return charging
                ? Decision.ofTake(Source.LOCAL, now, resets.get(), usages)
                : Decision.ofPeek(Source.LOCAL, now, usages);
    }

    private static Usage usage(Claim claim, Count count, double ours, boolean violated, boolean denied, long now) {
        long used = count.used() + count.carried().weight(claim.limit(), ours, now);
        long fitsAt = denied ? fitsAt(claim, count, ours, now) : now;
        return Usage.of(
                claim,
                used,
                violated,
                fitsAt,
                Math.max(count.wholeAt(), count.carried().goneAt(now)));
    }

    /**
     * Returns when the claim fits. Permits known from elsewhere count as if the claim asked for more; the time is
     * computed again for each moment at which some of them expire.
     */
    private static long fitsAt(Claim claim, Count count, double ours, long now) {
        Limit limit = claim.limit();
        long from = now;
        while (true) {
            long until = count.carried().changesAfter(from);
            long cost = claim.permits() + count.carried().weight(limit, ours, from);
            if (cost <= limit.permits()) {
                long fitsAt = Math.max(from, count.fitsAt(limit, cost));
                if (fitsAt < until) {
                    return fitsAt;
                }
            } else if (until == Long.MAX_VALUE) {
                return now + ASK_AGAIN;
            }
            from = until;
        }
    }

    private void change(Claim claim, Consumer<Count> change) {
        change(claim, remembered(claim, false), change);
    }

    private void change(Claim claim, @Nullable Count count, Consumer<Count> change) {
        if (count != null) {
            // A retired count has been evicted; changing it has no effect.
            synchronized (count) {
                count.look(claim.limit(), clock.millis());
                change.accept(count);
            }
        }
    }

    /** Returns the cached counts, for tests. */
    Cache<Object, Count> counts() {
        return counts;
    }

    /** Returns the separate counts of denied clients, for tests. */
    DeniedCounts apart() {
        return apart;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "LocalStore";
    }

    private record Held(Claim claim, Count count) {}

    /** Finds how many of the permits that are missing from a count are recorded elsewhere. */
    @FunctionalInterface
    private interface Elsewhere {
        long permits(Claim claim, Count count, long missing);
    }

    @FunctionalInterface
    private interface Deciding {
        Decision decide();
    }
}
