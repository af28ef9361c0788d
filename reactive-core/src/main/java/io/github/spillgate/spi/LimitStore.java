package io.github.spillgate.spi;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * A store that decides on claims: Redis, this process, or a {@linkplain ForwardingLimitStore decorator} of another one.
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
 * <p>A decorator passes on decisions as they are, or a copy of one that says the same: a decision knows whether a
 * fallback has made it, and what of it was refunded.
 *
 * <p>A store on another database extends {@code io.github.spillgate.store.CompareAndWriteStore}, which implements all
 * of this.
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

    /** The deadline of a request without one. */
    long NO_DEADLINE = Long.MAX_VALUE;

    /**
     * Takes the permits of all claims, or none; or, by the {@linkplain StoreRequest.Mode mode} of the request, reads
     * only, or leases permits of one claim. A denial leaves all counts unchanged, except that limits which {@linkplain
     * Limit#countingDenied() count denied} requests record it, unless the request only reads.
     *
     * <p>A store that receives the request after its deadline takes nothing, because the caller may have been answered
     * by a fallback by then. A store may ignore the deadline: a late decision is then refunded or reconciled if its
     * reply arrives within a minute, and until then it may deny other requests.
     *
     * <p>If the subscriber cancels, and permits of a {@linkplain io.github.spillgate.Limit.Concurrent concurrency
     * limit} are taken all the same, the store releases them.
     *
     * @param request the request
     * @return the decision, with a usage for each claim, in their order; a {@linkplain Source#CACHED_DENIAL cached
     *     denial} may omit some. Empty for a lease, if this store does not lease. An error {@link
     *     LimitStoreException.Kind#LATE} if the deadline had passed, and nothing was taken
     */
    Mono<StoreDecision> take(StoreRequest request);

    /**
     * Applies changes that are decided already. They are independent: one that is not possible now does not prevent the
     * others; only a refund may fail its whole list. A list has at most one correction of each kind on a count, but any
     * number of settlements.
     *
     * <p>A store must apply a {@link Refund}, a {@link RefundOldest} and a {@link RefundCharged}. It may leave out the
     * others: their outcome is then {@link Corrected.CorrectionOutcome#UNSUPPORTED}.
     *
     * @param corrections the corrections
     * @return the outcome of each, in their order. After an error any of them may have been applied: {@link Correction}
     *     says which of them may be sent again
     */
    Mono<List<Corrected>> correct(List<? extends Correction> corrections);

    /**
     * Clears all counts of the claims' identities. A store that receives the request after its deadline clears nothing:
     * the caller believes that the counts are cleared, and permits may have been taken since. If a store ignores the
     * deadline, a late reset may clear permits that were taken after it, so that more are granted than the limit
     * allows.
     *
     * @param claims the claims, no two with the same identity
     * @param deadline the last moment at which the store may clear counts, in nanoseconds of {@code
     *     Schedulers.parallel()}; {@link #NO_DEADLINE} if there is none
     * @return completes when the counts are cleared; an error {@link LimitStoreException.Kind#LATE} if the deadline had
     *     passed
     */
    Mono<Void> reset(List<Claim> claims, long deadline);

    /**
     * Renews or releases permits of concurrency limits.
     *
     * @param holds the claims, with the {@linkplain Claim#holdId() id} under which they took the permits
     * @param action what is done with them
     * @return what was done with each of them, in any order; by default an error, for a store without concurrency
     *     limits
     */
    default Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return Mono.error(() -> new LimitStoreException(
                Kind.REJECTED,
                "store " + this + " has no concurrency limits: expected one that has, for example a RedisStore, for "
                        + holds));
    }

    /**
     * Registers a process for a while, counts those that have the same limiters, and keeps what is published for them.
     * Each process calls this every 5 s, so one call should be one request.
     *
     * <p>All of this is for the processes that share the counts of the store. It keeps at least 1,000 processes; if it
     * cannot keep one, it reports {@link FleetExchange#TOO_MANY} instances of each limiter until that is no longer
     * registered. A value is kept until its end, and for as long as one that it replaces: otherwise a process could
     * restore that. Of two values with one name, the one with the higher version is kept.
     *
     * @param request the process, and what it publishes
     * @return the reply; empty, by default, if the store cannot do this
     */
    default Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return Mono.empty();
    }

    /**
     * {@return the store that answers {@link #exchange}: the innermost one for a decorator, and by default this one}
     * All limiters of this process with the same one share its exchanges.
     */
    default LimitStore origin() {
        return this;
    }

    /**
     * Prepares what the first request to a node would otherwise wait for, such as a connection. It is also called,
     * every second, to find out whether the store is available again if no requests come: so it should ask the store
     * each time.
     *
     * @param node the name of the node, as returned by {@link #node}; empty for the store as a whole
     * @return completes, on any thread, when the node is prepared; an error if it cannot be, which the first request
     *     would get too; {@code Mono.empty()}, by default, if there is nothing to prepare. Then only requests find out
     *     whether the store is available again
     */
    default Mono<Void> prepare(String node) {
        return Mono.empty();
    }

    /**
     * {@return the name of the node that decides on these claims, for a store with nodes that fail independently, such
     * as a cluster; by default the empty string} Each node then has its own circuit breaker. Called often, so it must
     * return at once.
     *
     * @param claims the claims to decide; empty for the store as a whole
     */
    default String node(List<Claim> claims) {
        return "";
    }

    /**
     * {@return the longest time for an answer, if the store guarantees one whatever fails; zero for a store that
     * decides in memory; empty by default} For a store without such a guarantee, a {@code RateLimiter} adds a deadline
     * and a fallback.
     */
    default Optional<Duration> deadline() {
        return Optional.empty();
    }

    /** {@return the state of the store: what decides now, and what is wrong} */
    default StoreState state() {
        return StoreState.of(Source.OTHER);
    }
}
