package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowSynchronizationStrategy;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.SharedFailure;
import io.github.spillgate.internal.Time;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.ZoneOffset;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;

/**
 * Admits requests to the primary store: a bounded number in flight, and only those that the circuit breaker permits. An
 * admitted request has at most one result, and is released once.
 *
 * <p>No method throws: what a function that the user has set for the breaker throws is dropped.
 */
final class CircuitGate {
    // Design notes.
    //
    // The life of a request:
    //
    //   pass()            It is sent (ASK, PROBE), or the fallback decides at once: see Passage.
    //   recordReply()     The result, for the breaker and for the health; or recordFailure(); or recordRefusal() or
    //                     recordNoResult(), which the breaker ignores. At most one of them, once. After a probe always
    //                     one: the breaker waits for the results of its probes.
    //   release()         It takes no capacity any more, perhaps long after its result was recorded; or
    //                     releaseWithoutResult(), if there is no result.
    //
    // These change the health only: recordLateFailure(), recordMissedDeadline() and recordFallback() if the fallback
    // decides, recordDecision() if the store does. A breaker that closes is not enough for that, see Availability.
    //
    // If no requests come any more, probeIfIdle() finds out that the store is available again. It takes no permits. A
    // store that cannot write can answer that. So if the store has refused a request, a successful probe counts only
    // after one that has failed: the reason of the refusal, such as loading data, then affects probes too.

    /** Whether a request is sent to the store, or why the fallback decides at once. */
    enum Passage {
        /** Send it, and wait for the reply. */
        ASK,

        /** Send it to find out whether the store is available again, and do not wait for the reply. */
        PROBE,

        /** The breaker is open, or half open with enough probes. */
        OPEN("its circuit breaker is open", true),

        /** The highest number of requests is in flight. */
        FULL("too many requests are in flight", true),

        /** The gate failed: a function that the user has set for the breaker, or the store's name of the node. */
        FAILED("its circuit breaker has failed", true),

        /** The caller has spent its time waiting for something else. */
        NO_TIME("no time is left", false),

        /** The store does not know of all local grants on these counts. */
        UNRECONCILED("local grants on the same keys are not reconciled yet", true),

        /** Local grants on these counts cannot be charged. The store decides on all others. */
        FOREIGN("another program has written one of the keys", false),

        /** This is more than what is left of the share of this instance. The store decides on other counts. */
        BEYOND_SHARE("other instances may not have reconciled their local grants yet", false);

        /** Why it is not sent, for messages; empty if it is. */
        private final String reason;

        /** Whether a fallback that lasts is an outage: it is logged, affects the health, and shares apply. */
        private final boolean isOutage;

        Passage() {
            this("", true);
        }

        Passage(String reason, boolean isOutage) {
            this.reason = reason;
            this.isOutage = isOutage;
        }

        boolean isSent() {
            return this == ASK || this == PROBE;
        }
    }

    /** What a store returns that has nothing to prepare, as by default. */
    private static final Mono<Void> NOTHING = Mono.empty();

    private static final int WINDOW = 20;
    private static final int MIN_CALLS = 10;
    private static final int PROBES = 3;
    private static final Duration PAUSE = Duration.ofSeconds(1);

    /** The time after an outage in which the other instances find out that the store is back, in nanoseconds. */
    private static final long LONGEST_RETURN = TimeUnit.SECONDS.toNanos(3);

    /** The highest random change of the pause, as a part of it, so that instances do not probe at the same time. */
    private static final double PAUSE_JITTER = 0.3;

    /** A clock that is never set back. On the system clock, a breaker would stay open for hours if that is set back. */
    private static final InstantSource STEADY = () -> Instant.ofEpochSecond(0, Time.nanos());

    private final String store;
    private final OutageLog log;
    private final Availability availability;
    private final CircuitBreaker breaker;
    private final Semaphore capacity;

    /** How many calls the breaker's window holds; 0 if its window is measured in time. */
    private final int window;

    /** The time from which the breaker counts a reply as slow. */
    private final long slowNanos;

    /** The longest time for a decision. */
    private final long deadlineNanos;

    /** Whether a thread is asking the open breaker whether it becomes half open. */
    private final AtomicBoolean isAskingOpenBreaker = new AtomicBoolean();

    /** Whether a request has fallen back since the last {@link #probeIfIdle}. */
    private volatile boolean hasFallenBack;

    /** Whether the store has refused a request, and has executed none since, and no probe has failed since. */
    private volatile boolean isRefusing;

    CircuitGate(
            String store,
            String fallback,
            int mostInFlight,
            long deadlineNanos,
            UnaryOperator<CircuitBreakerConfig.Builder> userSettings,
            Runnable onAvailable) {
        this.store = store;
        this.log = new OutageLog(store, fallback);
        this.availability = new Availability(log, onAvailable);
        this.capacity = new Semaphore(mostInFlight);
        this.deadlineNanos = deadlineNanos;
        // From a copy, because the builder rejects a second function for the wait, and users could not replace ours.
        CircuitBreakerConfig settings =
                userSettings.apply(CircuitBreakerConfig.from(defaults())).build();
        this.breaker = CircuitBreaker.of("spillgate", settings);
        this.window =
                settings.getSlidingWindowType() == SlidingWindowType.COUNT_BASED ? settings.getSlidingWindowSize() : 0;
        this.slowNanos = settings.getSlowCallDurationThreshold().toNanos();
    }

    private static CircuitBreakerConfig defaults() {
        return CircuitBreakerConfig.custom()
                .slidingWindow(
                        WINDOW,
                        MIN_CALLS,
                        SlidingWindowType.COUNT_BASED,
                        SlidingWindowSynchronizationStrategy.LOCK_FREE)
                .permittedNumberOfCallsInHalfOpenState(PROBES)
                .waitIntervalFunctionInOpenState(IntervalFunction.ofRandomized(PAUSE, PAUSE_JITTER))
                .clock(STEADY.withZone(ZoneOffset.UTC))
                .build();
    }

    // Admission.

    Passage pass() {
        try {
            return tryPass();
        } catch (Throwable e) {
            drop(e);
            return Passage.FAILED;
        }
    }

    private static void drop(Throwable e) {
        Exceptions.throwIfFatal(e);
        Dropped.report(e);
    }

    private Passage tryPass() {
        CircuitBreaker.State before = breaker.getState();
        if (before == CircuitBreaker.State.CLOSED) {
            if (!breaker.tryAcquirePermission()) {
                return Passage.OPEN;
            }
            if (!capacity.tryAcquire()) {
                recordNoResult();
                return Passage.FULL;
            }
            return Passage.ASK;
        }
        // Probes are few and may exceed the capacity: requests that are never answered may use all of it.
        boolean passes = before == CircuitBreaker.State.OPEN ? passOpen() : breaker.tryAcquirePermission();
        return passes ? Passage.PROBE : Passage.OPEN;
    }

    /** The breaker takes a lock to become half open, so only one thread at a time asks it. */
    private boolean passOpen() {
        if (!isAskingOpenBreaker.compareAndSet(false, true)) {
            return false;
        }
        try {
            return breaker.tryAcquirePermission();
        } finally {
            isAskingOpenBreaker.set(false);
        }
    }

    /** Releases a request without a result: it was not sent, or was cancelled. */
    void releaseWithoutResult(Passage passage) {
        recordNoResult();
        release(passage);
    }

    /** Releases a request that has ended. Its result is recorded separately. */
    void release(Passage passage) {
        if (passage == Passage.ASK) {
            capacity.release();
        }
    }

    /** Returns the error of a request that did not pass. */
    LimitStoreException notAsked(Passage passage) {
        String problem = problem();
        String why = passage == Passage.OPEN && problem != null ? "it is unavailable: " + problem : passage.reason;
        return new LimitStoreException(Kind.UNAVAILABLE, store + " was not asked, because " + why);
    }

    // Results of requests.

    /** Records a reply that took this time. */
    void recordReply(long nanos) {
        if (isRedundantSuccess(nanos)) {
            return;
        }
        isRefusing = false;
        try {
            breaker.onSuccess(Math.max(0, nanos), TimeUnit.NANOSECONDS);
            // The breaker may open at a success: if that completes the minimum number of calls.
            if (isOpen()) {
                availability.recordOpen();
            }
        } catch (Throwable e) {
            drop(e);
        }
    }

    /**
     * Returns whether another success changes nothing, because the breaker is closed and its window holds only fast
     * ones. Spares a contended write for each of many concurrent replies.
     */
    private boolean isRedundantSuccess(long nanos) {
        CircuitBreaker.Metrics calls = breaker.getMetrics();
        return window > 0
                && nanos < slowNanos
                && !isRefusing
                && calls.getNumberOfSuccessfulCalls() == window
                && calls.getNumberOfSlowCalls() == 0
                && breaker.getState() == CircuitBreaker.State.CLOSED;
    }

    /** Records that a request says nothing about the store: it was not sent, or not executed. */
    void recordNoResult() {
        breaker.releasePermission();
    }

    /** Records that the store made a decision by the deadline. */
    void recordDecision() {
        availability.recordDecision(breaker.getState() == CircuitBreaker.State.CLOSED);
    }

    /** Records that everything is reconciled. If the store has replied by the deadline, an outage is over. */
    void recordReconciliation(long nanos) {
        if (nanos <= deadlineNanos && !availability.isAvailable()) {
            recordDecision();
        }
    }

    /**
     * Records a failure after this time. The failures by one lost connection count as one; otherwise a single lost
     * connection with many requests in flight would open the breaker.
     */
    void recordFailure(long nanos, Throwable error) {
        Kind kind = Kind.of(error);
        if (kind == Kind.FOREIGN_VALUE) {
            // The store works, but another program has written one of its keys.
            recordReply(nanos);
            recordForeignValue(String.valueOf(error.getMessage()));
            return;
        }
        if (kind != Kind.UNREACHABLE && !OutageLog.isUnexplained(error)) {
            isRefusing = true;
        }
        countFailure(error, nanos);
    }

    /** Records that another program has written a key of the store. */
    void recordForeignValue(String problem) {
        availability.endSuspicion();
        log.foreignValue(problem);
    }

    private void countFailure(Throwable error, long nanos) {
        try {
            countInBreaker(error, nanos);
        } catch (Throwable e) {
            drop(e);
        }
        availability.recordFailure(error, isOpen());
    }

    private void countInBreaker(Throwable error, long nanos) {
        if (error.getCause() instanceof SharedFailure shared && !shared.isFirstFor(this)) {
            breaker.releasePermission();
        } else {
            breaker.onError(Math.max(0, nanos), TimeUnit.NANOSECONDS, error);
        }
        if (Kind.of(error).isLasting() && !isOpen()) {
            // A connection that is refused now is refused a millisecond later.
            breaker.transitionToOpenState();
        }
    }

    /** Records why a request failed after its result was recorded at its deadline. */
    void recordLateFailure(Throwable error) {
        if (Kind.of(error).isLasting()) {
            log.failed(error);
        }
    }

    /** Records that the store refused a refund or a reset, which says nothing about decisions. */
    void recordRefusal(Throwable error) {
        recordNoResult();
        log.refused(error);
    }

    /**
     * Records that the fallback decides because the store missed the deadline.
     *
     * @param stalled whether this process was stalled since the request began
     * @return whether the breaker is closed, so that the store is expected to decide
     */
    boolean recordMissedDeadline(boolean stalled) {
        if (breaker.getState() != CircuitBreaker.State.CLOSED) {
            return false;
        }
        availability.recordMissedDeadline(stalled);
        return true;
    }

    /** Records that the fallback decides, for any reason, after this passage. */
    void recordFallback(Passage passage) {
        if (passage == Passage.NO_TIME) {
            availability.recordMissedDeadline(false);
        }
        if (!passage.isOutage) {
            return;
        }
        if (!hasFallenBack) {
            hasFallenBack = true;
        }
        availability.recordFallback(passage.reason);
    }

    /**
     * Asks the store whether it is available again, if no requests do. Call this every second.
     *
     * @param prepare prepares the store, or the node
     * @param isReconciled whether the store knows all grants of the fallback
     */
    void probeIfIdle(Supplier<Mono<Void>> prepare, BooleanSupplier isReconciled) {
        boolean isIdle = !hasFallenBack;
        hasFallenBack = false;
        if (!isIdle || decides()) {
            return;
        }
        Mono<Void> probe = probeBy(prepare);
        if (probe == NOTHING) {
            return; // It would succeed without asking the store.
        }
        Mono<Void> reply =
                probe.timeout(Duration.ofNanos(deadlineNanos), Mono.error(this::unanswered), Background.scheduler());
        if (isRefusing) {
            reply.subscribe(done -> {}, error -> isRefusing = false);
            return;
        }
        Passage passage = pass();
        if (passage.isSent()) {
            long start = Time.nanos();
            // If the store refuses the probe, it refuses decisions as well, so it may still be probed.
            reply.doFinally(end -> release(passage))
                    .subscribe(done -> {}, error -> countFailure(error, Time.nanos() - start), () -> {
                        recordReply(Time.nanos() - start);
                        if (isReconciled.getAsBoolean()) {
                            recordDecision();
                        }
                    });
        }
    }

    private LimitStoreException unanswered() {
        return new LimitStoreException(
                Kind.UNANSWERED, store + " did not reply to a probe within " + deadlineNanos / 1_000_000 + " ms");
    }

    private static Mono<Void> probeBy(Supplier<Mono<Void>> prepare) {
        try {
            return prepare.get();
        } catch (RuntimeException e) {
            return Mono.error(e);
        }
    }

    // State.

    /** Returns whether the store is or was lately unavailable, so that other instances may have fallen back, too. */
    boolean isAfterOutage() {
        return availability.isAfterOutage(LONGEST_RETURN);
    }

    /** Returns whether instances may keep to their shares: they begin when their grants are charged. */
    boolean maySharesApply() {
        return availability.isAfterOutage(2 * LONGEST_RETURN);
    }

    /** Returns whether decisions are made by the store. */
    boolean decides() {
        return availability.isAvailable() && state() == StoreState.Breaker.CLOSED;
    }

    /** Returns whether the breaker is open. If it is half open, probes are sent. */
    boolean isOpen() {
        return state() == StoreState.Breaker.OPEN;
    }

    StoreState.Breaker state() {
        return switch (breaker.getState()) {
            case OPEN, FORCED_OPEN -> StoreState.Breaker.OPEN;
            case HALF_OPEN -> StoreState.Breaker.HALF_OPEN;
            default -> StoreState.Breaker.CLOSED;
        };
    }

    @Nullable
    String problem() {
        return log.problem();
    }

    int freeCapacity() {
        return capacity.availablePermits();
    }
}
