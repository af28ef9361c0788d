package io.github.spillgate.spi;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import reactor.core.publisher.Mono;

/**
 * A store that decides on claims: Redis, this process, or a store that wraps another one.
 *
 * <p>All methods are lazy: nothing happens before the subscription, and each subscription is one attempt. No method
 * blocks the subscribing thread. If a subscriber cancels before the claims are sent, nothing has been charged; after
 * that, they may have been charged. A store that cannot decide signals a {@link LimitStoreException}; a denial is a
 * value.
 *
 * <p>A store that needs the Reactor Context of the subscriber must read it on subscription. A {@link
 * io.github.spillgate.failover.ResilientStore} drops its reference to a caller, and so to its Context, when the caller
 * has a result or cancels. It still waits for the reply of its primary store, which then finds an empty Context.
 *
 * <p>A store that wraps another one must also delegate the methods with a default implementation; otherwise these
 * features of the wrapped store are lost. It passes on the decisions of the wrapped store as they are: a decision notes
 * whether a fallback has made it, and what of it is refunded.
 *
 * <p>To test a store of your own, extend {@code io.github.spillgate.testkit.LimitStoreContract}, the tests of what this
 * interface promises. They are in this artifact with the classifier {@code contract}.
 */
public interface LimitStore {

    /**
     * The Reactor Context key under which a store finds the time since when the caller has waited for the decision, if
     * that is before the call of the store. The value is a {@link Long}, in nanoseconds of {@code
     * Schedulers.parallel()}. A store with a deadline measures it from this time.
     */
    String WAITING_SINCE = "io.github.spillgate.waitingSince";

    /**
     * Takes the permits of all claims, or none. A denial leaves all counts unchanged, except that limits which
     * {@linkplain Limit#countingDenied() count denied} requests record it.
     *
     * <p>If the subscriber cancels, and permits of a {@linkplain io.github.spillgate.Algorithm#CONCURRENT concurrency
     * limit} are taken all the same, the store releases them.
     *
     * @param claims at least one claim, no two with the same identity, none with a cost above its limit's permits
     * @return the decision, with a usage for each claim, in their order; a {@linkplain Source#CACHED_DENIAL cached
     *     denial} may omit some
     */
    Mono<StoreDecision> take(List<Claim> claims);

    /**
     * Takes like {@link #take(List)}, but only until a deadline. A store that receives the request later takes nothing,
     * because the caller may have been answered by a fallback by then.
     *
     * <p>By default the deadline is ignored: a late decision is then refunded or reconciled if its reply arrives within
     * a minute, and until then it may deny other requests.
     *
     * @param claims the claims, as in {@link #take(List)}
     * @param deadline the last moment at which the store may take, in nanoseconds of {@code Schedulers.parallel()}
     * @return the decision, as in {@link #take(List)}; a {@link LimitStoreDeadlineException} if the deadline had
     *     passed, and nothing was taken
     */
    default Mono<StoreDecision> take(List<Claim> claims, long deadline) {
        return take(claims);
    }

    /**
     * Returns the decision that {@link #take(List)} would make, and charges nothing.
     *
     * @param claims the claims, as in {@link #take(List)}
     * @return the decision, with a usage for each claim, in their order
     */
    Mono<StoreDecision> peek(List<Claim> claims);

    /**
     * Takes permits in advance, which this instance spends without asking the store: as many as the claim asks for, but
     * at most one part of those that are left. They are charged as if they were taken at the end of the limit's
     * {@linkplain Limit#leaseTime() lease time}, and may be spent until then.
     *
     * @param claim a claim on a {@linkplain Limit#leased() leased} limit, for the most permits to take
     * @param parts the number of parts, at least one
     * @param deadline the last moment at which the store may take, as in {@link #take(List, long)}
     * @return a decision of {@link StoreDecision#ofLease}; empty, by default, if this store does not lease
     */
    default Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        return Mono.empty();
    }

    /**
     * Refunds exactly the permits that an allowed decision of this store took, if they are still within the window and
     * were not reset. Releases those of concurrency limits. Never refunds permits that were taken after the reset. A
     * store may use a {@linkplain StoreDecision#stamp() stamp} to distinguish the two.
     *
     * @param decision a decision that {@linkplain StoreDecision#isCharged() was charged}
     * @return completes when the permits are refunded
     */
    Mono<Void> refund(StoreDecision decision);

    /**
     * Refunds permits of each claim's count, the oldest first, at most as many as are recorded. Does nothing for
     * concurrency limits, because it is not known which of the holds has ended.
     *
     * @param claims the claims with the permits to refund, no two with the same identity
     * @return completes when the permits are refunded
     */
    Mono<Void> refund(List<Claim> claims);

    /**
     * Refunds permits that this store has charged on behalf of another store, the oldest of each count first. Never
     * refunds permits of a count that was reset after the charge, or permits that may have left the window: it would
     * remove permits that were taken later.
     *
     * @param permits the permits to refund, no two with the same identity
     * @return completes when the permits are refunded; by default {@link #refund(List)}, for a store without stamps
     */
    default Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return refund(permits.stream().map(ChargedPermits::claim).toList());
    }

    /**
     * Clears all counts of the claims' identities.
     *
     * @param claims the claims, no two with the same identity
     * @return completes when the counts are cleared
     */
    Mono<Void> reset(List<Claim> claims);

    /**
     * Clears counts like {@link #reset(List)}, but only until a deadline. A store that receives the request later
     * clears nothing: the caller believes that the counts are cleared, and permits may have been taken since.
     *
     * <p>By default the deadline is ignored: a late reset may clear permits that were taken after it, so that more are
     * granted than the limit allows.
     *
     * @param claims the claims, as in {@link #reset(List)}
     * @param deadline the last moment at which the store may clear counts, in nanoseconds of {@code
     *     Schedulers.parallel()}
     * @return completes when the counts are cleared; a {@link LimitStoreDeadlineException} if the deadline had passed
     */
    default Mono<Void> reset(List<Claim> claims, long deadline) {
        return reset(claims);
    }

    /**
     * Charges what another store granted on behalf of this one, at the times of the grants, and even above the limit.
     * Permits that no longer count are not charged. Idempotent: a reconciliation that is sent twice is charged once.
     * Reconciliations are independent: one that cannot be charged does not prevent the others.
     *
     * @param reconciliations the reconciliations, no two with the same identity
     * @return the usage of each count afterwards, in the order of the reconciliations, without those that cannot be
     *     charged now, which are sent again while they count; {@linkplain StoreDecision#parts() a part} with a stamp
     *     has only those that were charged now; empty, by default, if this store cannot reconcile
     */
    default Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return Mono.empty();
    }

    /**
     * Replaces the costs that decisions of this store have charged with the real ones: refunds what was not used, like
     * {@link #refund(StoreDecision)}, and charges now what was used in addition, even above the limit, up to {@link
     * Settlement#most()}. Has no effect on a count that was reset after the decision.
     *
     * <p>Settlements are independent of each other. If a reply of this store can be lost, a settlement that is sent
     * twice must take effect once: the store keeps its id for longer than until its {@link Settlement#deadline()},
     * after which it has no effect.
     *
     * @param settlements the settlements, each with other permits to refund or to charge; several may be on one count
     * @return the usage of each count afterwards, in the order of the settlements, without those that cannot take
     *     effect; charged if the claims have the permits that the store has certainly charged now; empty if the store
     *     does not report it; by default an {@link UnsupportedOperationException}
     */
    default Mono<StoreDecision> settle(List<Settlement> settlements) {
        return Mono.error(() -> new UnsupportedOperationException(
                this + " cannot settle costs: expected a store that implements settle, for example LocalStore"));
    }

    /**
     * Releases permits of concurrency limits. Idempotent. If a claim that took them arrives later than this, it takes
     * nothing.
     *
     * @param holds the claims, with the {@linkplain Claim#holdId() id} under which they took the permits
     * @return completes when the permits are released; by default an error, for a store without concurrency limits
     */
    default Mono<Void> release(List<Claim> holds) {
        return Mono.error(() -> withoutHolds(holds));
    }

    /**
     * Renews permits of concurrency limits: they are held for another hold time. If the store does not know them, they
     * are held again, even above the limit. Idempotent.
     *
     * @param holds the claims, with the {@linkplain Claim#holdId() id} under which they took the permits, and with at
     *     least one permit each
     * @return what was done with each of them, in any order; by default an error, for a store without concurrency
     *     limits
     */
    default Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return Mono.error(() -> withoutHolds(holds));
    }

    private LimitStoreException withoutHolds(List<Claim> holds) {
        return new LimitStoreException(
                "store " + this + " has no concurrency limits: expected one that has, for example a RedisStore, for "
                        + holds,
                null);
    }

    /**
     * Notes that a limiter in this process uses the store. A {@link RateLimiter} calls this when it is created.
     *
     * @param limiter the name of the limiter; limiters of the same name in other processes share its counts
     */
    default void use(String limiter) {}

    /**
     * Restores permits that this store had confirmed and has lost, with its data: raises the count to them, unless it
     * was reset since, or permits were refunded without their decision. Idempotent, and harmless if other processes
     * restore the same permits.
     *
     * @param permits the permits
     * @return the usage of the count when that is done, with a stamp if any permits were restored; empty, by default,
     *     for a store that loses nothing
     */
    default Mono<StoreDecision> restore(LostPermits permits) {
        return Mono.empty();
    }

    /**
     * Registers an instance of a limiter for a while, and counts the registered ones in all processes. The registration
     * replaces an earlier one of the same instance.
     *
     * @param limiter the name of the limiter
     * @param instance the instance, unique among all processes
     * @param lifetime how long the registration lasts, up to a minute; zero removes it
     * @return the number of instances, this one included; empty, by default, if the store cannot count them
     */
    default Mono<Integer> register(String limiter, UUID instance, Duration lifetime) {
        return Mono.empty();
    }

    /**
     * Prepares what the first request would otherwise wait for, such as a connection. It is also called, every second,
     * to find out whether the store is available again if no requests come: so it should ask the store each time.
     *
     * @return completes when the store is prepared; an error if it cannot be, which the first request would get too;
     *     {@code Mono.empty()}, by default, if there is nothing to prepare. Then only requests find out whether the
     *     store is available again
     */
    default Mono<Void> prepare() {
        return Mono.empty();
    }

    /**
     * Prepares what the first request to a node of the store would otherwise wait for.
     *
     * @param node the name of the node, as returned by {@link #node}; empty for the store as a whole
     * @return completes, on any thread, when the node is prepared; an error if it cannot be; {@link #prepare()} by
     *     default
     */
    default Mono<Void> prepare(String node) {
        return prepare();
    }

    /**
     * Returns the node that decides on these claims, for a store with nodes that fail independently, such as a cluster.
     * Each node then has its own circuit breaker. Called often, so it must return at once.
     *
     * @param claims the claims to decide; empty for the store as a whole
     * @return the name of the node, for logs; by default the empty string, for a store without nodes
     */
    default String node(List<Claim> claims) {
        return "";
    }

    /**
     * Returns the longest time for an answer, if the store guarantees one whatever fails. For a store without such a
     * guarantee, a {@link RateLimiter} adds a deadline and a fallback.
     *
     * @return the deadline; zero for a store that decides in memory; empty by default
     */
    default Optional<Duration> deadline() {
        return Optional.empty();
    }

    /**
     * Returns the state of the store: what decides now, and what is wrong.
     *
     * @return the current state
     */
    default StoreState state() {
        return StoreState.of(Source.OTHER);
    }
}
