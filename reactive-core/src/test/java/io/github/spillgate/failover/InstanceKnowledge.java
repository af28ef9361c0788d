package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.failover.AdmissionOracle.Allowances;
import io.github.spillgate.failover.AdmissionOracle.Executed;
import io.github.spillgate.failover.AdmissionOracle.KeyHistory;
import io.github.spillgate.failover.AdmissionOracle.Member;
import io.github.spillgate.failover.AdmissionOracle.Request;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Predicate;

/**
 * What one instance must know of one key, from the replies to it: what is in use, and what the store has lost. Part of
 * {@link AdmissionOracle}.
 */
final class InstanceKnowledge {
    // Design notes.
    //
    // An instance must notice a loss if a newer reply counts fewer permits, without those of the request, than the
    // store has certainly granted to it. That is its evidence: in a log, a permit counts for W less two slots of
    // OwnUsage, and in a counter as if it had begun to fade with the start of its slot. The same applies to the reply
    // to a restoration, because the next one may not show the loss any more. Then it must send a restoration in the
    // same millisecond, and what it knew by its last reply is not lost any more once that is executed. Allowances:
    //
    //   kept       What the store has granted between the loss and the reply by which an instance notices it: that is
    //              not counted in this instance until the restoration is done, nor for replies from before that. It
    //              is what the reply counts, without those of the lost permits that the store certainly has again. If
    //              another instance has restored them, it may have taken indistinct ones for them.
    //   combined   After a restoration, all that the instance was granted before is evidence of as many permits as the
    //              newest reply then has. The others do not count any more, and it is not known which these are: so
    //              their number is subtracted from the evidence until all have left the window. What was charged up to
    //              that reply, and has a later reply, is no evidence at all: the newest reply included it. So is what
    //              the reconciliation has charged that showed the loss: the restoration may be done before it is noted.
    //   exchanged  Of two grants of one millisecond, one was handed over before the other was made, and is refunded.
    //              The refund may remove the other from the ledger, and the charge of the first then stands for it.
    //              Only for the share: together they count as much.
    //   stale      What an instance was granted and has been lost without its notice. Until its time is over, it takes
    //              as many later permits of others for its own, and what it restores may expire too early.

    /** The permits of a slot of OwnUsage count as evidence only while the whole slot is within the window. */
    private static final int SLOTS = OwnUsage.STEPS;

    private final Member member;
    private final KeyHistory key;
    private final Limit limit;
    private final LongSupplier clock;

    // The newest reply.

    private long newestAt = Long.MIN_VALUE;
    private long newestUsed;

    /** The most permits in use of that reply and of those that have arrived since. */
    private long highestUsed;

    /** When all that is in use then has left the window. */
    private long newestEnd;

    private List<Request> newest = List.of();

    // What the store has lost.

    /** What it knows to be lost, and when that was restored, as a step of the store. */
    private Set<Request> lost = Set.of();

    private long restoredStep = Long.MAX_VALUE;
    private long kept;

    /** Losses that were noticed, and for which no restoration was sent. */
    private final Deque<List<Request>> unsent = new ArrayDeque<>();

    /** What was sent to be restored, by the time of the reply that had confirmed it. */
    private final Map<Long, List<Request>> sent = new HashMap<>();

    private long lastSent;

    /** The time of the reply that showed the last loss: earlier grants are no evidence of another one. */
    private long evidenceSince = Long.MIN_VALUE;

    /** What was charged up to this time is no evidence if its reply is later than that to the restoration. */
    private long combinedUntil = Long.MIN_VALUE;

    /** The permits until that time that are no evidence, because the store may count them as one with others. */
    private long combined;

    /** The permits of the reconciliation that showed the last loss. */
    private long reconciledThen;

    /** Grants that are no evidence of a loss until they are restored. */
    private List<Request> forgotten = List.of();

    /** Permits of local grants that were refunded: such a refund removes the oldest ones. */
    private final Allowances refunds;

    // What the instance has granted itself.

    /** How many permits the store had not charged, each time that the instance granted some. */
    private final Allowances uncharged;

    /** Permits of refunded grants that were handed over in the millisecond in which they were granted. */
    private final Allowances exchanged;

    /** The permits of each reconciliation, with those of cancelled requests, and the time of the last one. */
    private final Map<String, Charged> reconciled = new HashMap<>();

    InstanceKnowledge(Member member, KeyHistory key, Limit limit, LongSupplier clock) {
        this.member = member;
        this.key = key;
        this.limit = limit;
        this.clock = clock;
        this.refunds = new Allowances(limit, clock);
        this.uncharged = new Allowances(limit, clock);
        this.exchanged = new Allowances(limit, clock);
    }

    private record Charged(long at, long permits) {}

    private long window() {
        return limit.window().toMillis();
    }

    private static Request requestOf(Call call) {
        return call.context().getOrDefault(Request.class, null);
    }

    private static boolean isOf(Reconciliation reconciliation, KeyHistory key) {
        return reconciliation.claim().key().equals(key.name);
    }

    // What the oracle asks.

    /** The requests that the store had charged at the newest reply. */
    List<Request> newest() {
        return newest;
    }

    Set<Request> lost() {
        return lost;
    }

    /** Whether the lost permits are not restored. */
    boolean isPending() {
        return restoredStep == Long.MAX_VALUE;
    }

    /** Whether the store had not restored the lost permits before it executed a step. */
    boolean isPendingAt(long step) {
        return step < restoredStep;
    }

    /** What the store has granted between the loss and the reply that showed it. */
    long kept() {
        return kept;
    }

    /** Losses that were noticed, and for which no restoration was sent. */
    Deque<List<Request>> unsent() {
        return unsent;
    }

    /** What the instance has asked to be restored. */
    List<Request> sent(LostPermits permits) {
        return sent.getOrDefault(permits.since(), List.of());
    }

    boolean hasRefunds() {
        return !refunds.isEmpty();
    }

    /** Returns the most permits in a window that the instance had granted itself at any one time. */
    long mostUncharged(long time) {
        return uncharged.mostWithin(window(), time);
    }

    /** Returns by how much the permits granted here may exceed the share. */
    long exchanged() {
        return exchanged.recent();
    }

    // What happens to its requests.

    /** The instance has granted permits itself, with which so many are not charged. */
    void granted(long notCharged) {
        uncharged.add(notCharged);
    }

    /** A refund may remove other permits of the instance. */
    void refunded(long permits) {
        refunds.add(permits);
    }

    void refundedInExchange(long permits) {
        exchanged.add(permits);
    }

    /** Returns whether a grant of the store is evidence. */
    boolean isEvidence(long chargedAt, long permits) {
        return chargedAt >= evidenceSince && !isCombined(chargedAt, permits);
    }

    /** Returns whether the newest reply at a restoration had permits of which the instance learns only now. */
    boolean isCombined(long chargedAt, long permits) {
        boolean isCombined = chargedAt <= combinedUntil;
        combined += isCombined ? permits : 0;
        return isCombined;
    }

    /** The highest share that this instance may compute. */
    double share(int instances) {
        if (instances <= 1) {
            return 1;
        }
        double own = 0.5; // it is rounded
        for (Request one : key.requests) {
            if (one.by == member && one.executedAllowed) {
                own += one.permits * mostInUse(one.chargedAt);
            }
        }
        for (Charged one : reconciled.values()) {
            own += one.permits * mostInUse(one.at);
        }
        double even = 0.1 * limit.permits();
        return Math.min(1, (own + even / instances) / (Math.max(own, (double) newestUsed) + even));
    }

    /** Returns the highest part of a permit that counts in the use of this instance. */
    private double mostInUse(long chargedAt) {
        long window = window();
        if (!limit.isAlignedToClock()) {
            return chargedAt > newestAt - window ? 1 : 0;
        }
        // A slot of OwnUsage may be in two windows.
        long slot = 2 * window / SLOTS + 1;
        long start = newestAt - newestAt % window;
        if (chargedAt >= start - slot) {
            return 1;
        }
        return chargedAt >= start - window - slot ? 1 - (newestAt - start) / (double) window : 0;
    }

    // The connection.

    /** The instance has sent a request to restore permits. */
    void restores(LostPermits permits) {
        if (sent.containsKey(permits.since())) {
            return;
        }
        if (unsent.isEmpty()) {
            // It has noticed what it need not have noticed, and may restore what was refunded since.
            unsent.add(List.of());
            newest.forEach(one -> one.restored = true);
            if (!isPending()) {
                // What was restored before may be lost again.
                lost = Set.of();
            }
            forgetEvidence();
            forgotten = List.of();
            // The reply that showed it is the newest one.
            evidenceSince = newestAt;
        }
        sent.put(permits.since(), unsent.remove());
        lastSent = permits.since();
    }

    private void forgetEvidence() {
        forgotten = key.requests.stream()
                .filter(one -> one.by == member && one.evidence)
                .toList();
        forgotten.forEach(one -> one.evidence = false);
    }

    /** The instance has got a reply. */
    void replied(Call call, StoreDecision reply, StoreUsage usage, Executed then) {
        long at = reply.at().toEpochMilli();
        boolean isNewestRestoration =
                call.kind() == Call.Kind.RESTORE && ((LostPermits) call.request()).since() == lastSent;
        boolean mayNotice = call.kind() != Call.Kind.RESTORE || (isNewestRestoration && isPending());
        boolean isNoticed = mayNotice && notices(call, reply, usage, then);
        Request request = requestOf(call);
        if (call.kind() == Call.Kind.TAKE && request != null && reply.isAllowed()) {
            request.chargeKnown = true;
            if (request.local || request.ignored) {
                isCombined(request.chargedAt, request.permits);
            }
        }
        if (call.kind() == Call.Kind.RECONCILE) {
            reconciled(call, reply.stamp() > 0, at);
        }
        learn(at, usage, then.charged().get(key));
        if (isNewestRestoration && !isNoticed) {
            restored(reply, then);
        }
    }

    private void learn(long at, StoreUsage usage, List<Request> charged) {
        long used = usage.used();
        highestUsed = at > newestAt ? used : Math.max(highestUsed, used);
        if (at > newestAt || (at == newestAt && used > newestUsed)) {
            newestAt = at;
            newestUsed = used;
            newestEnd = usage.wholeAt().toEpochMilli();
            newest = charged;
        }
    }

    private void reconciled(Call call, boolean isChargedNow, long repliedAt) {
        for (Reconciliation reconciliation : call.reconciliations()) {
            if (isOf(reconciliation, key)) {
                reconciled.put(reconciliation.id(), new Charged(reconciliation.lastMillis(), reconciliation.permits()));
            }
            for (Request one : key.requests) {
                if (!one.reconciled && reconciliation.id().equals(one.batch)) {
                    one.reconciled = true;
                    // Charged before a loss that was noticed since, it may be lost too.
                    one.evidence = isChargedNow && isEvidence(repliedAt, one.permits);
                    one.certainAt = one.at;
                }
            }
        }
    }

    /** The reply to the newest restoration; an earlier one only shows the usage. */
    private void restored(StoreDecision reply, Executed then) {
        restoredStep = then.step();
        if (reply.stamp() == 0) {
            return;
        }
        combinedUntil = newestAt;
        combined = Math.max(0, chargedWithin() - highestUsed) + reconciledThen;
        // Refunds and losses before the restoration are too many cases to follow.
        if (clock.getAsLong() == evidenceSince) {
            forgotten.forEach(one -> one.evidence = true);
        }
    }

    /** Returns how many permits the store has charged to this instance that may be in use in the newest reply. */
    private long chargedWithin() {
        long since = newestAt - limit.reach().toMillis();
        return key.sum(one -> one.by == member && one.executedAllowed && one.chargedAt > since)
                + reconciled.values().stream()
                        .filter(one -> one.at > since)
                        .mapToLong(Charged::permits)
                        .sum();
    }

    // Losses.

    /** Returns whether the instance must notice a loss. */
    private boolean notices(Call call, StoreDecision reply, StoreUsage usage, Executed then) {
        long at = reply.at().toEpochMilli();
        double charged = reply.isCharged() ? usage.claim().permits() : chargedBy(call, reply);
        long has = usage.used() - (long) Math.ceil(charged - 1e-6);
        long most = usage.used() - (reply.stamp() > 0 ? (long) charged : 0);
        if (at <= newestAt || most >= evidence(at)) {
            return false;
        }
        List<Request> known = newest;
        long mayExpireEarly = stale();
        if (isPending()) {
            // Of two losses before the first restoration, the larger one is restored.
            mayExpireEarly += lost.isEmpty() ? 0 : AdmissionOracle.sum(known, Request::counts);
        }
        key.allowances.add(mayExpireEarly);
        Set<Request> all = new LinkedHashSet<>(isPending() ? lost : Set.of());
        all.addAll(known);
        lost = all;
        restoredStep = Long.MAX_VALUE;
        reconciledThen = AdmissionOracle.sum(reconciledBy(call), Request::counts);
        Request own = requestOf(call);
        kept = Math.max(0, has - certainlyHad(then, one -> one != own && known.contains(one), at));
        if (at < newestEnd && AdmissionOracle.sum(known, one -> one.counts() && key.isWithin(one, at)) > 0) {
            Set<Request> toRestore = new LinkedHashSet<>(known);
            // What was lost since the reply was made, a second time, is not known to be lost.
            reconciledBy(call).stream().filter(one -> one.inStore).forEach(toRestore::add);
            unsent.add(List.copyOf(toRestore));
        }
        forgetEvidence();
        evidenceSince = at;
        if (newestUsed <= has) {
            // The store has granted as much in the millisecond of that reply: the ledger has nothing to wait for.
            forgotten = List.of();
        }
        return true;
    }

    /** Returns how many permits in use the store has certainly granted to this instance. */
    private long evidence(long at) {
        double certain = 0;
        double slot = Math.ceil((double) limit.reach().toMillis() / SLOTS);
        for (Request one : key.requests) {
            if (one.by == member && one.evidence && one.counts() && one.at <= at) {
                double age = at - one.certainAt + slot;
                certain += limit.algorithm() == Algorithm.LOG
                        ? (age + slot < window() ? one.permits : 0)
                        : one.permits * Math.max(0, Math.min(1, 1 - age / window()));
            }
        }
        boolean isAnyCombined = at - combinedUntil < limit.reach().toMillis();
        return (long) Math.ceil(certain - 1e-6) - refunds.recent() - (isAnyCombined ? combined : 0);
    }

    /** Returns how many permits of an earlier loss, which was not noticed, the instance still counts as its own. */
    long stale() {
        return key.sum(one -> one.by == member
                && one.everLost
                && (one.evidence || one.isLate(evidenceSince))
                && !newest.contains(one));
    }

    /** Returns how many of some permits the store certainly had when it replied: it may not have restored all. */
    private long certainlyHad(Executed then, Predicate<Request> some, long at) {
        Predicate<Request> counted = some.and(one -> one.counts() && key.isWithin(one, at));
        List<Request> charged = then.charged().get(key);
        long restored = AdmissionOracle.sum(charged, counted.and(one -> one.restored));
        return AdmissionOracle.sum(charged, counted) - Math.min(restored, key.hidden.recent());
    }

    /** Returns the grants of a reconciliation. */
    private List<Request> reconciledBy(Call call) {
        Set<String> ids = new HashSet<>();
        call.reconciliations().forEach(one -> ids.add(one.id()));
        return key.requests.stream()
                .filter(one -> one.by == member && ids.contains(one.batch))
                .toList();
    }

    /** Returns how many permits of a reconciliation certainly count in its reply. */
    private double chargedBy(Call call, StoreDecision reply) {
        double charged = 0;
        for (Reconciliation one : call.reconciliations()) {
            List<Grants> ages = reply.stamp() > 0 ? one.sentAges() : one.ages();
            for (Grants some : isOf(one, key) ? ages : List.<Grants>of()) {
                double part = Math.max(0, 1 - (double) some.fromMillis() / window());
                charged += some.permits() * (limit.algorithm() == Algorithm.LOG ? Math.ceil(part) : part);
            }
        }
        return charged;
    }
}
