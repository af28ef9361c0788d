package io.github.spillgate;

import io.github.spillgate.internal.Checks;
import java.util.Optional;

/**
 * The state of a store: which store decides now, the circuit breaker, reconciliation, and the last problem. For health
 * checks and metrics; contains no keys.
 *
 * <p>All numbers except {@code toReconcile} are since the start. Permits are counted once for each limit from which
 * they were taken.
 *
 * @param source the place where decisions are made now: the most likely source of the next one
 * @param breaker the state of the circuit breaker; the worst one if the nodes of the store have breakers of their own
 * @param isFallbackActive whether the fallback decides instead of the store, or instead of a part of it such as a node
 *     of a cluster: true while the breaker is not closed, and also while it is closed if only the fallback has decided
 *     for 500 ms
 * @param problem the problem of the last request to the store, a sentence for the operator; empty if the store has
 *     answered since
 * @param fallbacks the number of requests that the fallback has answered
 * @param missedDeadlines the number of these that the fallback has answered because the store missed their deadline
 *     while the circuit breaker was closed. If it grows, the store or the network is slow, or this process lacks CPU
 *     time
 * @param toReconcile the number of permits that the fallback has granted and that are still to be charged in the store.
 *     Permits that leave their window before that are subtracted when it is their turn
 * @param reconciled the number of permits that were charged in the store after it was back
 * @param lost the number of permits that the fallback has granted and that will not be charged in the store, because
 *     their counts were evicted or the store cannot charge them
 * @param unknown the number of permits that the fallback granted after the store was asked for them and did not answer.
 *     They are reconciled; if the store had already charged them, they are charged twice
 * @param lostSettlements the number of {@linkplain RateLimiter#settle(Decision, long) settled} costs that could not be
 *     delivered to the store, because it did not answer for 50 s, too many were waiting, or it refused them. Each limit
 *     of a decision counts as one
 * @param leases the use of {@linkplain Limit#leased() leases}
 */
public record StoreState(
        Source source,
        Breaker breaker,
        boolean isFallbackActive,
        Optional<String> problem,
        long fallbacks,
        long missedDeadlines,
        long toReconcile,
        long reconciled,
        long lost,
        long unknown,
        long lostSettlements,
        LeaseStatistics leases) {

    /**
     * Creates a state.
     *
     * @param source see {@link #source()}
     * @param breaker see {@link #breaker()}
     * @param isFallbackActive see {@link #isFallbackActive()}
     * @param problem see {@link #problem()}
     * @param fallbacks see {@link #fallbacks()}
     * @param missedDeadlines see {@link #missedDeadlines()}
     * @param toReconcile see {@link #toReconcile()}
     * @param reconciled see {@link #reconciled()}
     * @param lost see {@link #lost()}
     * @param unknown see {@link #unknown()}
     * @param lostSettlements see {@link #lostSettlements()}
     * @param leases see {@link #leases()}
     * @throws NullPointerException if a value is null
     */
    public StoreState {
        Checks.present(source, "source", "Source.OTHER");
        Checks.present(breaker, "breaker", "Breaker.NONE");
        Checks.present(problem, "problem", "Optional.empty()");
        Checks.some(leases, "leases", "LeaseStatistics.NONE");
    }

    /** The state of the circuit breaker: whether the store is asked. */
    public enum Breaker {
        /** There is no circuit breaker; the store is always asked. */
        NONE,

        /** The store is asked. */
        CLOSED,

        /** The store has failed, and a few requests probe it. No caller waits for a probe. */
        HALF_OPEN,

        /** The store does not answer and is not asked. */
        OPEN
    }

    /**
     * Returns the state of a store without a circuit breaker and without known problems.
     *
     * @param source the place where the store decides
     * @return the state
     */
    public static StoreState of(Source source) {
        return ofFallback(source, 0, 0, 0);
    }

    /**
     * Returns the state of a fallback that reconciles what it grants.
     *
     * @param source the place where it decides
     * @param toReconcile see {@link #toReconcile()}
     * @param reconciled see {@link #reconciled()}
     * @param lost see {@link #lost()}
     * @return the state
     */
    public static StoreState ofFallback(Source source, long toReconcile, long reconciled, long lost) {
        return new StoreState(
                source,
                Breaker.NONE,
                false,
                Optional.empty(),
                0,
                0,
                toReconcile,
                reconciled,
                lost,
                0,
                0,
                LeaseStatistics.NONE);
    }

    /**
     * The use of {@linkplain Limit#leased() leases} since the start.
     *
     * @param decisions the decisions that were made with leased permits, without asking the store
     * @param blocks the number of leases
     * @param permits the permits that were leased
     * @param refunded the permits of these that were not spent
     * @param denied the permits of logs that the store denied while permits were leased, by this instance or, as far as
     *     replies show it, by others: rarely if slots are longer than the lease time
     */
    public record LeaseStatistics(long decisions, long blocks, long permits, long refunded, long denied) {

        /** No leases. */
        public static final LeaseStatistics NONE = new LeaseStatistics(0, 0, 0, 0, 0);
    }
}
