package io.github.spillgate;

import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Who is deciding, how well, and what is wrong, if something is. For health checks and metrics; there are no keys in it.
 *
 * <p>Permits are counted once for each limit that they were taken from.
 */
public final class StoreState {

    /** Whether the store is asked. */
    public enum Breaker {
        /** There is none: the store is always asked. */
        NONE,

        /** The store is asked. */
        CLOSED,

        /** The store did not answer well; it is asked now and then, and nobody waits for that. */
        HALF_OPEN,

        /** The store does not answer, and is not asked. */
        OPEN
    }

    private final Source source;
    private final Breaker breaker;
    private final boolean fallbackActive;
    private final @Nullable String problem;
    private final long fallbacks;
    private final long toReconcile;
    private final long reconciled;
    private final long lost;
    private final long unknown;

    private StoreState(
            Source source,
            Breaker breaker,
            boolean fallbackActive,
            @Nullable String problem,
            long fallbacks,
            long toReconcile,
            long reconciled,
            long lost,
            long unknown) {
        this.source = source;
        this.breaker = breaker;
        this.fallbackActive = fallbackActive;
        this.problem = problem;
        this.fallbacks = fallbacks;
        this.toReconcile = toReconcile;
        this.reconciled = reconciled;
        this.lost = lost;
        this.unknown = unknown;
    }

    /**
     * The state of a store that decides by itself, for all it knows.
     *
     * @param source where it decides
     * @return a state in which nothing is wrong
     */
    public static StoreState of(Source source) {
        return new StoreState(
                Objects.requireNonNull(source, "source is null: expected one, for example Source.OTHER"),
                Breaker.NONE,
                false,
                null,
                0,
                0,
                0,
                0,
                0);
    }

    /**
     * The same state behind a breaker.
     *
     * @param breaker whether the store is asked
     * @param fallbackActive see {@link #isFallbackActive()}
     * @param problem what stood in the way when the store was asked last; null if nothing did
     * @param fallbacks see {@link #fallbacks()}
     * @return a state
     */
    public StoreState behind(Breaker breaker, boolean fallbackActive, @Nullable String problem, long fallbacks) {
        return new StoreState(
                source, breaker, fallbackActive, problem, fallbacks, toReconcile, reconciled, lost, unknown);
    }

    /**
     * The same state of a store that settles.
     *
     * @param toReconcile see {@link #toReconcile()}
     * @param reconciled see {@link #reconciled()}
     * @param lost see {@link #lost()}
     * @param unknown see {@link #unknown()}
     * @return a state
     */
    public StoreState reconciling(long toReconcile, long reconciled, long lost, long unknown) {
        return new StoreState(
                source, breaker, fallbackActive, problem, fallbacks, toReconcile, reconciled, lost, unknown);
    }

    /**
     * Returns where decisions are made now.
     *
     * @return the source of the next decision, most likely
     */
    public Source source() {
        return source;
    }

    /**
     * Returns whether the store is asked.
     *
     * @return the state of the breaker
     */
    public Breaker breaker() {
        return breaker;
    }

    /**
     * Returns whether the fallback decides in place of the store, or of a part of it, such as a node of a cluster.
     *
     * @return true while the breaker is not closed, and also while it is closed if only the fallback has decided for half a second
     */
    public boolean isFallbackActive() {
        return fallbackActive;
    }

    /**
     * Returns what stood in the way when the store was asked last.
     *
     * @return a sentence for the operator; empty if the store has answered since
     */
    public Optional<String> problem() {
        return Optional.ofNullable(problem);
    }

    /**
     * Returns how many questions were answered in place of the store, from the start.
     *
     * @return the number
     */
    public long fallbacks() {
        return fallbacks;
    }

    /**
     * Returns how many permits were granted in place of the store, and wait to be charged there. What has left its window
     * meanwhile is taken off when its turn comes.
     *
     * @return the permits
     */
    public long toReconcile() {
        return toReconcile;
    }

    /**
     * Returns how many permits have been charged in the store after it came back, from the start.
     *
     * @return the permits
     */
    public long reconciled() {
        return reconciled;
    }

    /**
     * Returns how many permits were granted in place of the store, and will not be charged there: they were forgotten for want
     * of memory, or the store cannot charge them.
     *
     * @return the permits, from the start
     */
    public long lost() {
        return lost;
    }

    /**
     * Returns how many permits were granted in place of the store after it had been asked for them and had not answered. They
     * are reconciled; if the store had charged them, it has them twice.
     *
     * @return the permits, from the start
     */
    public long unknown() {
        return unknown;
    }

    /** Returns the state for a log. */
    @Override
    public String toString() {
        return "StoreState[source=" + source + ", breaker=" + breaker + ", fallbackActive=" + fallbackActive
                + ", problem=" + problem + ", fallbacks="
                + fallbacks + ", toReconcile=" + toReconcile + ", reconciled=" + reconciled + ", lost=" + lost
                + ", unknown="
                + unknown + "]";
    }
}
