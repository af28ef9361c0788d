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

    private final Source decides;
    private final Breaker breaker;
    private final boolean fallenBack;
    private final @Nullable String problem;
    private final long fellBack;
    private final long toSettle;
    private final long settled;
    private final long lost;
    private final long unknown;

    private StoreState(
            Source decides,
            Breaker breaker,
            boolean fallenBack,
            @Nullable String problem,
            long fellBack,
            long toSettle,
            long settled,
            long lost,
            long unknown) {
        this.decides = decides;
        this.breaker = breaker;
        this.fallenBack = fallenBack;
        this.problem = problem;
        this.fellBack = fellBack;
        this.toSettle = toSettle;
        this.settled = settled;
        this.lost = lost;
        this.unknown = unknown;
    }

    /**
     * The state of a store that decides by itself, for all it knows.
     *
     * @param decides where it decides
     * @return a state in which nothing is wrong
     */
    public static StoreState of(Source decides) {
        return new StoreState(
                Objects.requireNonNull(decides, "decides is null: expected one, for example Source.OTHER"),
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
     * @param fallenBack see {@link #isFallenBack()}
     * @param problem what stood in the way when the store was asked last; null if nothing did
     * @param fellBack see {@link #fellBack()}
     * @return a state
     */
    public StoreState behind(Breaker breaker, boolean fallenBack, @Nullable String problem, long fellBack) {
        return new StoreState(decides, breaker, fallenBack, problem, fellBack, toSettle, settled, lost, unknown);
    }

    /**
     * The same state of a store that settles.
     *
     * @param toSettle see {@link #toSettle()}
     * @param settled see {@link #settled()}
     * @param lost see {@link #lost()}
     * @param unknown see {@link #unknown()}
     * @return a state
     */
    public StoreState settling(long toSettle, long settled, long lost, long unknown) {
        return new StoreState(decides, breaker, fallenBack, problem, fellBack, toSettle, settled, lost, unknown);
    }

    /**
     * Returns where decisions are made now.
     *
     * @return the source of the next decision, most likely
     */
    public Source decides() {
        return decides;
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
    public boolean isFallenBack() {
        return fallenBack;
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
    public long fellBack() {
        return fellBack;
    }

    /**
     * Returns how many permits were granted in place of the store, and wait to be charged there. What has left its window
     * meanwhile is taken off when its turn comes.
     *
     * @return the permits
     */
    public long toSettle() {
        return toSettle;
    }

    /**
     * Returns how many permits have been charged in the store after it came back, from the start.
     *
     * @return the permits
     */
    public long settled() {
        return settled;
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
     * are settled; if the store had charged them, it has them twice.
     *
     * @return the permits, from the start
     */
    public long unknown() {
        return unknown;
    }

    /** Returns the state for a log. */
    @Override
    public String toString() {
        return "StoreState[decides=" + decides + ", breaker=" + breaker + ", fallenBack=" + fallenBack
                + ", problem=" + problem + ", fellBack="
                + fellBack + ", toSettle=" + toSettle + ", settled=" + settled + ", lost=" + lost + ", unknown="
                + unknown + "]";
    }
}
