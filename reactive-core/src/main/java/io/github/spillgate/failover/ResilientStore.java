package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.AsyncCloseable;
import io.github.spillgate.StoreState;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.failover.lease.Leases;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * A store with a deadline, a circuit breaker and a fallback around another store.
 *
 * <p>A {@code RateLimiter} wraps a Redis store in one by default. Create one yourself to share it between limiters, so
 * that one Redis has one breaker, or for settings that the limiter's builder does not have.
 *
 * <pre>{@code
 * ResilientStore store = ResilientStore.builder(RedisStore.create(redisClient))
 *         .fallback(Fallback.local(100_000).share(0.25))
 *         .deadline(Duration.ofMillis(50))
 *         .build();
 * }</pre>
 *
 * <h2>What happens if the store does not answer</h2>
 *
 * <ul>
 *   <li><b>Deadline.</b> If a request is not answered by the deadline, the fallback decides. It decides at once if the
 *       store reports an error, if too many requests are in flight, or if the breaker is open.
 *   <li><b>Circuit breaker.</b> It opens if half of the last 20 requests have failed, and at least 10 were made; and
 *       at once if the store cannot be reached. About 1 s later, three requests probe the store. The fallback answers
 *       them at once, unless it is {@link Fallback#error()}; then, and for refunds and resets, the caller waits for
 *       the store. If the probes succeed, the store decides again. A deadline that was missed because this process
 *       stalled is not a failure of the store, if the store answers soon after. If a store has parts that fail
 *       independently, such as the nodes of a cluster, each part has its own breaker and is reconciled separately.
 *   <li><b>Reconciliation.</b> A local fallback starts from the last known usage of each count, and
 *       records what it grants. These grants are charged in the store when it is back: in small batches, and only
 *       once, even if a reply is lost. Until the grants of a count are sent, the fallback keeps deciding on it;
 *       otherwise the store would grant permits that are already used.
 *   <li><b>Grants on both sides.</b> If the store allows a request by the deadline, that is compared with the
 *       fallback's grants that the store does not know of yet. If the two do not fit into the limit together, the
 *       fallback decides, and the charge in the store is refunded. An instance with a share of 1 therefore never
 *       exceeds the limit, whichever of the two decides.
 *   <li><b>Lost replies.</b> A request that was sent but not answered may have been executed. If its reply arrives
 *       within a minute, it is taken into account. Otherwise the request counts as not charged, and its permits are
 *       charged by reconciliation.
 * </ul>
 *
 * <p>A refund that does not reach the store is not retried: this errs towards denying. A reset that does not reach the
 * store by the deadline is in effect in this process only, until the store decides again.
 */
public final class ResilientStore implements LimitStore, AsyncCloseable {

    /** The longest time of a setting, and the time for which late replies are accepted. */
    private static final Duration LONGEST = Duration.ofMinutes(1);

    private static final Duration BETWEEN_PROBES = Duration.ofSeconds(1);

    private final Failover failover;
    private final CountChanges changes;
    private final Disposable probes;
    private final Mono<Void> closing =
            Mono.defer(this::end).publishOn(Schedulers.parallel()).cache();

    private ResilientStore(Builder builder) {
        LimitStore primary = builder.primary;
        LimitStore fallback = builder.fallback == null ? Fallback.local(Builder.COUNTS) : builder.fallback;
        long deadlineNanos = builder.deadline.toNanos();
        CircuitGates gates = new CircuitGates(primary, fallback, builder.maxInFlight, deadlineNanos, builder.breaker);
        DenialCache denials = new DenialCache(builder.cacheDenials);
        LocalGrants grants = new LocalGrants(primary, fallback, gates, denials);
        failover = new Failover(
                primary,
                fallback,
                deadlineNanos,
                gates,
                grants,
                denials,
                new Leases(primary, grants),
                new Deadlines(deadlineNanos),
                new Deadlines(LONGEST.toNanos()),
                new Failover.FallbackCounts());
        changes = new CountChanges(failover);
        gates.onAvailable(node -> {
            grants.nodeIsBack(node);
            changes.settlements().nodeIsBack(node);
        });
        // So that a wrong setting is reported at startup, and the first request does not wait for a connection.
        Mono.defer(() -> primary.prepare(""))
                .subscribe(null, error -> gates.whole().recordFailure(0, error));
        probes = Background.scheduler()
                .schedulePeriodically(
                        () -> gates.probeIdle(grants::isReconciled),
                        BETWEEN_PROBES.toMillis(),
                        BETWEEN_PROBES.toMillis(),
                        TimeUnit.MILLISECONDS);
    }

    /**
     * Returns a resilient store with the default settings.
     *
     * @param store the primary store, which decides while it can
     * @return the resilient store
     */
    public static ResilientStore of(LimitStore store) {
        return builder(store).build();
    }

    /**
     * Returns a builder of a resilient store.
     *
     * @param store the primary store, which decides while it can
     * @return the builder
     * @throws IllegalArgumentException if that store has a deadline of its own
     */
    public static Builder builder(LimitStore store) {
        return new Builder(store);
    }

    /** {@inheritDoc} This store has a deadline of its own, and leases by itself. */
    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        return switch (request.mode()) {
            case PEEK -> StoreCall.of(failover, request.claims(), StoreOperation.PEEK);
            case TAKE -> StoreCall.of(failover, request.claims(), StoreOperation.TAKE);
            case LEASE -> Mono.empty();
        };
    }

    /**
     * {@inheritDoc}
     *
     * <p><b>Refunds of the oldest permits.</b> The store knows which these are only when the local grants of their
     * counts are reconciled. The refund waits for that, up to the deadline. After the deadline, it refunds local grants
     * first, and the rest in the store. During an outage the fallback makes the refund.
     *
     * <p><b>Settlements</b> complete at the deadline. One that is not delivered by then is retried in the background
     * until its own deadline; 10,000 may wait. What the fallback has decided is settled in its ledgers, and so is an
     * additional cost during an outage. Never an error of the store: what cannot be delivered is {@linkplain
     * StoreState#lostSettlements() counted}.
     */
    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return changes.correct(corrections);
    }

    /** {@inheritDoc} During an outage the fallback renews; permits are released in the primary store later. */
    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return action == HoldAction.RENEW
                ? changes.renew(holds)
                : changes.release(holds).then(Mono.just(HoldRenewal.released(holds)));
    }

    /** {@inheritDoc} This store has a deadline of its own. */
    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return changes.reset(claims);
    }

    /** Returns the node of the primary store. */
    @Override
    public String node(List<Claim> claims) {
        return failover.primary().node(claims);
    }

    /** {@inheritDoc} It is that of the primary store. */
    @Override
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return failover.primary().exchange(request);
    }

    @Override
    public LimitStore origin() {
        return failover.primary().origin();
    }

    /** Prepares the primary store. */
    @Override
    public Mono<Void> prepare(String node) {
        return failover.primary().prepare(node).publishOn(Schedulers.parallel());
    }

    /** Returns the deadline, the longest time for an answer, as far as it depends on the store. */
    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ofNanos(failover.deadlineNanos()));
    }

    @Override
    public StoreState state() {
        CircuitGates gates = failover.gates();
        StoreState local = failover.fallback().state();
        StoreState deciding = gates.isAnyDeciding() ? failover.primary().state() : local;
        return new StoreState(
                deciding.source(),
                gates.state(),
                gates.isAnyFallenBack(),
                Optional.ofNullable(gates.problem()),
                failover.fallbacks().all(),
                failover.fallbacks().missedDeadlines(),
                local.toReconcile(),
                local.reconciled(),
                local.lost() + failover.grants().lost(),
                failover.grants().unknown(),
                changes.settlements().lost(),
                failover.leases().state());
    }

    /** {@inheritDoc} Makes a last attempt to reconcile, for at most 1 s. Closes neither of the two stores. */
    @Override
    public Mono<Void> closeLater() {
        return closing;
    }

    private Mono<Void> end() {
        probes.dispose();
        failover.leases().close();
        return Mono.when(failover.grants().end(), changes.settlements().end());
    }

    /** Returns what calls share, for tests. */
    Failover failover() {
        return failover;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "ResilientStore[" + failover.primary() + ", fallback=" + failover.fallback() + "]";
    }

    /** Builder of a {@link ResilientStore}. Not thread-safe. */
    public static final class Builder {

        private static final int COUNTS = 100_000;
        private static final int MOST_IN_FLIGHT = 1_000_000;

        private final LimitStore primary;
        private @Nullable LimitStore fallback;
        private Duration deadline = Duration.ofMillis(100);
        private Duration cacheDenials = Duration.ofSeconds(1);
        private int maxInFlight = 10_000;
        private UnaryOperator<CircuitBreakerConfig.Builder> breaker = UnaryOperator.identity();

        private Builder(LimitStore primary) {
            this.primary = Checks.present(primary, "store", "RedisStore.create(redisClient)");
            if (primary.deadline().isPresent()) {
                throw new IllegalArgumentException("store " + primary
                        + " has a deadline of its own: expected one without, for example"
                        + " RedisStore.create(redisClient)");
            }
        }

        /**
         * Sets the store that decides if the primary store does not; {@code Fallback.local(100_000)} by default.
         *
         * @param fallback {@link Fallback#local(int)}, which can then be the fallback of this store only; {@link
         *     Fallback#allow()} (fail open), {@link Fallback#deny()} (fail closed) or {@link Fallback#error()}; or a
         *     store of your own that never stalls
         * @return this builder
         */
        public Builder fallback(LimitStore fallback) {
            Checks.present(fallback, "fallback", "Fallback.local(100_000)");
            if (fallback instanceof LocalStore) {
                throw new IllegalArgumentException("fallback " + fallback
                        + " would forget what it has granted: expected one that reconciles its grants, for example"
                        + " Fallback.local(100_000)");
            }
            this.fallback = fallback;
            return this;
        }

        /**
         * Sets the longest time to wait for an answer of the store; 100 ms by default.
         *
         * @param deadline at least 1 ms, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if the deadline is out of range
         */
        public Builder deadline(Duration deadline) {
            this.deadline = Checks.deadline(Checks.present(deadline, "deadline", "Duration.ofMillis(100)"));
            return this;
        }

        /**
         * Sets the longest time for which a denial by the store is cached; 1 s by default. See {@link
         * io.github.spillgate.RateLimiterBuilder#cacheDenials(Duration)}.
         *
         * @param longest zero, which disables the cache, or more, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if the time is out of range
         */
        public Builder cacheDenials(Duration longest) {
            this.cacheDenials = Checks.cacheDenials(Checks.present(longest, "cacheDenials", "Duration.ofSeconds(1)"));
            return this;
        }

        /**
         * Bounds the requests to the store that are in flight; 10,000 by default. If there are more, the fallback
         * decides. A request is in flight until the store has answered it, whether its caller is still waiting or not.
         * In a cluster the bound applies to each node.
         *
         * @param maxInFlight the highest number of requests in flight, 1 to 1,000,000
         * @return this builder
         * @throws IllegalArgumentException if the number is out of range
         */
        public Builder maxInFlight(int maxInFlight) {
            if (maxInFlight < 1 || maxInFlight > MOST_IN_FLIGHT) {
                throw new IllegalArgumentException("maxInFlight " + maxInFlight + " is out of range: expected 1 to "
                        + MOST_IN_FLIGHT + ", for example 10_000");
            }
            this.maxInFlight = maxInFlight;
            return this;
        }

        /**
         * Changes the settings of the circuit breaker. The defaults are: a count-based window of 20 requests, of which
         * at least 10 must have ended; a failure rate of 50%; open for 1 s, give or take 30%; then 3 probes.
         *
         * @param change a function that changes the settings, for example {@code settings ->
         *     settings.failureRateThreshold(25)}
         * @return this builder
         */
        public Builder breaker(UnaryOperator<CircuitBreakerConfig.Builder> change) {
            this.breaker = Checks.present(change, "change", "settings -> settings.failureRateThreshold(25)");
            return this;
        }

        /**
         * Returns the store, and makes the primary store connect in the background.
         *
         * @return the resilient store
         * @throws IllegalArgumentException if the fallback is a local one that is already the fallback of another
         *     store
         */
        public ResilientStore build() {
            return new ResilientStore(this);
        }
    }
}
