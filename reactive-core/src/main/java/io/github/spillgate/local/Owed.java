package io.github.spillgate.local;

import io.github.spillgate.Claim;
import io.github.spillgate.LimitStore;
import io.github.spillgate.Settlement;
import io.github.spillgate.Settlement.Hits;
import io.github.spillgate.StoreState;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * What a store has admitted in place of another, and owes to it. Every permit that is owed is in one of two places: in
 * the hits of a count, or in a settlement that was handed over and of which nothing has been heard; and it leaves them
 * as settled, lost, given back, or because it does not count any more. Methods that are given a count are called under
 * its monitor.
 */
final class Owed {

    private final AtomicReference<@Nullable LimitStore> creditor = new AtomicReference<>();
    private final Set<Count> owing = ConcurrentHashMap.newKeySet();
    private final Set<Count> urgent = ConcurrentHashMap.newKeySet();
    private final InstantSource clock;

    /** No two processes have the same, as far as chance goes; a count is all that has to be added to it. */
    private final String process = Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36)
            + Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36);

    private final AtomicLong settlements = new AtomicLong();
    private final AtomicLong toSettle = new AtomicLong();
    private final AtomicLong settled = new AtomicLong();
    private final AtomicLong lost = new AtomicLong();

    Owed(InstantSource clock) {
        this.clock = clock;
    }

    /** Says to whom it is owed; before that, nothing is. */
    void to(LimitStore store) {
        LimitStore before = creditor.compareAndExchange(
                null, Objects.requireNonNull(store, "store is null: expected one, for example a RedisStore"));
        if (before != null) {
            throw new IllegalArgumentException("this store stands in for " + before
                    + " already: expected another one, for example LocalStore.bounded(100_000), or one ResilientStore "
                    + "that"
                    + " several limiters share");
        }
    }

    /** Returns whether there is somebody to whom anything may be owed. */
    boolean isToAnother() {
        return creditor.get() != null;
    }

    void more(Count count, Claim claim, long permits) {
        if (!isToAnother() || permits == 0) {
            return;
        }
        if (count.isRetired()) {
            lost.addAndGet(permits);
            return;
        }
        toSettle.addAndGet(permits);
        if (count.carrying().owe(claim, permits)) {
            owing.add(count);
        }
    }

    void less(Count count, long permits) {
        toSettle.addAndGet(-count.carried().oweLess(permits));
    }

    void forgive(Count count) {
        less(count, Long.MAX_VALUE);
        isSettled(count);
    }

    boolean isNothing() {
        return toSettle.get() == 0;
    }

    /** Returns whether something is owed that has not been handed over, and makes it the next that is. */
    boolean isUrgent(Count count) {
        boolean owes = count.carried().owed() > 0;
        if (owes) {
            urgent.add(count);
        }
        return owes;
    }

    /** The count is forgotten, and with it what is owed. */
    void lose(Count count) {
        Claim claim = count.carried().owedBy();
        if (claim != null) {
            count.look(claim.limit(), clock.millis());
            lost.addAndGet(Math.min(count.carried().owed(), count.recorded()));
        }
        forgive(count);
    }

    List<Settlement> handOver(int most, Predicate<Claim> left) {
        List<Settlement> batch = new ArrayList<>(Math.min(most, owing.size()));
        handOver(urgent, most, left, batch);
        handOver(owing, most, left, batch);
        return batch;
    }

    private void handOver(Set<Count> from, int most, Predicate<Claim> left, List<Settlement> batch) {
        for (Iterator<Count> all = from.iterator(); all.hasNext() && batch.size() < most; ) {
            Count count = all.next();
            synchronized (count) {
                Settlement settlement = handOver(count, left);
                if (settlement != null) {
                    batch.add(settlement);
                }
            }
        }
    }

    private @Nullable Settlement handOver(Count count, Predicate<Claim> left) {
        Claim claim = count.carried().owedBy();
        if (claim == null || count.carried().isHandedOver() || left.test(claim)) {
            return null;
        }
        count.look(claim.limit(), clock.millis());
        long owes = count.carried().owed();
        List<Hits> hits = count.hits();
        if (hits.isEmpty()) {
            forgive(count);
            return null;
        }
        Settlement settlement = Settlement.of(process + "-" + settlements.incrementAndGet(), claim, hits, clock);
        toSettle.addAndGet(settlement.permits() - owes);
        count.carrying().handOver(settlement, count.wholeAt());
        count.clear();
        isSettled(count);
        return settlement;
    }

    private void isSettled(Count count) {
        owing.remove(count);
        urgent.remove(count);
    }

    void settled(Settlement settlement, boolean charged) {
        long permits = settlement.permits();
        toSettle.addAndGet(-permits);
        if (charged) {
            settled.addAndGet(permits);
        } else if (settlement.counts()) {
            lost.addAndGet(permits);
        }
    }

    StoreState tell(StoreState state) {
        return state.reconciling(toSettle.get(), settled.get(), lost.get(), 0);
    }
}
