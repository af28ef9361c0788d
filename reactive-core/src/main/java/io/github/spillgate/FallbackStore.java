package io.github.spillgate;

import java.util.List;
import java.util.function.Predicate;

/**
 * A store that decides while another store, the main store, does not answer. It remembers the last replies of the main
 * store, and what it has granted on behalf of that store. {@code LocalStore} is one; implement this interface to keep
 * that state elsewhere.
 *
 * <p>All methods work in memory and return at once. {@link #take} decides on the remembered usage plus the permits
 * granted here. {@link #refund(Decision)} with a decision of the main store subtracts its permits from the remembered
 * usage.
 */
public interface FallbackStore extends LimitStore {

    /**
     * The result of {@link #remember}: whether permits that the main store granted fit into the limit together with
     * permits that were granted here and are not yet charged there.
     */
    enum Fit {
        /** Both fit into the limit, whatever the main store knows. */
        YES,

        /**
         * Both fit only if the main store has already charged the settlements that were handed over; their result is
         * not known yet.
         */
        IF_SETTLED,

        /** They do not fit together: to allow the request would over-admit. */
        NO
    }

    /**
     * Makes this store the fallback of a main store: from now on, permits granted by {@link #take} are kept for
     * reconciliation.
     *
     * @param store the main store, which decides while it can
     * @throws IllegalArgumentException if this store already is the fallback of a store
     */
    void standInFor(LimitStore store);

    /**
     * Remembers the reply of the main store: the used permits of each limit, and the time at which all are available
     * again. {@link #take} uses them from then on. The result takes into account what was granted here before, so of
     * two concurrent grants by both stores, the later one knows of the earlier one. Call this method before passing on
     * an allowed decision of the main store, and pass it on only if it fits. The method may be called again with the
     * same decision.
     *
     * @param decision a decision of the main store
     * @return whether it fits under all limits; always {@link Fit#YES} for a decision that charged nothing
     */
    Fit remember(Decision decision);

    /**
     * Reverts the permits that a decision of this store took, as far as they are not handed over for reconciliation.
     *
     * @param decision a decision of this store
     * @return a claim for each count of which some permits could not be reverted, because they were handed over;
     *     without permits that no longer count
     */
    List<Claim> takeBack(Decision decision);

    /**
     * Refunds permits that this store granted and has not handed over, the oldest first.
     *
     * @param claims the permits to refund of each count
     * @return a claim for each count with the permits that could not be refunded here
     */
    List<Claim> refundGranted(List<Claim> claims);

    /**
     * Cancels the permits that a decision of this store took, because the main store has charged the same request after
     * all.
     *
     * @param decision a decision of this store of which nothing has been handed over
     * @return a claim for each count of which some permits could not be cancelled, because a refund without a decision
     *     has already refunded them here; they must be refunded in the main store too
     */
    List<Claim> cancel(Decision decision);

    /**
     * Returns whether permits were granted under these identities that are not yet handed over. The main store must not
     * decide on these counts before it receives them, because it would grant permits that are already used. They are
     * handed over before all others.
     *
     * @param claims the claims to decide
     * @return true if this store must still decide on the claims
     */
    boolean owes(List<Claim> claims);

    /**
     * Hands over settlements for the main store. Their permits count here until {@link #settled} reports the result,
     * and nothing else of the same count is handed over before that.
     *
     * @param most the maximum number of counts
     * @param left selects the counts to skip for now, by a claim on each count
     * @return the settlements; empty if there is nothing to hand over
     */
    List<Settlement> toSettle(int most, Predicate<Claim> left);

    /**
     * Reports the result of a settlement.
     *
     * @param settlement a settlement that was handed over
     * @param charged whether the main store has charged it; if not, its permits that still count are lost
     */
    void settled(Settlement settlement, boolean charged);
}
