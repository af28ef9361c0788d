package io.github.spillgate;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * What decides on claims: Redis, this process, or a store that wraps another.
 *
 * <p>Every method is lazy: nothing happens before the subscription, and each subscription is one attempt. None blocks the
 * thread that subscribes. Where a method is cancelled before its claims have left for the count, nothing has been charged;
 * later it may have been. A store that cannot answer signals a {@link LimitStoreException}; a denial is a value.
 *
 * <p>A store that wraps another one hands on also what has a default here, or what the other can do is lost.
 *
 * <p>Whoever writes a store of his own finds what it must keep in the contract test of the test-jar,
 * {@code io.github.spillgate.testkit.LimitStoreContract}.
 */
public interface LimitStore {

    /**
     * Under this key the Reactor Context tells a store since when somebody has been waiting for this decision, where that is longer
     * than the store has been asked: a {@link Long}, nanoseconds of {@code Schedulers.parallel()}. A store with a deadline counts
     * it from there.
     */
    String WAITING_SINCE = "io.github.spillgate.waitingSince";

    /**
     * Takes what all the claims ask, or nothing. A denied verdict leaves every count as it was, except that limits which
     * {@linkplain Limit#countingDenied() count denied} requests record it.
     *
     * @param claims at least one, no two with the same identity, none asking more than its limit's permits
     * @return the decision, with a usage for each claim, in their order; a {@linkplain Source#CACHED_DENIAL cached denial} may leave some out
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
     * Gives back exactly what an allowed decision of this store took, where it is still within the window and no reset has
     * forgotten it; never what was taken after the reset. A store may tell the two apart by a {@linkplain Decision#stamp() stamp}.
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

    /**
     * Charges what another store has admitted in place of this one, each settlement at its time and even above the limit; what
     * does not count any more is not charged. A settlement that is sent twice is charged once. Each is for itself: one that
     * cannot be charged keeps none of the others from it.
     *
     * @param settlements no two with the same identity
     * @return how much of each count is used after it, in the order of the settlements and without those that cannot be charged;
     *     empty, as by default, where this store cannot do such a thing
     */
    default Mono<Decision> settle(List<Settlement> settlements) {
        return Mono.empty();
    }

    /**
     * Makes ready what the first question would have to wait for, such as a connection.
     *
     * @return empty, when it is done; an error, if it cannot be, which the first question would meet as well
     */
    default Mono<Void> prepare() {
        return Mono.empty();
    }

    /**
     * Makes ready what the first question to one part would have to wait for.
     *
     * @param part as {@link #part} names it
     * @return empty, when it is done; an error, if it cannot be; by default, as {@link #prepare()} of all
     */
    default Mono<Void> prepare(String part) {
        return prepare();
    }

    /**
     * Returns which part of the store decides on these claims, where it has parts that fail apart from each other, as the nodes of a
     * cluster do. A breaker in front of the store keeps them apart then. Is asked often, and answers at once.
     *
     * @param claims what is to be decided; if there are none, it is the store as a whole that is asked
     * @return the name of the part, for a log; by default always the empty one, because there are no parts
     */
    default String part(List<Claim> claims) {
        return "";
    }

    /**
     * Returns how long an answer takes at most, if that is certain, whatever breaks. A store that does not know is asked by a
     * {@link RateLimiter} with a deadline, and with another store to fall back on.
     *
     * @return the longest time; zero for a store that decides in memory; empty by default
     */
    default Optional<Duration> deadline() {
        return Optional.empty();
    }

    /**
     * Returns who is deciding, how well, and what is wrong, if something is.
     *
     * @return the state as it is now
     */
    default StoreState state() {
        return StoreState.of(Source.OTHER);
    }
}
