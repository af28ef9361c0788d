package io.github.spillgate;

import java.util.List;
import java.util.function.Predicate;

/**
 * A store that can stand in for another while that does not answer: it remembers what that one has said last, and what it has
 * admitted in its place. The {@code LocalStore} is one; whoever wants to keep that memory somewhere else writes another.
 *
 * <p>All of this is in memory and returns at once. {@link #take} decides by what is remembered together with what was admitted
 * here; {@link #refund(Decision)} of a decision that the other store has made takes it off what is remembered.
 */
public interface FallbackStore extends LimitStore {

    /** Whether what the other store has allowed fits together with what was admitted here and that one has not been charged with. */
    enum Fit {
        /** The two fit into the limit, whatever the other store knows. */
        YES,

        /** They do if the other store has been charged with what was handed over, of which nothing has been heard yet. */
        IF_SETTLED,

        /** They do not: whoever were told that he is allowed would be one too many. */
        NO
    }

    /**
     * Begins to stand in for a store: from now on, what {@link #take} admits is kept to be settled.
     *
     * @param store the one that decides as long as it can
     * @throws IllegalArgumentException if this one stands in for a store already
     */
    void standInFor(LimitStore store);

    /**
     * Remembers what the other store has said: how much of each limit was used, and when that is whole again. From then on {@link
     * #take} takes it into account; and what was admitted here before is taken into account by the answer of this method, so that of
     * the two who have decided apart, one knows of the other. Whoever hands on what the other store has allowed does so only after this,
     * and if it fits. It may be asked once more about the same decision.
     *
     * @param decision one that the other store has made
     * @return whether it fits under every limit; of a decision that has charged nothing always {@link Fit#YES}
     */
    Fit remember(Decision decision);

    /**
     * Takes back what a decision of this store has taken, where it has not been settled.
     *
     * @param decision one that this store has made
     * @return a claim for each count of which not all could be taken back, because the rest has been given to be settled; what
     *     does not count any more is not among them
     */
    List<Claim> takeBack(Decision decision);

    /**
     * Gives back permits that this store has granted and not handed over, the oldest first.
     *
     * @param claims how many of each count
     * @return a claim for each count with what could not be given back here
     */
    List<Claim> refundGranted(List<Claim> claims);

    /**
     * Cancels what a decision of this store has taken, because the other store has charged the same after all.
     *
     * @param decision one that this store has made, of which nothing has been handed over
     * @return a claim for each count of which not all could be cancelled, because it was given back here without naming a
     *     decision: it has to be given back there too
     */
    List<Claim> cancel(Decision decision);

    /**
     * Returns whether something was admitted under these identities that has not been handed over yet. The other store must not
     * decide on them before it has been told: it would grant what is used already. They are handed over before all others.
     *
     * @param claims what is to be decided
     * @return whether it is still this store that knows best
     */
    boolean owes(List<Claim> claims);

    /**
     * Hands over what is to be settled. What is handed over goes on counting here until {@link #settled} says what has become of
     * it, and nothing more of that count is handed over before.
     *
     * @param most how many counts at most
     * @param left tells, of one claim on it, which counts are to be left alone for now
     * @return the settlements; empty if there is nothing to hand over
     */
    List<Settlement> toSettle(int most, Predicate<Claim> left);

    /**
     * Hears what has become of a settlement.
     *
     * @param settlement one that was handed over
     * @param charged whether the other store knows of it now; if not, what still counts of it is lost
     */
    void settled(Settlement settlement, boolean charged);
}
