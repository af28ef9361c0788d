package io.github.spillgate.internal.holding;

import io.github.spillgate.Limit;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/** Translates the real cost of a decision into settlements for the store. */
public final class Settlements {

    /** How long a settlement may be retried: less than the 60 s for which Redis keeps its id. */
    static final Duration HORIZON = Duration.ofSeconds(50);

    private static final double MOST_DEBT = 10;

    /** Unique to this process, by chance; with a number it is an id that no other process uses. */
    private static final String PROCESS =
            Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36)
                    + Long.toString(ThreadLocalRandom.current().nextLong() >>> 1, 36);

    private static final AtomicLong IDS = new AtomicLong();

    /** The highest debt, as a multiple of each limit. */
    private final double debt;

    /**
     * Creates settlements.
     *
     * @param debt the highest debt, as a multiple of each limit
     */
    public Settlements(double debt) {
        this.debt = debt;
    }

    /** Returns an id that no other correction of a call has, in any process. */
    static String nextId() {
        return PROCESS + "-" + IDS.incrementAndGet();
    }

    /** Returns the debt, if it is in range. */
    public static double checkDebt(double debt) {
        if (!(debt >= 0 && debt <= MOST_DEBT)) {
            throw new IllegalArgumentException(
                    "debt " + debt + " is out of range: expected 0 to 10 times each limit, for example 1");
        }
        return debt;
    }

    /**
     * Returns a settlement for each usage with another cost than was charged.
     *
     * @param costs the real costs, by the handles of the claims
     */
    public List<Settlement> of(Redemption redeemed, Map<Object, Long> costs) {
        List<Settlement> settlements = new ArrayList<>();
        String id = nextId();
        long deadline = Time.nanos() + HORIZON.toNanos();
        for (StoreUsage usage : redeemed.usages()) {
            Claim claim = usage.claim();
            long cost = Objects.requireNonNull(costs.get(claim.handle()), "each claim has a cost");
            if (cost != usage.cost()) {
                settlements.add(new Settlement(
                        id, claim, usage.inStore(), redeemed.fallbacks(), cost, mostUsed(usage.limit()), deadline));
            }
        }
        return settlements;
    }

    /** Returns how many permits may be in use after a settlement, within what each kind of count can hold. */
    private long mostUsed(Limit limit) {
        return Math.min(limit.capacity() + (long) (limit.capacity() * debt), LimitKind.mostRecorded(limit));
    }
}
