package io.github.spillgate;

import io.github.spillgate.internal.Checks;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The state of a store: which store decides now, the circuit breaker, reconciliation, and the last problem. For health
 * checks and metrics; contains no keys.
 *
 * <p>Permits are counted once for each limit from which they were taken.
 */
public final class StoreState {

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

    private final Source source;
    private final Breaker breaker;
    private final boolean fallbackActive;
    private final @Nullable String problem;
    private final long fallbacks;
    private final long missedDeadlines;
    private final long toReconcile;
    private final long reconciled;
    private final long lost;
    private final long unknown;
    private final long lostSettlements;
    private final LeaseStatistics leases;

    /**
     * Creates a state without lost settlements and without leases.
     *
     * @param source see {@link #source()}
     * @param breaker see {@link #breaker()}
     * @param fallbackActive see {@link #isFallbackActive()}
     * @param problem see {@link #problem()}; null if there is none
     * @param fallbacks see {@link #fallbacks()}
     * @param missedDeadlines see {@link #missedDeadlines()}
     * @param toReconcile see {@link #toReconcile()}
     * @param reconciled see {@link #reconciled()}
     * @param lost see {@link #lost()}
     * @param unknown see {@link #unknown()}
     */
    public StoreState(
            Source source,
            Breaker breaker,
            boolean fallbackActive,
            @Nullable String problem,
            long fallbacks,
            long missedDeadlines,
            long toReconcile,
            long reconciled,
            long lost,
            long unknown) {
        this.source = Checks.present(source, "source", "Source.OTHER");
        this.breaker = Checks.present(breaker, "breaker", "Breaker.NONE");
        this.fallbackActive = fallbackActive;
        this.problem = problem;
        this.fallbacks = fallbacks;
        this.missedDeadlines = missedDeadlines;
        this.toReconcile = toReconcile;
        this.reconciled = reconciled;
        this.lost = lost;
        this.unknown = unknown;
        this.lostSettlements = 0;
        this.leases = LeaseStatistics.NONE;
    }

    /** Creates a copy with the values that the public constructor does not have. */
    private StoreState(StoreState state, long lostSettlements, LeaseStatistics leases) {
        this.source = state.source;
        this.breaker = state.breaker;
        this.fallbackActive = state.fallbackActive;
        this.problem = state.problem;
        this.fallbacks = state.fallbacks;
        this.missedDeadlines = state.missedDeadlines;
        this.toReconcile = state.toReconcile;
        this.reconciled = state.reconciled;
        this.lost = state.lost;
        this.unknown = state.unknown;
        this.lostSettlements = lostSettlements;
        this.leases = leases;
    }

    /**
     * Returns the state of a store without a circuit breaker and without known problems.
     *
     * @param source the place where the store decides
     * @return the state
     */
    public static StoreState of(Source source) {
        return new StoreState(source, Breaker.NONE, false, null, 0, 0, 0, 0, 0, 0);
    }

    /**
     * Returns a copy with a number of lost settlements.
     *
     * @param lostSettlements see {@link #lostSettlements()}
     * @return the state
     */
    public StoreState withLostSettlements(long lostSettlements) {
        return new StoreState(this, lostSettlements, leases);
    }

    /**
     * Returns a copy with the use of leases.
     *
     * @param leases see {@link #leases()}
     * @return the state
     */
    public StoreState withLeases(LeaseStatistics leases) {
        return new StoreState(this, lostSettlements, Checks.some(leases, "leases", "LeaseStatistics.NONE"));
    }

    /**
     * Returns the place where decisions are made now.
     *
     * @return the most likely source of the next decision
     */
    public Source source() {
        return source;
    }

    /**
     * Returns the state of the circuit breaker.
     *
     * @return the state; the worst one if the nodes of the store have breakers of their own
     */
    public Breaker breaker() {
        return breaker;
    }

    /**
     * Returns whether the fallback decides instead of the store, or instead of a part of it such as a node of a
     * cluster.
     *
     * @return true while the breaker is not closed, and also while it is closed if only the fallback has decided for
     *     500 ms
     */
    public boolean isFallbackActive() {
        return fallbackActive;
    }

    /**
     * Returns the problem of the last request to the store.
     *
     * @return a sentence for the operator; empty if the store has answered since
     */
    public Optional<String> problem() {
        return Optional.ofNullable(problem);
    }

    /**
     * Returns the number of requests that the fallback has answered since the start.
     *
     * @return the number of requests
     */
    public long fallbacks() {
        return fallbacks;
    }

    /**
     * Returns the number of requests that the fallback has answered because the store missed their deadline while the
     * circuit breaker was closed. If it grows, the store or the network is slow, or this process lacks CPU time.
     *
     * @return the number of requests, since the start; a part of {@link #fallbacks()}
     */
    public long missedDeadlines() {
        return missedDeadlines;
    }

    /**
     * Returns the number of permits that the fallback has granted and that are still to be charged in the store.
     * Permits that leave their window before that are subtracted when it is their turn.
     *
     * @return the number of permits
     */
    public long toReconcile() {
        return toReconcile;
    }

    /**
     * Returns the number of permits that were charged in the store after it was back, since the start.
     *
     * @return the number of permits
     */
    public long reconciled() {
        return reconciled;
    }

    /**
     * Returns the number of permits that the fallback has granted and that will not be charged in the store, because
     * their counts were evicted or the store cannot charge them.
     *
     * @return the number of permits, since the start
     */
    public long lost() {
        return lost;
    }

    /**
     * Returns the number of permits that the fallback granted after the store was asked for them and did not answer.
     * They are reconciled; if the store had already charged them, they are charged twice.
     *
     * @return the number of permits, since the start
     */
    public long unknown() {
        return unknown;
    }

    /**
     * Returns the number of {@linkplain RateLimiter#settle(Decision, long) settled} costs that could not be delivered
     * to the store, because it did not answer for 50 s, too many were waiting, or it refused them. Each limit of a
     * decision counts as one.
     *
     * @return the number of settlements, since the start
     */
    public long lostSettlements() {
        return lostSettlements;
    }

    /**
     * Returns the use of {@linkplain Limit#leased() leases}.
     *
     * @return the numbers, since the start
     */
    public LeaseStatistics leases() {
        return leases;
    }

    /** Returns the state for log messages. */
    @Override
    public String toString() {
        return "StoreState[source=" + source + ", breaker=" + breaker + ", fallbackActive=" + fallbackActive
                + ", problem=" + problem + ", fallbacks=" + fallbacks + ", missedDeadlines=" + missedDeadlines
                + ", toReconcile=" + toReconcile + ", reconciled=" + reconciled + ", lost=" + lost + ", unknown="
                + unknown + ", lostSettlements=" + lostSettlements + ", leases=" + leases + "]";
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
