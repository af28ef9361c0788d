package io.github.spillgate.redis;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Claim;
import io.github.spillgate.CounterState;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import io.lettuce.core.RedisCommandExecutionException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Decisions that leave for Redis together: what {@code decide.lua} is asked, and what it answers to each.
 *
 * <p>Whoever asks the very same as somebody before him is put together with him, as one question that is asked several
 * times. The answer says how often it is allowed, and the first ones get it.
 */
final class Batch {
    // Design notes.
    //
    // What has to hold: the answers are those that Redis would have given one after another, in the order in which the
    // decisions came, all at the instant of the script.
    //
    // The script decides the questions in their order, so what is not put together is in order anyway. A decision that
    // is put together with an earlier question jumps ahead of all questions between the two. That changes nothing if
    // none of these touches a count that it touches. So for each count the batch knows the last question that has
    // touched it, and a decision joins a question only if that is the last one of each of its counts.
    //
    // To ask the same question n times leads to k allowed and then n − k denied: once it is denied nothing has
    // changed, and it is denied again. Where denied requests count, something has changed; those are never put
    // together. Nor are those that take nothing.

    /** So many decisions at most are put together, so that the answers can be told by several threads. */
    static final int MOST_OF_SAME = 64;

    private static final int LOG = 1;
    private static final int COUNTER = 2;
    private static final int ON_THE_CLOCK = 3;

    private static final int DENIED = 1;
    private static final int FOREIGN = 2;
    private static final int UNWRITTEN = 3;
    private static final int LATE = 4;

    /** How far the deadlines of equal decisions may be apart, in nanoseconds. */
    private static final long NEAR = TimeUnit.MILLISECONDS.toNanos(10);

    private static final int TIME_LENGTH = 7;
    private static final int COUNT_LENGTH = 4 + 1 + 3 * 7;
    private static final int LIMIT_LENGTH = 1 + 7 + 6 + 6 + 1;
    private static final int LIKELY_QUESTION_LENGTH = 13 + 11;

    private final byte[] prefix;
    private final Map<Object, BatchKey> counts;
    private final List<byte[]> keys;
    private final List<Limit> limits = new ArrayList<>();
    private final List<DecisionGroup> questions;
    private int size;
    private int replyLength = TIME_LENGTH;

    /** The clock of the server to which this was sent last. */
    private volatile @Nullable RedisClock clock;

    /**
     * A batch.
     *
     * @param prefix what the names of counts begin with
     * @param likely how many decisions there may be
     */
    Batch(byte[] prefix, int likely) {
        this.prefix = prefix;
        this.counts = new HashMap<>(2 * likely);
        this.keys = new ArrayList<>(likely);
        this.questions = new ArrayList<>(likely);
    }

    void add(PendingDecision asked) {
        size++;
        List<Claim> claims = asked.claims();
        BatchKey[] touched = new BatchKey[claims.size()];
        for (int i = 0; i < touched.length; i++) {
            touched[i] = count(claims.get(i));
        }
        DecisionGroup last = touched[0].last;
        if (last != null && last.canBeJoinedBy(asked, touched)) {
            last.join(asked);
            return;
        }
        DecisionGroup question = new DecisionGroup(asked, touched, replyLength);
        questions.add(question);
        replyLength += COUNT_LENGTH * touched.length;
        for (BatchKey count : touched) {
            count.last = question;
        }
    }

    private BatchKey count(Claim claim) {
        BatchKey known = counts.get(claim.handle());
        if (known != null) {
            return known;
        }
        BatchKey count = new BatchKey(keys.size());
        counts.put(claim.handle(), count);
        keys.add(nameOf(claim));
        return count;
    }

    @SuppressWarnings(
            "deprecation") // of each character its low byte, which is all there is of an identity; and no copy between
    private byte[] nameOf(Claim claim) {
        String identity = claim.identity();
        byte[] name = new byte[prefix.length + identity.length()];
        System.arraycopy(prefix, 0, name, 0, prefix.length);
        identity.getBytes(0, identity.length(), name, prefix.length);
        return name;
    }

    /** The same, each question by itself, in their order; nobody is told twice. */
    List<Batch> apart() {
        List<Batch> apart = new ArrayList<>(questions.size());
        for (DecisionGroup question : questions) {
            Batch one = new Batch(prefix, 1);
            for (PendingDecision asked = question.first; asked != null; asked = asked.takeNextOfSame()) {
                one.add(asked);
            }
            apart.add(one);
        }
        return apart;
    }

    int numberOfQuestions() {
        return questions.size();
    }

    /** How many decisions. */
    int size() {
        return size;
    }

    /** The names of the counts that they are about. */
    byte[][] keys() {
        return keys.toArray(byte[][]::new);
    }

    int numberOfCounts() {
        return keys.size();
    }

    /** Returns what the script is asked about them, on a server with this clock. */
    byte[] argument(RedisClock server) {
        clock = server;
        Packed.Writer asked = new Packed.Writer(LIKELY_QUESTION_LENGTH * questions.size());
        for (DecisionGroup question : questions) {
            List<Claim> claims = question.first.claims();
            asked.put(question.first.takes() ? 1 : 0, 1)
                    .put(question.times, 4)
                    .put(question.deadline == PendingDecision.NO_DEADLINE ? 0 : server.microsAt(question.deadline), 7)
                    .put(claims.size(), 1);
            for (int i = 0; i < question.touched.length; i++) {
                Claim claim = claims.get(i);
                asked.put(question.touched[i].number + 1, 2)
                        .put(numberOf(claim.limit()) + 1, 2)
                        .put(claim.permits(), 7);
            }
        }
        Packed.Writer all = new Packed.Writer(2 + LIMIT_LENGTH * limits.size() + asked.length());
        all.put(limits.size(), 2);
        for (Limit limit : limits) {
            all.put(kind(limit), 1)
                    .put(limit.permits(), 7)
                    .put(limit.window().toMillis(), 6)
                    .put(limit.resolution().toMillis(), 6)
                    .put(limit.isCountingDenied() ? 1 : 0, 1);
        }
        return all.put(asked).toBytes();
    }

    /** Limits are few, and mostly one and the same. */
    private int numberOf(Limit limit) {
        int known = limits.lastIndexOf(limit);
        if (known >= 0) {
            return known;
        }
        limits.add(limit);
        return limits.size() - 1;
    }

    private static int kind(Limit limit) {
        return limit.algorithm() == Algorithm.LOG ? LOG : limit.isAlignedToClock() ? ON_THE_CLOCK : COUNTER;
    }

    /** Learns the server's time from a reply that has just arrived. */
    void heard(byte[] reply) {
        RedisClock server = clock;
        if (server != null && reply.length >= TIME_LENGTH) {
            server.heard(Packed.take(reply, 0, TIME_LENGTH));
        }
    }

    /** How many pieces the answers can be told in, each by a thread of its own. */
    int pieces() {
        return Math.min(questions.size(), (size + MOST_OF_SAME - 1) / MOST_OF_SAME);
    }

    /** Answers those in one of the pieces. */
    void answer(byte[] reply, int piece) {
        for (DecisionGroup question : questionsIn(piece)) {
            question.answer(reply);
        }
    }

    /** Why something could not be written, as Redis says; empty where all was. */
    String whyUnwritten(byte[] reply) {
        return reply.length <= replyLength
                ? ""
                : new String(reply, replyLength, reply.length - replyLength, StandardCharsets.UTF_8);
    }

    /** Tells those in one of the pieces that the command has failed. */
    void fail(Throwable e, int piece) {
        for (DecisionGroup question : questionsIn(piece)) {
            question.fail(e);
        }
    }

    private List<DecisionGroup> questionsIn(int piece) {
        int number = questions.size();
        return questions.subList(number * piece / pieces(), number * (piece + 1) / pieces());
    }

    /** A count that decisions of this batch touch. */
    private static final class BatchKey {

        private final int number;
        private @Nullable DecisionGroup last;

        BatchKey(int number) {
            this.number = number;
        }
    }

    /** What is asked, once or several times. */
    private final class DecisionGroup {

        private final PendingDecision first;
        private final BatchKey[] touched;

        /** Where the reply speaks of it. */
        private final int at;

        private PendingDecision last;
        private int times = 1;
        private long deadline;

        DecisionGroup(PendingDecision asked, BatchKey[] touched, int at) {
            this.first = asked;
            this.touched = touched;
            this.at = at;
            this.last = asked;
            this.deadline = asked.deadline();
        }

        boolean canBeJoinedBy(PendingDecision asked, BatchKey[] counts) {
            if (!first.takes()
                    || !asked.takes()
                    || times == MOST_OF_SAME
                    || !isAbout(asked.deadline())
                    || counts.length != touched.length) {
                return false;
            }
            for (int i = 0; i < counts.length; i++) {
                Claim mine = first.claims().get(i);
                Claim other = asked.claims().get(i);
                if (counts[i] != touched[i]
                        || counts[i].last != this
                        || mine.permits() != other.permits()
                        || mine.limit().isCountingDenied()
                        || !mine.limit().equals(other.limit())) {
                    return false;
                }
            }
            return true;
        }

        /** Returns whether this deadline is near that of the group. The group is refused with its earliest member. */
        private boolean isAbout(long other) {
            return other == deadline
                    || (other != PendingDecision.NO_DEADLINE
                            && deadline != PendingDecision.NO_DEADLINE
                            && Math.abs(other - deadline) <= NEAR);
        }

        void join(PendingDecision asked) {
            last.nextOfSame(asked);
            last = asked;
            times++;
            deadline = asked.deadline() - deadline < 0 ? asked.deadline() : deadline;
        }

        void answer(byte[] reply) {
            for (int i = 0; i < touched.length; i++) {
                int verdict = reply[at + i * COUNT_LENGTH + 4];
                if (verdict == FOREIGN) {
                    fail(Errors.foreign(keys.get(touched[i].number), null));
                    return;
                }
                if (verdict == UNWRITTEN) {
                    fail(new RedisCommandExecutionException(whyUnwritten(reply)));
                    return;
                }
                if (verdict == LATE) {
                    retryOrFail();
                    return;
                }
            }
            long allowed = Packed.take(reply, at, 4);
            int nth = 1;
            for (PendingDecision asked = first; asked != null; asked = asked.takeNextOfSame()) {
                answer(asked, reply, nth <= allowed, Math.max(0, allowed - nth));
                nth++;
            }
        }

        /** What he has asked may be such that nothing can be made of the answer; the others have to get theirs. */
        private void answer(PendingDecision asked, byte[] reply, boolean isAllowed, long allowedAfter) {
            Decision decision;
            try {
                decision = decision(reply, asked, isAllowed, allowedAfter);
            } catch (RuntimeException e) {
                asked.fail(new LimitStoreException("the answer of Redis cannot be read: " + e.getMessage(), e));
                return;
            }
            asked.answer(decision);
        }

        /** The answer to one after whom so many more are allowed. */
        private Decision decision(byte[] reply, PendingDecision asked, boolean isAllowed, long allowedAfter) {
            long micros = Packed.take(reply, 0, TIME_LENGTH);
            long now = micros / 1_000;
            List<Claim> claims = asked.claims();
            Usage[] usages = new Usage[touched.length];
            for (int i = 0; i < usages.length; i++) {
                usages[i] = usage(reply, at + i * COUNT_LENGTH, claims.get(i), isAllowed, allowedAfter, now);
            }
            return asked.takes()
                    ? Decision.ofTake(Source.REDIS, now, micros, List.of(usages))
                    : Decision.ofPeek(Source.REDIS, now, List.of(usages));
        }

        private Usage usage(byte[] reply, int from, Claim claim, boolean isAllowed, long allowedAfter, long now) {
            boolean violated = !isAllowed && reply[from + 4] == DENIED;
            long takenAfter = allowedAfter * claim.permits();
            long one = Packed.take(reply, from + 5, 7);
            long two = Packed.take(reply, from + 12, 7);
            long three = Packed.take(reply, from + 19, 7);
            return claim.limit().algorithm() == Algorithm.LOG
                    ? Usage.of(claim, one - takenAfter, violated, isAllowed ? now : two, three)
                    : Usage.ofCounter(claim, new CounterState(three, one, two - takenAfter), violated, !isAllowed, now);
        }

        void fail(Throwable e) {
            for (PendingDecision asked = first; asked != null; asked = asked.takeNextOfSame()) {
                asked.fail(Errors.translate(e));
            }
        }

        /** Redis has executed nothing. By its clock the earliest deadline had passed, or may have. */
        private void retryOrFail() {
            RedisClock server = clock;
            PendingDecision next;
            for (PendingDecision asked = first; asked != null; asked = next) {
                // First, because a retry puts it into another group.
                next = asked.takeNextOfSame();
                try {
                    if (server == null || server.isAfter(asked.deadline()) || !asked.mayRetry()) {
                        asked.fail(new LimitStoreDeadlineException(
                                "Redis did not decide: it received the request after the deadline"));
                    } else {
                        asked.retry();
                    }
                } catch (RuntimeException e) {
                    asked.fail(Errors.translate(e));
                }
            }
        }
    }
}
