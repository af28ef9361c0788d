package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * A store with replies that a test controls: it replies at once, after {@link #replyToAll()}, or fails. An operation
 * takes effect when it is requested, as in a Redis that hangs after it has read the command.
 */
final class ControlledStore extends WithoutDeadline {

    private final LossyStore counts;
    private final List<Held<?>> held = new ArrayList<>();
    private final List<List<Reconciliation>> batches = new ArrayList<>();
    private final List<List<Settlement>> settlementBatches = new ArrayList<>();
    private @Nullable Throwable notPrepared;
    private UnaryOperator<Mono<?>> behaviour = UnaryOperator.identity();
    private UnaryOperator<Mono<List<Corrected>>> reconcileReplies = UnaryOperator.identity();
    private int calls;
    private int leases;

    ControlledStore(InstantSource clock) {
        this(new LossyStore(clock));
    }

    private ControlledStore(LossyStore counts) {
        super(counts);
        this.counts = counts;
    }

    private void behave(UnaryOperator<Mono<?>> how) {
        behaviour = how;
        notPrepared = null;
    }

    void isAvailable() {
        behave(UnaryOperator.identity());
    }

    /** Executes operations at once, and holds their replies until {@link #replyToAll()}. */
    void holdsReplies() {
        behave(this::hold);
    }

    /** Executes nothing, and never replies. */
    void neverReplies() {
        behave(ignored -> Mono.never());
    }

    /** Executes operations at once, and replies this much later. */
    void repliesAfter(Duration time) {
        behave(operation -> Mono.delay(time).then(executed(operation)));
    }

    /** Executes nothing, and fails every operation. */
    void fails() {
        failsWith(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
    }

    /** Completes every operation without a value. */
    void completesEmpty() {
        behave(ignored -> Mono.empty());
    }

    void failsWith(Throwable error) {
        behave(ignored -> Mono.error(error));
    }

    /** Executes nothing, and fails every operation this much later. */
    void failsAfter(Duration time, Throwable error) {
        behave(ignored -> Mono.delay(time).then(Mono.error(error)));
    }

    void isUnreachable() {
        failsToPrepareWith(new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
    }

    /** Executes nothing, and fails every operation; it cannot be prepared either. */
    void failsToPrepareWith(Throwable error) {
        failsWith(error);
        notPrepared = error;
    }

    /** Executes operations, and fails them with this error. */
    void losesReplies(Throwable error) {
        behave(operation -> operation.then(Mono.error(error)));
    }

    /** Changes the replies to reconciliations, whatever the other operations do. */
    void reconciles(UnaryOperator<Mono<List<Corrected>>> how) {
        reconcileReplies = how;
    }

    /** Rejects the next batch of reconciliations; a retry would not help. */
    void rejectsAReconciliation() {
        counts.rejectsAReconciliation();
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

    /** Returns the number of executed requests for leases. */
    int leases() {
        return leases;
    }

    List<List<Reconciliation>> batches() {
        return batches;
    }

    /** Returns the batches of settlements that were executed. */
    List<List<Settlement>> settlementBatches() {
        return settlementBatches;
    }

    /** Returns a limiter on the counts of this store. */
    RateLimiterBuilder unprotected(String name) {
        return RateLimiter.builder(name).store(new Unprotected(counts));
    }

    @Override
    public Mono<Void> prepare(String node) {
        return Mono.defer(() -> notPrepared == null ? Mono.empty() : Mono.error(notPrepared));
    }

    @Override
    protected Mono<StoreDecision> lease(StoreRequest request) {
        return around(counts.take(request).doOnSubscribe(executed -> leases++));
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        List<Reconciliation> reconciliations = ofKind(Reconciliation.class, corrections);
        List<Settlement> settlements = ofKind(Settlement.class, corrections);
        if (!reconciliations.isEmpty()) {
            return around(Mono.defer(() -> {
                batches.add(reconciliations);
                return reconcileReplies.apply(counts.correct(reconciliations));
            }));
        }
        return settlements.isEmpty()
                ? super.correct(corrections)
                : around(counts.correct(settlements).doOnSubscribe(executed -> settlementBatches.add(settlements)));
    }

    private static <C> List<C> ofKind(Class<C> kind, List<? extends Correction> corrections) {
        return corrections.stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.OTHER);
    }

    @Override
    public String toString() {
        return "ControlledStore";
    }

    @Override
    @SuppressWarnings("unchecked") // every behaviour returns a Mono of the type it was given
    protected <T> Mono<T> around(Mono<T> operation) {
        return Mono.defer(() -> {
            calls++;
            return (Mono<T>) behaviour.apply(operation);
        });
    }

    private Mono<?> hold(Mono<?> operation) {
        return hold(new Held<>(executed(operation), Sinks.one()));
    }

    private <T> Mono<T> hold(Held<T> one) {
        held.add(one);
        return one.sink.asMono();
    }

    private static <T> Mono<T> executed(Mono<T> operation) {
        Mono<T> done = operation.cache();
        done.subscribe(reply -> {}, error -> {});
        return done;
    }

    private record Held<T>(Mono<T> decided, Sinks.One<T> sink) {
        void reply() {
            decided.subscribe(sink::tryEmitValue, sink::tryEmitError, sink::tryEmitEmpty);
        }
    }
}
