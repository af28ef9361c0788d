package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.SharedFailure;
import io.github.spillgate.internal.SummaryLog;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * What is wrong with the store, in words, and the log lines about that: one for each outage, its end and each of its
 * causes, and few about missed deadlines and single keys and operations. Thread-safe.
 */
final class OutageLog {

    /** The class that users know; they configure its logger. */
    private static final Logger LOG = Loggers.getLogger(ResilientStore.class);

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

    /** What is wrong with the store; null if nothing is known to be. */
    private volatile @Nullable Explanation problem;

    /** The causes that the line about the present outage names, or lines after it; null before. Guarded by this. */
    private @Nullable Set<String> outageCauses;

    /** The missed deadlines that are not logged yet. If an outage begins before that, they are not logged. */
    private final SummaryLog missedDeadlines = new SummaryLog(this::logMissedDeadlines);

    /** How many of them were missed while this process was stalled. */
    private final AtomicLong missedWhileStalled = new AtomicLong();

    /** The causes of log lines about single keys and operations. */
    private final LoggedCauses loggedCauses = new LoggedCauses(Time::nanos);

    /**
     * Creates the log of a store with which nothing is wrong.
     *
     * @param store the store, for the log
     * @param fallback the fallback, for the log
     */
    OutageLog(String store, String fallback) {
        this.store = store;
        this.fallback = fallback;
    }

    @Nullable
    String problem() {
        Explanation known = problem;
        return known == null ? null : known.message;
    }

    void forgetProblem() {
        if (problem != null) {
            problem = null;
        }
    }

    /**
     * Logs that an outage has begun, and what is wrong.
     *
     * @param whyNotAsked why the store was not asked; empty if it was. That is wrong if no failure explains the outage
     */
    void outageBegan(String whyNotAsked) {
        String symptom =
                whyNotAsked.isEmpty() ? "no reply by the deadline" : "it was not asked, because " + whyNotAsked;
        missedDeadlines.clear();
        missedWhileStalled.set(0);
        LOG.warn("Falling back to {}; {} is unavailable: {}", fallback, store, Text.line(firstCause(symptom)));
    }

    private synchronized String firstCause(String symptom) {
        Explanation known = problem;
        if (known == null) {
            known = new Explanation(symptom, Kind.UNANSWERED, true);
            problem = known;
        }
        outageCauses = new HashSet<>();
        boolean unused = noteCause(known);
        return known.message;
    }

    void outageEnded() {
        synchronized (this) {
            outageCauses = null;
        }
        LOG.info("{} is available again; {} no longer decides", store, fallback);
    }

    /**
     * Logs why a request failed if that is another cause of the present outage. The first attempts to connect may fail
     * for another reason than all later ones, for example because this process lacks CPU time.
     */
    void failed(Throwable error) {
        if (LOG.isDebugEnabled()) {
            LOG.debug("{} failed: {}", store, Text.line(error.toString()));
        }
        Explanation known = explain(error);
        if (noteCause(known)) {
            boolean isReached = !known.isUnexplained && known.kind != Kind.UNREACHABLE;
            LOG.warn(isReached ? "{} cannot decide: {}" : "{} cannot be reached: {}", store, Text.line(known.message));
        }
    }

    /** Returns whether an error is a symptom only, such as the loss of a connection. */
    static boolean isUnexplained(Throwable error) {
        Kind kind = Kind.of(error);
        return kind.isUnexplained() || (kind != Kind.UNREACHABLE && error.getCause() instanceof SharedFailure);
    }

    /** Keeps the better explanation: that a store cannot be reached explains why it does not reply. */
    private synchronized Explanation explain(Throwable error) {
        Explanation known = problem;
        boolean isUnexplained = isUnexplained(error);
        if (known == null || known.kind != Kind.UNREACHABLE || !isUnexplained) {
            String message = error.getMessage();
            known = new Explanation(message == null ? error.toString() : message, Kind.of(error), isUnexplained);
            problem = known;
        }
        return known;
    }

    /** Notes a cause that is about to be logged; returns whether there is an outage, and the log does not name it. */
    private synchronized boolean noteCause(Explanation known) {
        return outageCauses != null
                && !known.isUnexplained
                && outageCauses.size() < MOST_CAUSES
                && outageCauses.add(causeIn(known.message));
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

    /** Counts a missed deadline without an outage, for a log line at most once a minute. */
    void missedDeadline(boolean stalled) {
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

    /** Logs at most once a minute that another program has written keys of the store, perhaps many. */
    void foreignValue(String foreign) {
        if (loggedCauses.add("foreign value")) {
            LOG.warn("{} cannot decide on a key; falling back to {} for it: {}", store, fallback, Text.line(foreign));
        }
    }

    /** Logs that the store refused a refund or a reset, at most once a minute for each cause. */
    void refused(Throwable error) {
        String message = Text.line(error.getMessage());
        if (loggedCauses.add(causeIn(message))) {
            LOG.warn("{} refuses an operation; decisions are not affected: {}", store, message);
        }
    }

    /** What is wrong with the store, and how much that says. */
    private record Explanation(String message, Kind kind, boolean isUnexplained) {}
}
