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
 * Says which questions may go to the store: as many at a time as there are places, and those that the circuit breaker
 * lets through. Whoever has passed tells what came of it, once, and leaves his place, once.
 */
final class CircuitGate {

    /** What the gate says to somebody who wants to ask. */
    enum Passage {
        /** Ask, and wait for the answer. */
        ASK,

        /** Ask to see whether the store answers well again, and do not wait for it. */
        PROBE,

        /** Do not ask. */
        NO
    }

    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    private static final int WINDOW = 20;
    private static final int FEWEST = 10;
    private static final int PROBES = 3;
    private static final Duration PAUSE = Duration.ofSeconds(1);
    private static final double SPREAD = 0.3;

    /**
     * If only the fallback has decided for so long, the store counts as unavailable, whatever the breaker has heard of.
     */
    private static final long LONGEST_UNNOTICED = TimeUnit.MILLISECONDS.toNanos(500);

    private static final long NEVER = Long.MIN_VALUE;

    private final String what;
    private final String instead;
    private final CircuitBreaker breaker;
    private final Semaphore places;

    /** So many successes, one after another, leave nothing else in the breaker's window; 0 where it goes by time. */
    private final int window;

    private final long slow;

    /** How long a decision may take, in nanoseconds. */
    private final long deadline;

    /** How many successes the breaker has to hear of until its window holds nothing else. */
    private final AtomicInteger toTell;

    private final AtomicBoolean opening = new AtomicBoolean();
    private final AtomicBoolean givenUp = new AtomicBoolean();
    private final AtomicBoolean foreignTold = new AtomicBoolean();
    private final AtomicBoolean refusalTold = new AtomicBoolean();

    /** When the fallback first decided since the store last did. */
    private final AtomicLong fallenBackSince = new AtomicLong(NEVER);

    private final AtomicBoolean explained = new AtomicBoolean();
    private volatile @Nullable String problem;
    private volatile String lastProblem = "no answer came in time";
    private volatile boolean isExplained;

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
                change.apply(CircuitBreakerConfig.from(atFirst())).build();
        this.breaker = CircuitBreaker.of("spillgate", settings);
        this.window =
                settings.getSlidingWindowType() == SlidingWindowType.COUNT_BASED ? settings.getSlidingWindowSize() : 0;
        this.slow = settings.getSlowCallDurationThreshold().toNanos();
        this.toTell = new AtomicInteger(window);
    }

    private static CircuitBreakerConfig atFirst() {
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
                return Passage.NO;
            }
            if (breaker.tryAcquirePermission()) {
                return Passage.ASK;
            }
            places.release();
            return Passage.NO;
        }
        // Those who try the store are few, and need no place: all may be taken by questions that it never answers.
        boolean passes = before == CircuitBreaker.State.OPEN
                ? opening.compareAndSet(false, true) && passOpen()
                : breaker.tryAcquirePermission();
        return passes ? Passage.PROBE : Passage.NO;
    }

    /** The breaker takes a lock to become half open, so only one thread at a time may find out whether it does. */
    private boolean passOpen() {
        try {
            return breaker.tryAcquirePermission();
        } finally {
            opening.set(false);
        }
    }

    /** Says that nothing was asked. */
    void turnBack(Passage passage) {
        breaker.releasePermission();
        leave(passage);
    }

    void answered(long nanos) {
        if (isNothingNew(nanos)) {
            return;
        }
        breaker.onSuccess(Math.max(0, nanos), TimeUnit.NANOSECONDS);
        if (window > 0 && nanos < slow && breaker.getState() == CircuitBreaker.State.CLOSED) {
            toTell.updateAndGet(number -> Math.max(0, number - 1));
        } else {
            toTell.set(window);
        }
        // The breaker may open at a success, if that is the first of which it knows enough.
        giveUpIfOpen();
    }

    /** The store has made a decision, and it was in time. */
    void decided() {
        if (fallenBackSince.get() != NEVER) {
            fallenBackSince.set(NEVER);
        }
        if (problem != null && breaker.getState() == CircuitBreaker.State.CLOSED) {
            problem = null;
            isExplained = false;
            if (givenUp.compareAndSet(true, false)) {
                LOG.info("{} is available again; {} no longer decides", what, instead);
            }
        }
    }

    /** Everything is reconciled: decisions can be made by the store again, if it was fast enough for them. */
    void settled(long nanos) {
        if (nanos <= deadline) {
            decided();
        }
    }

    /**
     * Whether the breaker would learn nothing from one more success, which all who are answered at the same time would
     * tell it.
     */
    private boolean isNothingNew(long nanos) {
        return window > 0
                && toTell.get() == 0
                && problem == null
                && nanos < slow
                && breaker.getState() == CircuitBreaker.State.CLOSED;
    }

    void failed(long nanos, Throwable error) {
        if (error instanceof ForeignValueException) {
            // The store answers well, but somebody else has put something under one of its keys.
            answered(nanos);
            if (foreignTold.compareAndSet(false, true)) {
                LOG.warn("{} cannot decide on a key; falling back to {} for it: {}", what, instead, error.getMessage());
            }
            return;
        }
        breaker.onError(Math.max(0, nanos), TimeUnit.NANOSECONDS, error);
        understand(error);
        toTell.set(window);
        if (error instanceof LimitStoreUnreachableException && isAsked()) {
            // Who is not let in now is not let in a millisecond later.
            breaker.transitionToOpenState();
        }
        if (LOG.isDebugEnabled()) {
            LOG.debug("{} does not answer well: {}", what, error.toString());
        }
        giveUpIfOpen();
        giveUpIfFallenBackForLong();
    }

    /** The store has refused another operation than a decision: that says nothing about decisions. */
    void refused(Throwable error) {
        breaker.releasePermission();
        if (refusalTold.compareAndSet(false, true)) {
            LOG.warn("{} refuses an operation; decisions are not affected: {}", what, error.getMessage());
        }
    }

    /** The fallback decides, whatever the reason. */
    void fellBack() {
        // During an outage all decisions come here, and there is nothing to find out.
        if (givenUp.get()) {
            return;
        }
        if (fallenBackSince.get() == NEVER) {
            fallenBackSince.compareAndSet(NEVER, Deadlines.now());
        } else {
            giveUpIfFallenBackForLong();
        }
    }

    /**
     * With few keys the breaker hears too little: once the fallback has granted something of a key, it goes on deciding
     * about it until that is reconciled.
     */
    private void giveUpIfFallenBackForLong() {
        long since = fallenBackSince.get();
        if (since != NEVER && Deadlines.now() - since >= LONGEST_UNNOTICED) {
            giveUp();
        }
    }

    private void giveUpIfOpen() {
        if (!isAsked()) {
            giveUp();
        }
    }

    private void giveUp() {
        if (!givenUp.get() && givenUp.compareAndSet(false, true)) {
            explained.set(isExplained);
            problem = lastProblem;
            LOG.warn("Falling back to {}; {} is unavailable: {}", instead, what, lastProblem);
        }
    }

    /** Hears why a question failed whose deadline had passed before, and which is judged already. */
    void failedLate(Throwable error) {
        if (error instanceof LimitStoreUnreachableException) {
            understand(error);
            if (givenUp.get() && explained.compareAndSet(false, true)) {
                LOG.warn("{} cannot be reached: {}", what, lastProblem);
            }
        }
    }

    /** That nothing can be reached explains why nothing is answered, and is the better thing to say. */
    private void understand(Throwable error) {
        boolean explains = error instanceof LimitStoreUnreachableException;
        if (explains || !isExplained || !(error instanceof LimitStoreUnansweredException)) {
            String message = error.getMessage();
            lastProblem = message == null ? error.toString() : message;
            problem = lastProblem;
            isExplained = explains;
        }
    }

    void leave(Passage passage) {
        if (passage == Passage.ASK) {
            places.release();
        }
    }

    /** Returns whether decisions are made by the store. */
    boolean decides() {
        return !givenUp.get() && state() == StoreState.Breaker.CLOSED;
    }

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

    /** Time that only passes: a breaker that waits by the system's clock waits for hours when that is set back. */
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
