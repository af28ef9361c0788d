package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * A store with replies that a test controls: it replies at once, after {@link #replyToAll()}, or fails. An operation
 * takes effect when it is requested, as in a Redis that hangs after it has read the command.
 */
final class ControlledStore implements LimitStore {

    private final LocalStore counts;
    private final List<Held<?>> held = new ArrayList<>();
    private final Set<String> reconciled = new HashSet<>();
    private final Map<String, Long> resets = new HashMap<>();
    private final InstantSource clock;
    private final List<List<Reconciliation>> batches = new ArrayList<>();
    private final Set<String> settled = new HashSet<>();
    private final List<List<Settlement>> settlementBatches = new ArrayList<>();
    private Function<Supplier<Mono<?>>, Mono<?>> behaviour = ControlledStore::atOnce;
    private boolean reconciles = true;
    private int calls;
    private int leases;
    private int refusals;

    /** The number of resets so far: the stamp of what is charged between two of them, as in a local store. */
    private long stamp;

    private UnaryOperator<Mono<StoreDecision>> reconcileReplies = UnaryOperator.identity();

    ControlledStore(InstantSource clock) {
        this.clock = clock;
        this.counts = LocalStore.bounded(10_000, clock);
    }

    void isAvailable() {
        behaviour = ControlledStore::atOnce;
    }

    /** Executes operations at once, and holds their replies until {@link #replyToAll()}. */
    void holdsReplies() {
        behaviour = this::hold;
    }

    /** Executes nothing, and never replies. */
    void neverReplies() {
        behaviour = ignored -> Mono.never();
    }

    /** Executes operations at once, and replies this much later. */
    void repliesAfter(Duration time) {
        behaviour = operation -> {
            Mono<?> done = operation.get().cache();
            done.subscribe(reply -> {}, error -> {});
            return Mono.delay(time).then(done);
        };
    }

    /** Executes nothing, and fails every operation. */
    void fails() {
        behaviour = ignored -> Mono.error(new LimitStoreUnavailableException("told to fail", null));
    }

    /** Completes every operation without a value. */
    void completesEmpty() {
        behaviour = ignored -> Mono.empty();
    }

    void failsWith(Throwable error) {
        behaviour = ignored -> Mono.error(error);
    }

    /** Executes nothing, and fails every operation this much later. */
    void failsAfter(Duration time, Throwable error) {
        behaviour = ignored -> Mono.delay(time).then(Mono.error(error));
    }

    void isUnreachable() {
        behaviour = ignored -> Mono.error(new LimitStoreUnreachableException("nothing listens there", null));
    }

    /** Executes operations, and fails them with this error. */
    void losesReplies(Throwable error) {
        behaviour = operation -> operation.get().then(Mono.error(error));
    }

    /** Changes the replies to reconciliations, whatever the other operations do. */
    void reconciles(UnaryOperator<Mono<StoreDecision>> how) {
        reconcileReplies = how;
    }

    /** Rejects the next batches of reconciliations; a retry would not help. */
    void refusesToReconcile(int batches) {
        refusals = batches;
    }

    void cannotReconcile() {
        reconciles = false;
    }

    /** Emits all replies that are held. */
    void replyToAll() {
        List<Held<?>> now = List.copyOf(held);
        held.clear();
        now.forEach(Held::reply);
    }

    /** Emits an error for every reply that is held. */
    void failAllHeld(Throwable error) {
        List<Held<?>> now = List.copyOf(held);
        held.clear();
        now.forEach(one -> one.sink.tryEmitError(error));
    }

    int held() {
        return held.size();
    }

    /** Returns the number of operations so far, reconciliations included. */
    int calls() {
        return calls;
    }

    List<List<Reconciliation>> batches() {
        return batches;
    }

    /** Returns a limiter on the counts of this store. */
    RateLimiter.Builder unprotected(String name) {
        return RateLimiter.builder(name).store(new Unprotected(counts));
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return call(() -> counts.take(claims).map(decision -> remade(decision, true)));
    }

    @Override
    public Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        return call(() -> {
            leases++;
            return counts.lease(claim, parts, deadline)
                    .map(lease -> StoreDecision.ofLease(
                            Source.OTHER,
                            lease.at().toEpochMilli(),
                            lease.stamp(),
                            lease.usages().get(0)));
        });
    }

    /** Returns the number of leases that were requested. */
    int leases() {
        return leases;
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return call(() -> counts.peek(claims).map(decision -> remade(decision, false)));
    }

    private static StoreDecision remade(StoreDecision decision, boolean taken) {
        long at = decision.at().toEpochMilli();
        return taken
                ? StoreDecision.ofTake(Source.OTHER, at, decision.stamp(), decision.usages())
                : StoreDecision.ofPeek(Source.OTHER, at, decision.usages());
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        long at = decision.at().toEpochMilli();
        return call(() -> Mono.when(decision.parts().stream()
                .map(part -> counts.refund(
                        part.chargedAt() == part.at().toEpochMilli()
                                ? StoreDecision.ofTake(Source.LOCAL, at, part.stamp(), part.usages())
                                : StoreDecision.ofLease(
                                        Source.LOCAL,
                                        part.at().toEpochMilli(),
                                        part.stamp(),
                                        part.usages().get(0))))
                .toList()));
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return call(() -> counts.refund(claims));
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return call(() -> counts.refund(permits.stream()
                .filter(one -> one.stamp() >= resets.getOrDefault(one.claim().identity(), 0L))
                .filter(one -> clock.millis() < one.until())
                .map(ChargedPermits::claim)
                .toList()));
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return call(() -> {
            claims.forEach(claim -> resets.put(claim.identity(), ++stamp));
            return counts.reset(claims);
        });
    }

    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return call(() -> {
            batches.add(reconciliations);
            if (!reconciles) {
                return Mono.<StoreDecision>empty();
            }
            if (refusals > 0) {
                refusals--;
                return Mono.<StoreDecision>error(new LimitStoreException("told to refuse", null));
            }
            return reconcileReplies.apply(Mono.defer(() -> charge(reconciliations)));
        });
    }

    private Mono<StoreDecision> charge(List<Reconciliation> reconciliations) {
        boolean allNew = true;
        for (Reconciliation one : reconciliations) {
            if (reconciled.add(one.id())) {
                charge(one);
            } else {
                allNew = false;
            }
        }
        long charged = allNew ? stamp : 0;
        return counts.peek(reconciliations.stream()
                        .map(one -> one.claim().asking(0))
                        .toList())
                .map(decision ->
                        StoreDecision.ofPeek(Source.OTHER, decision.at().toEpochMilli(), charged, decision.usages()));
    }

    /** Charges even above the limit: the count does not depend on the number of permits. */
    private void charge(Reconciliation one) {
        Limit limit = one.claim().limit();
        Limit higher = Limit.of(Math.max(limit.permits(), 10_000), limit.window());
        higher = switch (limit.algorithm()) {
            case LOG -> higher.resolution(limit.resolution());
            case COUNTER -> limit.isAlignedToClock() ? higher.counter().alignedToClock() : higher.counter();
            case BUCKET -> limit.burst(Math.max(limit.burst(), 3_000));
            case CONCURRENT -> throw new AssertionError("holds are renewed, and not reconciled");
        };
        Charge charge = Charge.of(one.claim().key(), higher).permits(one.permits());
        unprotected("api").build().tryAcquire(charge).block();
    }

    @Override
    public Mono<StoreDecision> settle(List<Settlement> settlements) {
        return call(() -> {
            settlementBatches.add(settlements);
            List<Settlement> first = settlements.stream()
                    .filter(one -> settled.add(one.id() + " " + one.claim().identity()))
                    .map(one -> new Settlement(
                            one.id(),
                            StoreDecision.ofTake(
                                    Source.LOCAL,
                                    one.decision().at().toEpochMilli(),
                                    one.decision().stamp(),
                                    one.decision().usages()),
                            one.claim(),
                            one.actual(),
                            one.most(),
                            one.deadline()))
                    .toList();
            return counts.settle(first)
                    .then(counts.peek(settlements.stream()
                            .map(one -> one.claim().asking(0))
                            .distinct()
                            .toList()))
                    .map(decision -> remade(decision, false));
        });
    }

    /** Returns the batches of settlements that were sent. */
    List<List<Settlement>> settlementBatches() {
        return settlementBatches;
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.OTHER);
    }

    @Override
    public String toString() {
        return "ControlledStore";
    }

    @SuppressWarnings("unchecked") // every behaviour returns a Mono of the type it was given
    private <T> Mono<T> call(Supplier<Mono<T>> operation) {
        return Mono.defer(() -> {
            calls++;
            return (Mono<T>) behaviour.apply(operation::get);
        });
    }

    private static Mono<?> atOnce(Supplier<Mono<?>> operation) {
        return operation.get();
    }

    private Mono<?> hold(Supplier<Mono<?>> operation) {
        return hold(operation.get());
    }

    private <T> Mono<T> hold(Mono<T> reply) {
        Mono<T> decided = reply.cache();
        decided.subscribe(done -> {}, error -> {});
        Held<T> one = new Held<>(decided, Sinks.one());
        held.add(one);
        return one.sink.asMono();
    }

    private record Held<T>(Mono<T> decided, Sinks.One<T> sink) {
        void reply() {
            decided.subscribe(sink::tryEmitValue, sink::tryEmitError, sink::tryEmitEmpty);
        }
    }
}
