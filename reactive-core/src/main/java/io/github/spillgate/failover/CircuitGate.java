package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowSynchronizationStrategy;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.ForeignValueException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.StoreState;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Admits requests to the primary store: a bounded number in flight, and only those that the circuit breaker permits. An
 * admitted request reports its result once, and leaves its place once.
 */
final class CircuitGate {

    /** Whether a request is sent to the store, or why the fallback decides at once. */
    enum Passage {
        /** Send it, and wait for the reply. */
        ASK,

        /** Send it to find out whether the store is available again, and do not wait for the reply. */
        PROBE,

        /** The breaker is open, or half open with enough probes. */
        OPEN("its circuit breaker is open"),

        /** All places are taken. */
        FULL("too many requests are in flight"),

        /** The gate could not decide: a function that the user has set has failed. */
        FAILED("its circuit breaker has failed"),

        /** The caller has spent its time waiting for something else. */
        NO_TIME("no time is left"),

        /** The store does not know of all local grants on these counts. */
        UNRECONCILED("local grants on the same keys are not reconciled yet");

        /** Why it is not sent; empty if it is. */
        private final String reason;

        Passage() {
            this("");
        }

        Passage(String reason) {
            this.reason = reason;
        }

        boolean isSent() {
            return this == ASK || this == PROBE;
        }

        String reason() {
            return reason;
        }
    }

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    private static final int WINDOW = 20;
    private static final int FEWEST = 10;
    private static final int PROBES = 3;
    private static final Duration PAUSE = Duration.ofSeconds(1);
    private static final double SPREAD = 0.3;

    /** If only the fallback has decided for this time, the store counts as unavailable, whatever the breaker says. */
    private static final long LONGEST_UNNOTICED = TimeUnit.MILLISECONDS.toNanos(500);

    private static final long NEVER = Long.MIN_VALUE;

    private final String what;
    private final String instead;
    private final CircuitBreaker breaker;
    private final Semaphore places;

    /** How many successes in a row fill the breaker's window; 0 if its window is measured in time. */
    private final int window;

    private final long slow;

    /** The longest time for a decision, in nanoseconds. */
    private final long deadline;

    /** How many successes must still be reported until the breaker's window holds nothing else. */
    private final AtomicInteger toReport;

    private final AtomicBoolean opening = new AtomicBoolean();
    private final AtomicBoolean unavailable = new AtomicBoolean();
    private final AtomicBoolean foreignValueLogged = new AtomicBoolean();
    private final AtomicBoolean refusalLogged = new AtomicBoolean();

    /** When the fallback first decided since the store last did. */
    private final AtomicLong fallenBackSince = new AtomicLong(NEVER);

    /** What is wrong with the store; null if it is available. */
    private volatile @Nullable String problem;

    /** What was last wrong, also if the store is available. */
    private volatile String lastProblem = "no reply by the deadline";

    /** Whether the last problem names the cause: the store could not be reached. */
    private volatile boolean causeKnown;

    /** Whether the log names the cause of the present outage. */
    private final AtomicBoolean causeLogged = new AtomicBoolean();

    CircuitGate(
            String what,
            String instead,
            int places,
            long deadline,
            UnaryOperator<CircuitBreakerConfig.Builder> change) {
        this.deadline = deadline;
        this.what = what;
        this.instead = instead;
        this.places = new Semaphore(places);
        CircuitBreakerConfig settings =
                change.apply(CircuitBreakerConfig.from(defaults())).build();
        this.breaker = CircuitBreaker.of("spillgate", settings);
        this.window =
                settings.getSlidingWindowType() == SlidingWindowType.COUNT_BASED ? settings.getSlidingWindowSize() : 0;
        this.slow = settings.getSlowCallDurationThreshold().toNanos();
        this.toReport = new AtomicInteger(window);
    }

    private static CircuitBreakerConfig defaults() {
        return CircuitBreakerConfig.custom()
                .slidingWindow(
                        WINDOW, FEWEST, SlidingWindowType.COUNT_BASED, SlidingWindowSynchronizationStrategy.LOCK_FREE)
                .permittedNumberOfCallsInHalfOpenState(PROBES)
                .waitIntervalFunctionInOpenState(IntervalFunction.ofRandomized(PAUSE, SPREAD))
                .clock(new SteadyClock())
                .build();
    }

    Passage pass() {
        CircuitBreaker.State before = breaker.getState();
        if (before == CircuitBreaker.State.CLOSED) {
            if (!places.tryAcquire()) {
                return Passage.FULL;
            }
            if (breaker.tryAcquirePermission()) {
                return Passage.ASK;
            }
            places.release();
            return Passage.OPEN;
        }
        // Probes are few and need no place: all places may be taken by requests that are never answered.
        boolean passes = before == CircuitBreaker.State.OPEN
                ? opening.compareAndSet(false, true) && passOpen()
                : breaker.tryAcquirePermission();
        return passes ? Passage.PROBE : Passage.OPEN;
    }

    /** The breaker takes a lock to become half open, so only one thread at a time asks it. */
    private boolean passOpen() {
        try {
            return breaker.tryAcquirePermission();
        } finally {
            opening.set(false);
        }
    }

    /** Leaves without having sent a request. */
    void turnBack(Passage passage) {
        breaker.releasePermission();
        leave(passage);
    }

    /** Reports a reply that took this time. */
    void answered(long nanos) {
        if (breakerKnows(nanos)) {
            return;
        }
        breaker.onSuccess(Math.max(0, nanos), TimeUnit.NANOSECONDS);
        if (window > 0 && nanos < slow && breaker.getState() == CircuitBreaker.State.CLOSED) {
            toReport.updateAndGet(number -> Math.max(0, number - 1));
        } else {
            toReport.set(window);
        }
        // The breaker may open at a success: if that completes the minimum number of calls.
        reportIfOpen();
    }

    /** Reports that the store made a decision by the deadline. */
    void decided() {
        if (fallenBackSince.get() != NEVER) {
            fallenBackSince.set(NEVER);
        }
        if (problem != null && breaker.getState() == CircuitBreaker.State.CLOSED) {
            problem = null;
            causeKnown = false;
            if (unavailable.compareAndSet(true, false)) {
                LOG.info("{} is available again; {} no longer decides", what, instead);
            }
        }
    }

    /** Reports that everything is reconciled: the store can decide again, if it is fast enough for that. */
    void reconciled(long nanos) {
        if (nanos <= deadline) {
            decided();
        }
    }

    /**
     * Returns whether another success changes nothing. Spares a contended write for each of many concurrent replies.
     */
    private boolean breakerKnows(long nanos) {
        return window > 0
                && toReport.get() == 0
                && problem == null
                && nanos < slow
                && breaker.getState() == CircuitBreaker.State.CLOSED;
    }

    /** Reports a failure after this time. */
    void failed(long nanos, Throwable error) {
        if (error instanceof ForeignValueException) {
            // The store works, but another program has written one of its keys.
            answered(nanos);
            if (foreignValueLogged.compareAndSet(false, true)) {
                LOG.warn("{} cannot decide on a key; falling back to {} for it: {}", what, instead, error.getMessage());
            }
            return;
        }
        breaker.onError(Math.max(0, nanos), TimeUnit.NANOSECONDS, error);
        explain(error);
        toReport.set(window);
        if (error instanceof LimitStoreUnreachableException && isAsked()) {
            // A connection that is refused now is refused a millisecond later.
            breaker.transitionToOpenState();
        }
        if (LOG.isDebugEnabled()) {
            LOG.debug("{} failed: {}", what, error.toString());
        }
        reportIfOpen();
        reportIfFallenBackForLong();
    }

    /** Reports that the store refused a refund or a reset, which says nothing about decisions. */
    void refused(Throwable error) {
        breaker.releasePermission();
        if (refusalLogged.compareAndSet(false, true)) {
            LOG.warn("{} refuses an operation; decisions are not affected: {}", what, error.getMessage());
        }
    }

    /** Reports that the fallback decides, for any reason. */
    void fellBack() {
        // During an outage this is called for each decision, and changes nothing.
        if (unavailable.get()) {
            return;
        }
        if (fallenBackSince.get() == NEVER) {
            fallenBackSince.compareAndSet(NEVER, Deadlines.now());
        } else {
            reportIfFallenBackForLong();
        }
    }

    /**
     * With few keys the breaker gets too few reports: once the fallback has granted permits of a key, it decides on
     * that key until they are reconciled.
     */
    private void reportIfFallenBackForLong() {
        long since = fallenBackSince.get();
        if (since != NEVER && Deadlines.now() - since >= LONGEST_UNNOTICED) {
            reportUnavailable();
        }
    }

    private void reportIfOpen() {
        if (!isAsked()) {
            reportUnavailable();
        }
    }

    private void reportUnavailable() {
        if (!unavailable.get() && unavailable.compareAndSet(false, true)) {
            causeLogged.set(causeKnown);
            problem = lastProblem;
            LOG.warn("Falling back to {}; {} is unavailable: {}", instead, what, lastProblem);
        }
    }

    /** Reports why a request failed that was judged before, at its deadline. */
    void failedLate(Throwable error) {
        if (error instanceof LimitStoreUnreachableException) {
            explain(error);
            if (unavailable.get() && causeLogged.compareAndSet(false, true)) {
                LOG.warn("{} cannot be reached: {}", what, lastProblem);
            }
        }
    }

    /** Keeps the better explanation: that a store cannot be reached explains why it does not reply. */
    private void explain(Throwable error) {
        boolean isCause = error instanceof LimitStoreUnreachableException;
        if (isCause || !causeKnown || !(error instanceof LimitStoreUnansweredException)) {
            String message = error.getMessage();
            lastProblem = message == null ? error.toString() : message;
            problem = lastProblem;
            causeKnown = isCause;
        }
    }

    /** Leaves the place of a request that has ended. */
    void leave(Passage passage) {
        if (passage == Passage.ASK) {
            places.release();
        }
    }

    /** Returns whether decisions are made by the store. */
    boolean decides() {
        return !unavailable.get() && state() == StoreState.Breaker.CLOSED;
    }

    /** Returns whether requests are sent, if only as probes. */
    boolean isAsked() {
        CircuitBreaker.State state = breaker.getState();
        return state != CircuitBreaker.State.OPEN && state != CircuitBreaker.State.FORCED_OPEN;
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
        return problem;
    }

    int freePlaces() {
        return places.availablePermits();
    }

    /**
     * A clock that never goes back. On the system clock, an open breaker would wait for hours if that were set back.
     */
    private static final class SteadyClock extends Clock {

        @Override
        public Instant instant() {
            return Instant.ofEpochSecond(0, Deadlines.now());
        }

        @Override
        public ZoneId getZone() {
            return ZoneOffset.UTC;
        }

        @Override
        public Clock withZone(ZoneId zone) {
            return this;
        }
    }
}
