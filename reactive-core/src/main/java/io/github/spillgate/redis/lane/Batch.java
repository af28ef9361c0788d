package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest.Mode;
import io.github.spillgate.spi.StoreUsage;
import io.lettuce.core.RedisCommandExecutionException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Decisions that Redis makes in one command: builds the request to {@code decide.lua}, and answers each decision from
 * the reply.
 *
 * <p>Equal decisions form a group. The script decides a group once, and replies how many of its decisions are granted:
 * the first ones.
 */
public final class Batch {
    // Design notes.
    //
    // Invariant: the answers are those that Redis would give one after another, in the order in which the decisions
    // were added, all at the instant of the script.
    //
    // The script decides the groups in their order. A decision that joins an earlier group overtakes all groups between
    // the two. That changes no answer if none of those touches a count of the decision. So the batch records the last
    // group that touches each count, and a decision joins a group only if that is the last one of all its counts.
    //
    // Of n equal decisions the first k are granted and the others are denied: a denial changes nothing, so the next one
    // is denied too. If denied requests count, a denial changes something, so such decisions never join a group. Nor
    // do peeks and leases. Those on concurrency limits are never equal, because each of them has an id.

    /** The highest number of decisions in a group, so that several threads can emit the answers of a batch. */
    static final int MOST_IN_GROUP = 64;

    /** The greatest difference between the deadlines in a group, in nanoseconds. */
    private static final long NEAR = TimeUnit.MILLISECONDS.toNanos(10);

    private final CountKeys countKeys;
    private final Map<Object, BatchCount> counts;
    private final List<byte[]> keys;
    private final List<DecisionGroup> groups;
    private int size;
    private int usages;

    /** The clock of the server to which the batch was sent last. */
    private volatile @Nullable StoreClock clock;

    Batch(CountKeys countKeys, int expectedSize) {
        this.countKeys = countKeys;
        this.counts = new HashMap<>(2 * expectedSize);
        this.keys = new ArrayList<>(expectedSize);
        this.groups = new ArrayList<>(expectedSize);
    }

    void add(PendingDecision decision) {
        size++;
        List<Claim> claims = decision.claims();
        BatchCount[] touched = new BatchCount[claims.size()];
        for (int i = 0; i < touched.length; i++) {
            touched[i] = count(claims.get(i));
        }
        DecisionGroup last = touched[0].lastGroup;
        if (last != null && last.accepts(decision, touched)) {
            last.join(decision);
            return;
        }
        DecisionGroup group = new DecisionGroup(decision, touched, usages);
        groups.add(group);
        usages += touched.length;
        for (BatchCount count : touched) {
            count.lastGroup = group;
        }
    }

    private BatchCount count(Claim claim) {
        BatchCount known = counts.get(claim.handle());
        if (known != null) {
            return known;
        }
        // First, because it may fail, and the next key must not take its place.
        byte[] key = countKeys.count(claim);
        BatchCount count = new BatchCount(keys.size());
        counts.put(claim.handle(), count);
        keys.add(key);
        return count;
    }

    /** Moves each group to a batch of its own, in their order. This batch must not answer any more. */
    List<Batch> split() {
        List<Batch> batches = new ArrayList<>(groups.size());
        for (DecisionGroup group : groups) {
            Batch batch = new Batch(countKeys, 1);
            for (PendingDecision each = group.first; each != null; each = each.removeNext()) {
                batch.add(each);
            }
            batches.add(batch);
        }
        return batches;
    }

    int numberOfGroups() {
        return groups.size();
    }

    int size() {
        return size;
    }

    public byte[][] keys() {
        return keys.toArray(byte[][]::new);
    }

    int numberOfCounts() {
        return keys.size();
    }

    /** Returns the request to the script, for a server with this clock. */
    public byte[] request(StoreClock server) {
        clock = server;
        ScriptRequest request = new ScriptRequest(ScriptRequest.GROUP_LENGTH * groups.size(), server.millis());
        for (DecisionGroup group : groups) {
            group.addTo(request, server);
        }
        return request.toBytes();
    }

    /** Records the server's time in a reply that has just arrived. */
    void recordTime(ScriptReply reply) {
        StoreClock server = clock;
        if (server != null && reply.hasTime()) {
            server.record(reply.micros());
        }
    }

    /** Returns parts, of which each can be answered by another thread. */
    List<BatchPart> parts() {
        int number = Math.min(groups.size(), (size + MOST_IN_GROUP - 1) / MOST_IN_GROUP);
        if (number == 1) {
            return List.of(new BatchPart(groups));
        }
        List<BatchPart> parts = new ArrayList<>(number);
        for (int i = 0; i < number; i++) {
            parts.add(new BatchPart(groups.subList(groups.size() * i / number, groups.size() * (i + 1) / number)));
        }
        return parts;
    }

    /** Returns why Redis could not write something; empty if everything was written. */
    String whyUnwritten(ScriptReply reply) {
        return reply.textAfter(usages);
    }

    static final class BatchPart {

        private final List<DecisionGroup> groups;

        private BatchPart(List<DecisionGroup> groups) {
            this.groups = groups;
        }

        void answer(ScriptReply reply) {
            for (DecisionGroup group : groups) {
                group.answer(reply);
            }
        }

        void fail(Throwable error) {
            for (DecisionGroup group : groups) {
                group.fail(error);
            }
        }
    }

    /** A count of this batch. */
    private static final class BatchCount {

        private final int index;
        private @Nullable DecisionGroup lastGroup;

        BatchCount(int index) {
            this.index = index;
        }
    }

    /** One decision, or several equal ones. */
    private final class DecisionGroup {

        private final PendingDecision first;
        private final BatchCount[] touched;

        /** The index of its first usage in the reply. */
        private final int firstUsage;

        private PendingDecision last;
        private int times = 1;

        /** The earliest deadline: a late group is refused as a whole. */
        private long deadline;

        DecisionGroup(PendingDecision decision, BatchCount[] touched, int firstUsage) {
            this.first = decision;
            this.touched = touched;
            this.firstUsage = firstUsage;
            this.last = decision;
            this.deadline = decision.deadline();
        }

        /** Returns whether a decision on these counts may join this group. */
        boolean accepts(PendingDecision decision, BatchCount[] others) {
            if (first.mode() != Mode.TAKE
                    || decision.mode() != Mode.TAKE
                    || times == MOST_IN_GROUP
                    || !isNear(decision.deadline())
                    || others.length != touched.length) {
                return false;
            }
            for (int i = 0; i < others.length; i++) {
                Claim mine = first.claims().get(i);
                Claim other = decision.claims().get(i);
                if (others[i] != touched[i]
                        || others[i].lastGroup != this
                        || mine.permits() != other.permits()
                        || mine.limit().isCountingDenied()
                        || mine.limit().holdsPermits()
                        || !mine.limit().equals(other.limit())) {
                    return false;
                }
            }
            return true;
        }

        private boolean isNear(long other) {
            return other == deadline
                    || (other != LimitStore.NO_DEADLINE
                            && deadline != LimitStore.NO_DEADLINE
                            && Math.abs(other - deadline) <= NEAR);
        }

        void join(PendingDecision decision) {
            last.setNext(decision);
            last = decision;
            times++;
            deadline = decision.deadline() - deadline < 0 ? decision.deadline() : deadline;
        }

        void addTo(ScriptRequest request, StoreClock server) {
            List<Claim> claims = first.claims();
            long deadlineMicros = deadline == LimitStore.NO_DEADLINE ? 0 : server.microsAt(deadline);
            int number = first.mode() == Mode.LEASE ? first.parts() : times;
            request.addGroup(first.mode(), number, deadlineMicros, claims.size());
            for (int i = 0; i < touched.length; i++) {
                Claim claim = claims.get(i);
                if (claim.limit().takesPermits()) {
                    request.addClaim(touched[i].index, claim);
                } else {
                    request.addBan(touched[i].index, claim, claims);
                }
            }
        }

        void answer(ScriptReply reply) {
            for (int i = 0; i < touched.length; i++) {
                switch (reply.status(firstUsage + i)) {
                    case FOREIGN -> {
                        fail(Errors.foreign(keys.get(touched[i].index), null));
                        return;
                    }
                    case UNWRITTEN -> {
                        fail(new RedisCommandExecutionException(whyUnwritten(reply)));
                        return;
                    }
                    case LATE -> {
                        retryOrFail();
                        return;
                    }
                    case FREE, DENIED -> {}
                }
            }
            long granted = reply.granted(firstUsage);
            int nth = 1;
            for (PendingDecision each = first; each != null; each = each.removeNext()) {
                answer(each, reply, nth <= granted, Math.max(0, granted - nth));
                nth++;
            }
        }

        /** An unreadable answer fails its own decision, and not the others. */
        private void answer(PendingDecision pending, ScriptReply reply, boolean isGranted, long grantedLater) {
            StoreDecision decision;
            try {
                decision = decision(reply, pending, isGranted, grantedLater);
            } catch (RuntimeException e) {
                pending.fail(new LimitStoreException(
                        Kind.REJECTED, "the answer of Redis cannot be read: " + e.getMessage(), e));
                return;
            }
            pending.answer(decision);
        }

        private StoreDecision decision(
                ScriptReply reply, PendingDecision pending, boolean isGranted, long grantedLater) {
            List<Claim> claims = pending.claims();
            if (pending.mode() == Mode.LEASE) {
                Claim leased = claims.get(0).withPermits(reply.granted(firstUsage));
                return StoreDecision.ofLease(reply.time(), reply.usage(firstUsage, leased));
            }
            StoreUsage[] limits = new StoreUsage[touched.length];
            for (int i = 0; i < limits.length; i++) {
                limits[i] = reply.usage(firstUsage + i, claims.get(i), isGranted, grantedLater);
            }
            return pending.mode() == Mode.TAKE
                    ? StoreDecision.ofTake(reply.time(), List.of(limits))
                    : StoreDecision.ofPeek(reply.time(), List.of(limits));
        }

        void fail(Throwable error) {
            for (PendingDecision each = first; each != null; each = each.removeNext()) {
                each.fail(Errors.translate(error));
            }
        }

        /** Redis has executed nothing. By its clock the earliest deadline had passed, or may have. */
        private void retryOrFail() {
            StoreClock server = clock;
            PendingDecision next;
            for (PendingDecision each = first; each != null; each = next) {
                // First, because a retry puts the decision into another group.
                next = each.removeNext();
                try {
                    if (server == null || server.isAfter(each.deadline()) || !each.mayRetry()) {
                        each.fail(new LimitStoreException(
                                Kind.LATE, "Redis did not decide: it received the request after the deadline"));
                    } else {
                        each.retry();
                    }
                } catch (RuntimeException e) {
                    each.fail(Errors.translate(e));
                }
            }
        }
    }
}
