package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.RemovalCause;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.LimitStore;
import io.github.spillgate.Source;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
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
 * forgotten, and starts empty when it is seen again: bounded memory means that a flood of keys can wash out others. A counter
 * takes about 200 bytes; a log takes 16 more for each entry, of which it has as many as permits, or as slots in a window, and
 * never more than {@link io.github.spillgate.Limit#MOST_LOG_ENTRIES}.
 */
public final class LocalStore implements LimitStore {
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

    /** No verdict has more claims, so a store of that size can remember all the counts of one. */
    private static final int SMALLEST = 16;

    private static final int LOOKS = 16;

    private final Cache<String, Count> counts;
    private final InstantSource clock;

    private LocalStore(int maximumCounts, InstantSource clock) {
        this.clock = clock;
        this.counts = Caffeine.newBuilder()
                .maximumSize(maximumCounts)
                .evictionListener((@Nullable String identity, @Nullable Count count, RemovalCause cause) -> {
                    if (count != null) {
                        count.retire();
                    }
                })
                .executor(Runnable::run)
                .build();
    }

    /**
     * A store that remembers so many counts, on the system's clock.
     *
     * @param maximumCounts at least 16
     * @return the store
     * @throws IllegalArgumentException if it is less
     */
    public static LocalStore bounded(int maximumCounts) {
        return bounded(maximumCounts, InstantSource.system());
    }

    /**
     * A store that remembers so many counts.
     *
     * @param maximumCounts at least 16
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

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, true));
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return Mono.fromCallable(() -> decide(claims, false));
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        long takenAt = decision.at().toEpochMilli();
        return Mono.fromRunnable(() -> {
            for (Usage usage : decision.limits()) {
                Claim claim = usage.claim();
                change(claim, count -> count.refund(claim.limit(), takenAt, claim.permits()));
            }
        });
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                change(claim, count -> count.refundOldest(claim.permits()));
            }
        });
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return Mono.fromRunnable(() -> {
            for (Claim claim : claims) {
                change(claim, Count::clear);
            }
        });
    }

    private Decision decide(List<Claim> claims, boolean charging) {
        for (int look = 1; ; look++) {
            List<Held> held = new ArrayList<>(claims.size());
            for (Claim claim : claims) {
                held.add(new Held(claim, count(claim, charging)));
            }
            Decision decision = lockFrom(0, inOrder(held), look == LOOKS, () -> decideLocked(held, charging));
            if (decision != null) {
                return decision;
            }
        }
    }

    private Count count(Claim claim, boolean create) {
        Count count = create
                ? counts.get(claim.identity(), identity -> Count.of(claim.limit()))
                : counts.getIfPresent(claim.identity());
        return count == null ? Count.of(claim.limit()) : count;
    }

    private static List<Held> inOrder(List<Held> held) {
        if (held.size() == 1) {
            return held;
        }
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
        boolean allowed = true;
        boolean[] fits = new boolean[held.size()];
        for (int i = 0; i < fits.length; i++) {
            Held one = held.get(i);
            one.count.look(one.claim.limit(), now);
            fits[i] = one.count.fits(one.claim.limit(), one.claim.permits());
            allowed &= fits[i];
        }
        List<Usage> usages = new ArrayList<>(fits.length);
        for (int i = 0; i < fits.length; i++) {
            Claim claim = held.get(i).claim;
            Count count = held.get(i).count;
            if (charging && claim.permits() > 0) {
                if (allowed) {
                    count.take(claim.permits());
                } else if (claim.limit().isCountingDenied()) {
                    count.recordDenied(claim.limit(), claim.permits());
                }
            }
            usages.add(count.usage(claim, !fits[i], !allowed));
        }
        return charging ? Decision.ofTake(Source.LOCAL, now, usages) : Decision.ofPeek(Source.LOCAL, now, usages);
    }

    private void change(Claim claim, Consumer<Count> change) {
        Count count = counts.getIfPresent(claim.identity());
        if (count != null) {
            // A retired count has been forgotten, and nothing has to be changed in it.
            synchronized (count) {
                count.look(claim.limit(), clock.millis());
                change.accept(count);
            }
        }
    }

    /** What is remembered, for tests to look at. */
    Cache<String, Count> counts() {
        return counts;
    }

    /** Returns the store for a log. */
    @Override
    public String toString() {
        return "LocalStore";
    }

    private record Held(Claim claim, Count count) {}

    @FunctionalInterface
    private interface Deciding {
        Decision decide();
    }
}
