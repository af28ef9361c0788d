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
 * Decides in this process, in memory that is bounded.
 *
 * <p>For one instance, for tests, and for the time when Redis is out of reach. The answers are those that Redis would give, by
 * the clock that the store was given. They are made on the thread that subscribes, which nothing holds up but another thread
 * that is deciding on the same key at that moment.
 *
 * <h2>At the bound</h2>
 *
 * The store remembers so many counts, one for each key under each limit. When there are more, the one that was seen least is
 * forgotten, and starts empty when it is seen again: bounded memory means that a flood of keys can wash out others. It cannot
 * wash out those who are being denied and go on asking: up to a quarter as many are kept apart, on top of the others, until they
 * are whole again or have not asked for ten seconds.
 *
 * <p>A counter takes about 300 bytes, and 500 in a store that stands in for another; a log takes some more, and 16 for each
 * entry, of which it has as many as permits, or as slots in a window, and never more than {@link Limit#MOST_LOG_ENTRIES}.
 *
 * <h2>Standing in for another store</h2>
 *
 * Where other processes stand in at the same time, each for itself, they would grant the permits of each limit several times
 * over. So a store can be told its {@linkplain #share(double) share} of them.
 */
public final class LocalStore implements FallbackStore {
    // Design notes.
    //
    // A count is guarded by its own monitor: uncontended, that is one compare-and-set, and a verdict over several
    // counts takes their monitors in the order of their identities, so that no two verdicts wait for each other in a
    // circle. No cache operation happens while a monitor is held, because the cache has locks of its own.
    //
    // The cache may forget a count while somebody is deciding on it. Then there could be two counts of one identity,
    // and both would admit. So the cache retires a count in the same step in which it forgets it, and who finds that
    // the count he has locked is retired looks again. Who locked it before has decided before it was forgotten.
    //
    // Where the cache is so small for what goes on that it forgets a count as fast as it is asked for, looking again
    // would have no end. After a few times the verdict is over the counts that are in hand, as if they had been
    // forgotten right after it.
    //
    // A count that is kept apart is not retired when the cache forgets it, so it is looked for apart first, and once
    // more after the cache: it may have been put apart and forgotten there in between.

    /** No verdict has more claims, so a store of that size can remember all the counts of one. */
    private static final int SMALLEST = 16;

    private static final int LOOKS = 16;

    private static final int APART = 4;

    /** When to come back, if no wait helps but that the other store decides again. */
    private static final long ASK_AGAIN = 1_000;

    private final Cache<Object, Count> counts;
    private final Apart apart;
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
        this.apart = new Apart(Math.max(SMALLEST, maximumCounts / APART), (handle, count) -> {
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
     * A store that remembers so many counts, on the system's clock.
     *
     * @param maximumCounts at least 16; those who are being denied come on top
     * @return the store
     * @throws IllegalArgumentException if it is less
     */
    public static LocalStore bounded(int maximumCounts) {
        return bounded(maximumCounts, InstantSource.system());
    }

    /**
     * A store that remembers so many counts.
     *
     * @param maximumCounts at least 16; those who are being denied come on top
     * @param clock what tells the time, to the millisecond; it may stand still, jump, and step back
     * @return the store
     * @throws IllegalArgumentException if it is less
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
     * Sets what part of each limit this store may grant, for the time when several processes decide each for itself: with four of
     * them, a quarter. It may be set at any time, for example when instances come and go, and holds from the next decision on. A
     * limit of which less than one permit would be left has one. What others have used, as far as is known, is taken off by the
     * same share; what this store itself has admitted counts in full.
     *
     * <p>A decision tells what this store grants as what remains of the limit; the rest of the limit is told as used.
     *
     * @param share more than 0, and at most 1, which it is at first
     * @return this store
     * @throws IllegalArgumentException if it is something else
     */
    public LocalStore share(double share) {
        if (!(share > 0 && share <= 1)) {
            throw new IllegalArgumentException(
                    "share " + share
                            + " is no part of a limit: expected more than 0 and at most 1, for example 0.25 where four instances run");
        }
        this.share = share;
        return this;
    }

    /**
     * Returns what part of each limit this store may grant.
     *
     * @return the share
     */
    public double share() {
        return share;
    }

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return DecidedHere.of(this, claims, true);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return DecidedHere.of(this, claims, false);
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
                // Also where nothing is known yet: the first answer, of before, may be on its way.
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

    /** Whether what the other store has allowed fits together with what it may not know of; its answers may come in any order. */
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

    /** Takes back what a decision has taken, and returns claims for what is elsewhere of the permits that are missing here. */
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

    /** Returns how many permits were given back, and owes so much less. */
    private long giveBack(Count count, Runnable refund) {
        long before = count.recorded();
        refund.run();
        long given = before - count.recorded();
        owed.less(count, given);
        return given;
    }

    /** Decides now; {@link #take} and {@link #peek} do when they are asked for it. */
    Decision decide(List<Claim> claims, boolean charging) {
        return claims.size() == 1 ? decideOne(claims.get(0), charging) : decideAll(claims, charging);
    }

    /** What {@link #decideAll} does, for what is asked most; with nothing in between that only several need. */
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

    /** Looks at a count, and tells whether it lets the claim through. */
    private static boolean fits(Claim claim, Count count, double ours, long now) {
        Limit limit = claim.limit();
        count.look(limit, now);
        count.carried().look(limit, now);
        return count.fits(limit, claim.permits() + count.carried().weight(limit, ours, now));
    }

    /** Records a claim that has been allowed, or, where denied ones count, denied. */
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

    /** What comes of a step; made in it, so that its stamp is older than that of a reset that follows, and no other. */
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

    /** What weighs on a count is as if so much more were asked for; it is looked at anew whenever some of that is gone. */
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
            // A retired count has been forgotten, and nothing has to be changed in it.
            synchronized (count) {
                count.look(claim.limit(), clock.millis());
                change.accept(count);
            }
        }
    }

    /** What is remembered, for tests to look at. */
    Cache<Object, Count> counts() {
        return counts;
    }

    /** Those who are being denied, for tests to look at. */
    Apart apart() {
        return apart;
    }

    /** Returns the store for a log. */
    @Override
    public String toString() {
        return "LocalStore";
    }

    private record Held(Claim claim, Count count) {}

    /** Finds how many of the permits that are missing from a count are elsewhere. */
    @FunctionalInterface
    private interface Elsewhere {
        long permits(Claim claim, Count count, long missing);
    }

    @FunctionalInterface
    private interface Deciding {
        Decision decide();
    }
}
