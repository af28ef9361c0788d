package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Policy;
import com.github.benmanes.caffeine.cache.RemovalCause;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.count.Count;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A bounded table of counts that decides on claims. The part of a store in memory that does not depend on what a count
 * holds; for the stores of this library, not for applications: it is no API.
 *
 * @param <C> the type of its counts
 */
public final class CountTable<C extends Count> {
    // Design notes.
    //
    // Locking. A count is guarded by its own monitor: uncontended, that is one compare-and-set. A decision on several
    // counts takes their monitors in the order of their handles, so that no two decisions wait for each other in a
    // circle. No cache operation happens while a monitor is held: the cache calls the eviction listener under a lock of
    // its own, and the listener takes the monitor of the count. So the order is the lock of the cache, then the
    // monitor.
    //
    // Eviction. The cache may evict a count while a thread is deciding on it. Then there could be two counts of one
    // identity, and both would admit. So the cache marks a count as evicted in the same step. A thread that finds that
    // the count it has locked is evicted looks it up again. A thread that locked it before has decided before the
    // eviction.
    //
    // If the cache is so small for the load that it evicts counts as fast as they are looked up, that would never end.
    // After a few attempts the decision uses the evicted counts, as if they had been evicted right after it.
    //
    // Use. The cache orders the counts by their use, for which it writes to several of them at each lookup: with many
    // counts, that takes longer than the decision. But the order matters only for what is evicted when others come. So
    // the cache learns the first 15 uses of a count, as many as it distinguishes, and then each 15th, because the uses
    // of others make it older. When as many counts have come as a hundredth of the bound, this begins again.
    //
    // Denied counts. A protected count is not marked when the cache evicts it. So a lookup goes to the protected counts
    // first, then to the cache, and then to the protected counts again: the count may have moved there, and been
    // evicted, in between.

    /** The smallest bound: no decision has more claims, so a table of that size holds all counts of one decision. */
    private static final int SMALLEST = 16;

    /** The number of lookups after which a decision uses the counts, evicted or not. */
    private static final int ATTEMPTS = 16;

    /** The retry time, in milliseconds, if a claim exceeds this process's share of its limit. */
    private static final long RETRY = 1_000;

    /** A quarter as many counts as the cache holds can be protected. */
    private static final int PROTECTED_PART = 4;

    /** In a period, so many uses of a count are recorded, and then one of so many. */
    private static final int USES = 15;

    /** In a period, one part in so many of the bound comes. */
    private static final int PERIODS = 100;

    private final Cache<Object, C> cache;
    private final Policy<Object, C> withoutUse;
    private final DeniedCounts<C> denied;
    private final InstantSource clock;
    private final Function<Claim, C> factory;
    private final ToDoubleFunction<C> share;
    private final Consumer<C> onEviction;
    private final AtomicLong epochs = new AtomicLong();

    /** How many counts have come. */
    private final AtomicLong arrivals = new AtomicLong();

    private final long period;

    /** Shared by all decisions of a millisecond. */
    private volatile Reply lastReply = new Reply(Source.LOCAL, 0);

    /**
     * Creates a table.
     *
     * @param maximumCounts the highest number of counts, 16 or more; protected counts are in addition
     * @param clock the clock, read in milliseconds; it may stand still, jump and go back
     * @param factory creates the count for a claim
     * @param share returns the share of the limit that this process may grant on a count, more than 0 and at most 1;
     *     called once for each count of a decision, under its monitor and at the present time
     * @param onEviction called with each evicted count, under its monitor
     * @throws IllegalArgumentException if the number is below 16
     */
    public CountTable(
            int maximumCounts,
            InstantSource clock,
            Function<Claim, C> factory,
            ToDoubleFunction<C> share,
            Consumer<C> onEviction) {
        if (maximumCounts < SMALLEST) {
            throw new IllegalArgumentException("maximumCounts " + maximumCounts
                    + " is less than one decision may need: expected " + SMALLEST + " or more, for example 100_000");
        }
        this.clock = Checks.present(clock, "clock", "InstantSource.system()");
        this.factory = factory;
        this.share = share;
        this.onEviction = onEviction;
        this.cache = Caffeine.newBuilder()
                .maximumSize(maximumCounts)
                .evictionListener((@Nullable Object handle, @Nullable C count, RemovalCause cause) -> {
                    if (count != null) {
                        evicted(count);
                    }
                })
                .executor(Runnable::run)
                .build();
        this.withoutUse = cache.policy();
        this.period = Math.max(1, maximumCounts / PERIODS);
        this.denied = new DeniedCounts<>(Math.max(SMALLEST, maximumCounts / PROTECTED_PART), this::unprotected);
    }

    private void evicted(C count) {
        if (count.evict()) {
            synchronized (count) {
                onEviction.accept(count);
            }
        }
    }

    private void unprotected(Object handle, C count) {
        arrivals.incrementAndGet();
        C other = cache.asMap().put(handle, count);
        if (other != null && other != count) {
            evicted(other);
        }
    }

    /**
     * Takes the cost of claims if all of them fit.
     *
     * @param claims the claims
     * @return decides on subscription, on the thread that requests
     */
    public Mono<StoreDecision> take(List<Claim> claims) {
        return LocalDecisionMono.of(this, claims, true);
    }

    /**
     * Decides like {@link #take}, and takes nothing.
     *
     * @param claims the claims
     * @return decides on subscription, on the thread that requests
     */
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return LocalDecisionMono.of(this, claims, false);
    }

    /**
     * Leases permits, as {@link io.github.spillgate.spi.StoreRequest.Mode#LEASE} describes.
     *
     * @param claim the claim, on a log or a token bucket
     * @param parts the number of parts
     * @return decides on subscription
     */
    public Mono<StoreDecision> lease(Claim claim, int parts) {
        return Mono.fromSupplier(() -> {
            // Before the permits are taken, so that the lease ends early rather than late.
            long now = clock.millis();
            return apply(claim, true, count -> {
                Claim leased = claim.withPermits(count.lease(claim.permits(), parts));
                Reply reply = reply(now);
                return StoreDecision.ofLease(
                        reply, StoreUsage.of(reply, leased, count.used(), false, now, count.wholeAt()));
            });
        });
    }

    /**
     * Returns the present time.
     *
     * @return the time, in milliseconds
     */
    public long now() {
        return clock.millis();
    }

    /**
     * Changes the count of a claim, if there is one.
     *
     * @param claim the claim
     * @param change gets the count, under its monitor and at the present time
     */
    public void update(Claim claim, Consumer<? super C> change) {
        apply(claim, false, count -> {
            change.accept(count);
            return true;
        });
    }

    /**
     * Calls a function with the count of a claim.
     *
     * @param <T> the type of the result
     * @param claim the claim
     * @param create whether to create the count if there is none
     * @param function gets the count, under its monitor and at the present time
     * @return the result; null if there is no count
     */
    public <T> @Nullable T apply(Claim claim, boolean create, Function<? super C, T> function) {
        for (int attempt = 1; ; attempt++) {
            C count = find(claim, create);
            if (count == null) {
                return null;
            }
            synchronized (count) {
                if (!count.isEvicted() || attempt == ATTEMPTS) {
                    count.advance(claim, clock.millis());
                    return function.apply(count);
                }
            }
        }
    }

    /**
     * Begins an epoch. Its number is the stamp of decisions from now on. Called under the monitor of a count, it
     * separates later decisions on that count from earlier ones, which have a lower stamp.
     *
     * @return the number
     */
    public long nextEpoch() {
        return epochs.incrementAndGet();
    }

    /**
     * Resets the count of a claim.
     *
     * @param claim the claim
     */
    public void reset(Claim claim) {
        update(claim, count -> count.reset(nextEpoch()));
    }

    /**
     * Protects the count of a denied claim from eviction, if there is room.
     *
     * @param claim the claim
     * @param until the time at which no permits of the count are in use any more, in milliseconds
     */
    public void protect(Claim claim, long until) {
        C count = find(claim, false);
        if (count != null) {
            denied.keep(claim.handle(), count, until, clock.millis());
        }
    }

    /** Decides now. */
    StoreDecision decide(List<Claim> claims, boolean charging) {
        return claims.size() == 1 ? decideOne(claims.get(0), charging) : decideAll(claims, charging);
    }

    /**
     * Does what {@link #decideAll} does for a single claim, the most frequent case, without the work that only several
     * claims need.
     */
    private StoreDecision decideOne(Claim claim, boolean charging) {
        for (int attempt = 1; ; attempt++) {
            C count = findOrCreate(claim, charging);
            StoreDecision decision;
            synchronized (count) {
                if (count.isEvicted() && attempt < ATTEMPTS) {
                    continue;
                }
                long now = clock.millis();
                long ofOthers = advance(claim, count, now);
                boolean fits = count.fits(claim.permits() + ofOthers);
                Reply reply = reply(now);
                decision = decision(
                        charging, reply, List.of(decideOn(claim, count, ofOthers, fits, fits, false, charging, reply)));
            }
            protectIfViolated(claim, count, decision, 0);
            return decision;
        }
    }

    private StoreDecision decideAll(List<Claim> claims, boolean charging) {
        for (int attempt = 1; ; attempt++) {
            List<Entry<C>> entries = new ArrayList<>(claims.size());
            for (Claim claim : claims) {
                entries.add(new Entry<>(claim, findOrCreate(claim, charging)));
            }
            List<Entry<C>> ordered = new ArrayList<>(entries);
            ordered.sort(CountTable::order);
            StoreDecision decision =
                    lockFrom(0, ordered, attempt == ATTEMPTS, () -> decideLocked(claims, entries, charging));
            if (decision != null) {
                for (int i = 0; i < entries.size(); i++) {
                    protectIfViolated(entries.get(i).claim, entries.get(i).count, decision, i);
                }
                return decision;
            }
        }
    }

    @SuppressWarnings("unchecked") // the handles of claims are comparable with each other
    private static int order(Entry<?> one, Entry<?> other) {
        return ((Comparable<Object>) one.claim.handle()).compareTo(other.claim.handle());
    }

    private C findOrCreate(Claim claim, boolean charging) {
        C count = find(claim, charging);
        return count == null ? factory.apply(claim) : count;
    }

    private @Nullable C find(Claim claim, boolean create) {
        Object handle = claim.handle();
        C kept = denied.get(handle);
        if (kept != null) {
            return kept;
        }
        C count = withoutUse.getIfPresentQuietly(handle);
        if (count != null && count.isUseDue((int) (arrivals.get() / period), USES)) {
            count = cache.getIfPresent(handle);
        }
        if (count == null && create) {
            arrivals.incrementAndGet();
            count = cache.get(handle, absent -> factory.apply(claim));
        }
        C moved = denied.get(handle);
        return moved == null ? count : moved;
    }

    private void protectIfViolated(Claim claim, C count, StoreDecision decision, int i) {
        StoreUsage usage = decision.usages().get(i);
        boolean isBanned = !usage.limit().takesPermits() && usage.used() > 0;
        if (usage.isViolated() || isBanned) {
            long until = usage.wholeAtMillis();
            denied.keep(claim.handle(), count, until, decision.reply().at());
        }
    }

    /** Locks the counts from i on and decides; returns null if one of them is evicted, unless it insists. */
    private static <C extends Count> @Nullable StoreDecision lockFrom(
            int i, List<Entry<C>> entries, boolean insist, Supplier<StoreDecision> decide) {
        if (i == entries.size()) {
            return decide.get();
        }
        C count = entries.get(i).count;
        synchronized (count) {
            return count.isEvicted() && !insist ? null : lockFrom(i + 1, entries, insist, decide);
        }
    }

    private StoreDecision decideLocked(List<Claim> claims, List<Entry<C>> entries, boolean charging) {
        long now = clock.millis();
        boolean allowed = true;
        boolean[] fits = new boolean[entries.size()];
        long[] ofOthers = new long[fits.length];
        for (int i = 0; i < fits.length; i++) {
            Claim claim = entries.get(i).claim;
            C count = entries.get(i).count;
            ofOthers[i] = advance(claim, count, now);
            fits[i] = count.fits(claim.permits() + ofOthers[i]);
            allowed &= fits[i];
        }
        Reply reply = reply(now);
        List<StoreUsage> usages = new ArrayList<>(fits.length);
        for (int i = 0; i < fits.length; i++) {
            Claim claim = entries.get(i).claim;
            Count count = entries.get(i).count;
            boolean isStruck = Count.isStruck(claim, claims, fits);
            usages.add(decideOn(claim, count, ofOthers[i], fits[i], allowed, isStruck, charging, reply));
        }
        return decision(charging, reply, usages);
    }

    /** Moves a count to the present time, and returns how many permits of its limit are not for this process. */
    private long advance(Claim claim, C count, long now) {
        count.advance(claim, now);
        return ofOthers(claim.limit(), share.applyAsDouble(count));
    }

    /**
     * Returns how many of a limit's permits are not for this process. Its share is at least one permit.
     *
     * @param limit the limit
     * @param share the share of this process
     * @return the number of permits; they are added to the cost that a count is asked for
     */
    public static long ofOthers(Limit limit, double share) {
        return share == 1 ? 0 : limit.capacity() - Math.max(1, (long) Math.floor(limit.capacity() * share));
    }

    /** Charges a claim unless it is only peeked at, and returns the usage afterwards. */
    private static StoreUsage decideOn(
            Claim claim,
            Count count,
            long ofOthers,
            boolean fits,
            boolean allowed,
            boolean isStruck,
            boolean charging,
            Reply reply) {
        if (charging) {
            count.decide(claim, allowed, isStruck);
        }
        long now = reply.at();
        long fitsAt = allowed ? now : fitsAt(claim.limit(), count, claim.permits() + ofOthers, now);
        long whole = count.wholeAt();
        StoreUsage here =
                new StoreUsage(reply, claim, count.used(), !fits, fitsAt, whole, 0, count.period(), false, null);
        return ofOthers == 0
                ? here
                : new StoreUsage(reply, claim, here.used() + ofOthers, !fits, fitsAt, whole, 0, null, false, here);
    }

    private static long fitsAt(Limit limit, Count count, long cost, long now) {
        return cost > limit.capacity() ? now + RETRY : count.fitsAt(cost);
    }

    /** Must run under the monitors of the counts, so that only a later reset has a newer stamp. */
    private Reply reply(long now) {
        long epoch = epochs.get();
        Reply known = lastReply;
        if (known.at() != now || known.stamp() != epoch) {
            known = new Reply(Source.LOCAL, now, epoch);
            lastReply = known;
        }
        return known;
    }

    private static StoreDecision decision(boolean charging, Reply reply, List<StoreUsage> usages) {
        return charging ? StoreDecision.ofTake(reply, usages) : StoreDecision.ofPeek(reply, usages);
    }

    /** Returns the counts that are not protected. */
    Cache<Object, C> cache() {
        return cache;
    }

    /** Returns the protected counts. */
    DeniedCounts<C> denied() {
        return denied;
    }

    private record Entry<C extends Count>(Claim claim, C count) {}
}
