package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreRefusedException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.SharedFailure;
import io.github.spillgate.internal.Text;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * Whether the store decides or the fallback, and what is wrong with the store. Logs each outage once, and its end.
 *
 * <p>The breaker alone cannot decide this: with few keys it gets too few reports, because once the fallback has granted
 * permits of a key, it decides on that key until they are reconciled.
 */
final class Availability {

    /** The class that users know; they configure its logger. */
    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

    /** If only the fallback has decided for this time, the store counts as unavailable, whatever the breaker says. */
    private static final long LONGEST_UNNOTICED = TimeUnit.MILLISECONDS.toNanos(500);

    private static final long NEVER = Long.MIN_VALUE;

    /** The highest number of causes of one outage that are logged. */
    private static final int MOST_CAUSES = 8;

    /** The start of the remedy in a message. */
    private static final String REMEDY = ": expected ";

    /** The code of an error of Redis, which is the same in all messages of one cause; scripts have ERR before it. */
    private static final Pattern CODE = Pattern.compile("\\b(?!ERR\\b)[A-Z]{3,}\\b");

    /** What differs between two messages of one cause, such as the digest of a script and a line in it. */
    private static final Pattern DETAIL = Pattern.compile("[0-9a-f]{40}|\\d+");

    private final String store;
    private final String fallback;
    private final Runnable onAvailable;
    private final AtomicBoolean unavailable = new AtomicBoolean();

    /** When the fallback first decided since the store last did. */
    private final AtomicLong fallenBackSince = new AtomicLong(NEVER);

    /** The missed deadlines that are not logged yet. If the breaker opens before that, they are not logged. */
    private final SummaryLog missedDeadlines = new SummaryLog(this::logMissedDeadlines);

    /** How many of them were missed while this process was stalled. */
    private final AtomicLong missedWhileStalled = new AtomicLong();

    /** What is wrong with the store; null if it is available. */
    private volatile @Nullable String problem;

    /** What was last wrong, also if the store is available. */
    private volatile Explanation lastExplanation = new Explanation("no reply by the deadline", ExplanationKind.SYMPTOM);

    /** The causes of log lines about single keys and operations. */
    private final LoggedCauses loggedCauses = new LoggedCauses(Deadlines::now);

    /** The causes of the present outage that the log names, as {@link #causeIn}; guarded by this. */
    private final Set<String> causesLogged = new HashSet<>();

    /**
     * Creates the state of a store that is available.
     *
     * @param store the store, for the log
     * @param fallback the fallback, for the log
     * @param onAvailable called at the end of each outage
     */
    Availability(String store, String fallback, Runnable onAvailable) {
        this.store = store;
        this.fallback = fallback;
        this.onAvailable = onAvailable;
    }

    boolean isAvailable() {
        return !unavailable.get();
    }

    @Nullable
    String problem() {
        return problem;
    }

    /**
     * Records that the store made a decision by the deadline.
     *
     * @param isClosed whether its breaker is closed
     */
    void recordDecision(boolean isClosed) {
        if (fallenBackSince.get() != NEVER) {
            fallenBackSince.set(NEVER);
        }
        if (problem != null && isClosed) {
            forgetProblem();
            if (unavailable.compareAndSet(true, false)) {
                LOG.info("{} is available again; {} no longer decides", store, fallback);
                onAvailable.run();
            }
        }
    }

    /**
     * Records that the fallback decides, for any reason.
     *
     * @param whyNotAsked why the store was not asked; empty if it was
     */
    void recordFallback(String whyNotAsked) {
        // During an outage this is called for each decision, and changes nothing.
        if (unavailable.get()) {
            return;
        }
        if (fallenBackSince.get() == NEVER) {
            fallenBackSince.compareAndSet(NEVER, Deadlines.now());
        } else if (isUnnoticedForLong()) {
            explainNotAsked(whyNotAsked);
            startOutage();
        }
    }

    private boolean isUnnoticedForLong() {
        long since = fallenBackSince.get();
        return since != NEVER && Deadlines.now() - since >= LONGEST_UNNOTICED;
    }

    /** Explains an outage without a failure of the store. What was wrong before is not the reason. */
    private synchronized void explainNotAsked(String why) {
        if (!why.isEmpty() && problem == null) {
            lastExplanation = new Explanation("it was not asked, because " + why, ExplanationKind.SYMPTOM);
        }
    }

    /** Starts an outage, if none is known, and logs it: the breaker is open, or only the fallback decides. */
    void startOutage() {
        if (!unavailable.get()) {
            Explanation known = markUnavailable();
            if (known != null) {
                missedDeadlines.clear();
                missedWhileStalled.set(0);
                LOG.warn("Falling back to {}; {} is unavailable: {}", fallback, store, Text.line(known.message));
            }
        }
    }

    /** Marks the store as unavailable. Returns what is known of the outage; null if it has started before. */
    private synchronized @Nullable Explanation markUnavailable() {
        if (!unavailable.compareAndSet(false, true)) {
            return null;
        }
        Explanation known = lastExplanation;
        causesLogged.clear();
        boolean unused = noteCause(known);
        problem = known.message;
        return known;
    }

    /**
     * Records that the fallback decides because the store missed a deadline. If the store stays available, such misses
     * are logged, at most once a minute.
     */
    void recordMissedDeadline(boolean stalled) {
        if (unavailable.get()) {
            return;
        }
        if (stalled) {
            missedWhileStalled.incrementAndGet();
        }
        missedDeadlines.count();
    }

    private void logMissedDeadlines(long all) {
        long whileStalled = Math.min(all, missedWhileStalled.getAndSet(0));
        LOG.warn(
                "{} did not decide {} requests by the deadline, {} of them while this process was stalled; {}"
                        + " decided them. Likely cause: {}",
                store,
                all,
                whileStalled,
                fallback,
                2 * whileStalled >= all
                        ? "this process lacks CPU time, or has long pauses for garbage collection"
                        : "the store or the network is slow, or the deadline is too short for them");
    }

    /**
     * Records why a request failed.
     *
     * @param isOpen whether that has opened the breaker
     */
    void recordFailure(Throwable error, boolean isOpen) {
        explain(error);
        if (LOG.isDebugEnabled()) {
            LOG.debug("{} failed: {}", store, Text.line(error.toString()));
        }
        if (isOpen || isUnnoticedForLong()) {
            startOutage();
        }
        logCause();
    }

    /** Returns whether a request failed because the store can be reached and cannot decide, or denies this user to. */
    static boolean isRefusal(Throwable error) {
        return ExplanationKind.of(error) == ExplanationKind.REFUSAL || error instanceof LimitStoreRefusedException;
    }

    /** Records why a request failed that was recorded as unanswered before, at its deadline. */
    void recordLateFailure(Throwable error) {
        if (error instanceof LimitStoreUnreachableException) {
            explain(error);
            logCause();
        }
    }

    /**
     * Logs a cause of an outage that was not known when the outage was logged. The first attempts to connect may fail
     * for another reason than all later ones, for example because this process lacks CPU time.
     */
    private void logCause() {
        Explanation known = lastExplanation;
        if (unavailable.get() && noteCause(known)) {
            boolean isReached = known.kind == ExplanationKind.REFUSAL;
            LOG.warn(isReached ? "{} cannot decide: {}" : "{} cannot be reached: {}", store, Text.line(known.message));
        }
    }

    /** Notes a cause that is about to be logged; returns whether the log does not name it yet. */
    private synchronized boolean noteCause(Explanation known) {
        return known.kind != ExplanationKind.SYMPTOM
                && causesLogged.size() < MOST_CAUSES
                && causesLogged.add(causeIn(known.message));
    }

    /** Returns what is the same in all messages of one cause: the remedy, the code, or a message without details. */
    private static String causeIn(String message) {
        int remedy = message.indexOf(REMEDY);
        if (remedy >= 0) {
            return DETAIL.matcher(message.substring(remedy)).replaceAll("#");
        }
        Matcher code = CODE.matcher(message);
        return code.find() ? code.group() : DETAIL.matcher(message).replaceAll("#");
    }

    /** Keeps the better explanation: that a store cannot be reached explains why it does not reply. */
    private synchronized void explain(Throwable error) {
        ExplanationKind kind = ExplanationKind.of(error);
        if (kind == ExplanationKind.UNREACHABLE
                || lastExplanation.kind != ExplanationKind.UNREACHABLE
                || !(error instanceof LimitStoreUnansweredException)) {
            String message = error.getMessage();
            lastExplanation = new Explanation(message == null ? error.toString() : message, kind);
            problem = lastExplanation.message;
        }
    }

    private synchronized void forgetProblem() {
        problem = null;
        lastExplanation = new Explanation(lastExplanation.message, ExplanationKind.SYMPTOM);
    }

    /**
     * Records that another program has written a key of the store, which replies, so this is no outage. Logged at most
     * once a minute.
     */
    void recordForeignValue(String foreign) {
        fallenBackSince.set(NEVER);
        // One cause for all keys, because the other program may have written many.
        if (loggedCauses.add("foreign value")) {
            LOG.warn("{} cannot decide on a key; falling back to {} for it: {}", store, fallback, Text.line(foreign));
        }
    }

    /** Records that the store refused a refund or a reset. */
    void recordRefusal(Throwable error) {
        String message = Text.line(error.getMessage());
        if (loggedCauses.add(causeIn(message))) {
            LOG.warn("{} refuses an operation; decisions are not affected: {}", store, message);
        }
    }

    /** How much an explanation explains. */
    private enum ExplanationKind {

        /** It says that a reply is missing or a connection was lost, not why. */
        SYMPTOM,

        /** The store could not decide, for example because Redis is out of memory. */
        REFUSAL,

        /** The store could not be reached, which also explains why it does not reply. */
        UNREACHABLE;

        static ExplanationKind of(Throwable error) {
            if (error instanceof LimitStoreUnreachableException) {
                return UNREACHABLE;
            }
            return error instanceof LimitStoreUnansweredException
                            || error instanceof LimitStoreDeadlineException
                            || error.getCause() instanceof SharedFailure
                    ? SYMPTOM
                    : REFUSAL;
        }
    }

    /** What is wrong with the store. */
    private record Explanation(String message, ExplanationKind kind) {}
}
