package io.github.spillgate;

import java.util.List;
import reactor.core.publisher.Mono;

/**
 * What decides on claims: Redis, this process, or a store that wraps another.
 *
 * <p>Every method is lazy: nothing happens before the subscription, and each subscription is one attempt. None blocks the
 * thread that subscribes. Where a method is cancelled before its claims have left for the count, nothing has been charged;
 * later it may have been. A store that cannot answer signals a {@link LimitStoreException}; a denial is a value.
 *
 * <p>Whoever writes a store of his own finds what it must keep in the contract test of the test-jar,
 * {@code io.github.spillgate.testkit.LimitStoreContract}.
 */
public interface LimitStore {

    /**
     * Takes what all the claims ask, or nothing. A denied verdict leaves every count as it was, except that limits which
     * {@linkplain Limit#countingDenied() count denied} requests record it.
     *
     * @param claims at least one, no two with the same identity, none asking more than its limit's permits
     * @return the decision, with a usage for each claim, in their order
     */
    Mono<Decision> take(List<Claim> claims);

    /**
     * Tells what {@link #take(List)} would answer, and charges nothing.
     *
     * @param claims as in {@link #take(List)}
     * @return the decision that is not made, with a usage for each claim, in their order
     */
    Mono<Decision> peek(List<Claim> claims);

    /**
     * Gives back exactly what an allowed decision of this store took, where it is still within the window.
     *
     * @param decision one that {@link Decision#isCharged() has been charged}
     * @return empty, when it is given back
     */
    Mono<Void> refund(Decision decision);

    /**
     * Gives back so many permits of each claim as were recorded, the oldest first.
     *
     * @param claims no two with the same identity
     * @return empty, when they are given back
     */
    Mono<Void> refund(List<Claim> claims);

    /**
     * Forgets everything that is recorded under the identities of the claims.
     *
     * @param claims no two with the same identity
     * @return empty, when it is forgotten
     */
    Mono<Void> reset(List<Claim> claims);
}
