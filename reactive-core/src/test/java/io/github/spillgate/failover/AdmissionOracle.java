package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Predicate;

/**
 * Adds up what the callers of several instances were granted under one limit, and checks each grant against what the
 * instance and the store must have known then.
 */
final class AdmissionOracle {
    // Design notes.
    //
    // The oracle follows each request: when the store charged it, whether the store has lost that charge since, and
    // which replies told which instance of it. So it knows, without a look into the ledgers, which of the earlier
    // grants a new one must be compared with. A refunded grant counts no more. The permits are N, the window is W.
    //
    // 1. A grant of the store fits into N together with
    //      - what the store had charged within W before, and had not lost;
    //      - what the same instance has granted itself within W, and the store had not charged;
    //      - what the instance knows to be lost, until it is restored.
    // 2. A grant of the instance itself fits into N together with all grants of the same instance within W, of both
    //    kinds. If it is the only instance it knows of, also with what its newest reply counted of other instances.
    // 3. What an instance has granted itself within W, and the store has not confirmed to have charged, is at most its
    //    share of N, and at least one permit. The share is computed again here, from the replies. Its own use is what
    //    the store has charged to it within W before the newest reply, and of a counter what its formula counts of
    //    that. If the fallback decides first, that charge is later than the grant; one of a reconciliation counts
    //    from its last grant on.
    // 4. All grants within W, of all instances, are at most N; plus, for each instance that has granted permits itself,
    //    dead or alive, the most of these that were not charged at any one time; plus what the store has lost.
    //
    // If there is one instance that never dies, the first two say: never more than N, whatever the store loses.
    //
    // An instance must notice a loss if a newer reply counts fewer permits, without those of the request, than the
    // store has certainly granted to it: a permit counts as certain in a log for W less two slots of OwnUsage, and in a
    // counter as if it had begun to fade with the start of its slot. This also applies to the reply to a restoration:
    // the next one may not show the loss any more. Then it must send a restoration in the same millisecond, and what it
    // knew by its last reply is not lost any more once that is executed. Allowances:
    //
    //   kept       What the store has granted between the loss and the reply by which an instance notices it: that is
    //              not counted in this instance until the restoration is done, nor for replies from before that. It
    //              is what the reply counts, without those of the lost permits that the store certainly has again. If
    //              another instance has restored them, it may have taken indistinct ones for them.
    //   indistinct The same, from the restoration on, if the count does not show when these permits were granted: a
    //              counter that is aligned to the clock, was kept in part or began earlier by a reconciliation, and
    //              the same or an earlier slot of a log. Not a reconciliation that this instance knows to be charged
    //              when it notices the loss. Also what another instance has restored and this one did not know: the
    //              mark of a restoration counts all permits that were in use then, lost or not.
    //   combined   After a restoration, all that the instance was granted before is evidence of as many permits as the
    //              newest reply then has. The others do not count any more, and it is not known which these are: so
    //              their number is subtracted from the evidence until all have left the window. What was charged up to
    //              that reply, and has a later reply, is no evidence at all: the newest reply included it.
    //   refunds    A refund of permits that the store has lost may remove others; so may one of permits that were taken
    //              in the millisecond of a loss. A store that returns to a snapshot has refunded permits again, in
    //              place of others.
    //   exchanged  Of two grants of one millisecond, one was handed over before the other was made, and is refunded.
    //              The refund may remove the other from the ledger, and the charge of the first then stands for it.
    //              Only for the third rule: together they count as much.
    //   again      What is lost while an earlier loss is not restored: nothing is evidence of it.
    //   stale      What an instance was granted and has been lost without its notice. Until its time is over, it takes
    //              as many later permits of others for its own, and what it restores may expire too early.
    //
    // Before the store loses anything, nothing must be restored.

    /** The permits of a slot of OwnUsage count as certain only while the whole slot is within the window. */
    private static final int CERTAIN_SLOTS = OwnUsage.STEPS;

    private final Limit limit;
    private final Map<String, Key> keys = new HashMap<>();
    private final List<Member> members = new ArrayList<>();
    private final IdentityHashMap<Call, Executed> executed = new IdentityHashMap<>();
    private final LongSupplier clock;
    private AssertionError failure;
    private long steps;
    private int losses;
    private final Set<Long> lossAt = new HashSet<>();
    private boolean keepsInPart;

    AdmissionOracle(Limit limit, LongSupplier clock) {
        this.limit = limit;
        this.clock = clock;
    }

    /** Returns the observer of a new instance. */
    Member newMember() {
        Member member = new Member();
        members.add(member);
        return member;
    }

    /** Notes that the store loses what it has charged since a step: everything, if that is 0. */
    void storeLoses(long sinceStep) {
        losses++;
        lossAt.add(clock.getAsLong());
        keepsInPart |= sinceStep > 0;
        keys.forEach((name, key) -> {
            key.begins.clear();
            for (Request request : key.requests) {
                if (sinceStep > 0 && request.isUnused() && request.chargedStep <= sinceStep) {
                    // The store may have it again, in place of others that it has lost.
                    key.allowances.add(new Allowance(clock.getAsLong(), request.permits));
                }
                if (request.inStore && request.chargedStep > sinceStep) {
                    request.inStore = false;
                    request.everLost = true;
                    if (request.counts() && isAnyPending(name)) {
                        // Not noticed: after the first loss, no grant is evidence until that is restored.
                        key.allowances.add(new Allowance(clock.getAsLong(), request.permits));
                        request.evidence = false;
                    }
                    if (!request.counts()) {
                        // Its refund may be on its way, and remove others.
                        key.allowances.add(new Allowance(clock.getAsLong(), request.permits));
                        request.by.knowledge(name).refunds.add(new Allowance(clock.getAsLong(), request.permits));
                    }
                }
            }
        });
    }

    /** Returns whether an instance knows of permits of a key that are lost and not restored. */
    private boolean isAnyPending(String key) {
        return members.stream()
                .map(member -> member.byKey.get(key))
                .anyMatch(knowledge -> knowledge != null && knowledge.isPending() && !knowledge.lost.isEmpty());
    }

    /** Returns the number of the last step of the store. */
    long step() {
        return steps;
    }

    int losses() {
        return losses;
    }

    long granted() {
        return sum(keys.values().stream().flatMap(key -> key.requests.stream()).toList(), Request::counts);
    }

    /** Reports the first failure, and checks that each loss that an instance must have noticed is being restored. */
    void check() {
        if (failure != null) {
            throw failure;
        }
        for (Member member : members) {
            if (!member.dead) {
                member.byKey.forEach((key, knowledge) -> assertThat(knowledge.unsent)
                        .as("losses noticed on %s by %s and not restored", key, member)
                        .isEmpty());
            }
        }
    }

    /** Keeps a failure: an error that is thrown while a reply is passed on would be dropped. */
    private void fail(String message) {
        if (failure == null) {
            failure = new AssertionError(message);
        }
    }

    private Key key(String name) {
        return keys.computeIfAbsent(name, any -> new Key());
    }

    private long window() {
        return limit.window().toMillis();
    }

    /** Returns whether a grant counts at a time. */
    private boolean isWithin(Request grant, long time) {
        return limit.isAlignedToClock() ? grant.at >= time - time % window() : grant.at > time - window();
    }

    private static long sum(Iterable<Request> requests, Predicate<Request> counted) {
        long sum = 0;
        for (Request request : requests) {
            sum += counted.test(request) ? request.permits : 0;
        }
        return sum;
    }

    /** All requests for one key. */
    private static final class Key {

        private final List<Request> requests = new ArrayList<>();
        private final Deque<Allowance> allowances = new ArrayDeque<>();

        /** Permits that were perhaps not restored, because the store took others for them. */
        private final Deque<Allowance> hidden = new ArrayDeque<>();

        /** The times of the first grants of the reconciliations that the store has charged: a counter begins there. */
        private final List<Long> begins = new ArrayList<>();

        List<Request> inStore() {
            return requests.stream().filter(request -> request.inStore).toList();
        }
    }

    private record Allowance(long at, long permits) {}

    /**
     * What the store had charged when it executed a call.
     *
     * @param step the number of the step
     * @param charged for each key the charged requests, that of the call included
     */
    private record Executed(long step, Map<String, List<Request>> charged) {}

    /** What an instance must know of one key. */
    private static final class Knowledge {

        private long newestAt = Long.MIN_VALUE;
        private long newestUsed;

        /** The most permits in use of that reply and of those that have arrived since. */
        private long highestUsed;

        /** When all that is in use then has left the window. */
        private long newestEnd;

        private List<Request> newest = List.of();

        /** What it knows to be lost, and when that was restored, as a step of the store. */
        private Set<Request> lost = new LinkedHashSet<>();

        private long restoredStep = Long.MAX_VALUE;

        /** What the store has granted between the loss and the reply that showed it. */
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

        /** Grants that are no evidence of a loss until they are restored. */
        private List<Request> forgotten = List.of();

        /** Permits of local grants that were refunded: such a refund removes the oldest ones. */
        private final Deque<Allowance> refunds = new ArrayDeque<>();

        /** Permits of refunded grants that were handed over in the millisecond in which they were granted. */
        private final Deque<Allowance> exchanged = new ArrayDeque<>();

        private final Deque<Allowance> uncharged = new ArrayDeque<>();

        /** The permits of each reconciliation, with those of cancelled requests, and the time of the last one. */
        private final Map<String, Allowance> reconciled = new HashMap<>();

        private boolean isPending() {
            return restoredStep == Long.MAX_VALUE;
        }
    }

    /** One request and its outcome. */
    final class Request {

        private final Member by;
        private final String key;
        private final long permits;
        private Decision decision;
        private boolean local;
        private boolean refunded;
        private boolean ignored;

        /** When it was granted, on the clock that all share. */
        private long at;

        /** When the store charged it; later than it was granted if the fallback decided first. */
        private long chargedAt;

        private boolean inStore;
        private boolean everLost;

        /** Whether an instance has restored it, or what a refund of lost permits had removed in its place. */
        private boolean restored;

        private long chargedStep;

        /** What the store had charged before it. */
        private List<Request> before = List.of();

        private long executedStep;
        private boolean executedAllowed;

        /** Whether the instance knows that the store has charged it, besides a grant of its own. */
        private boolean chargeKnown;

        private String batch;
        private long handedOverAt = Long.MIN_VALUE;
        private boolean reconciled;

        /** Whether it is certain to the instance that the store has granted it. */
        private boolean evidence;

        /** When it was granted at the earliest, as far as the instance knows in terms of the store's clock. */
        private long certainAt;

        private Request(Member by, String key, long permits) {
            this.by = by;
            this.key = key;
            this.permits = permits;
        }

        boolean counts() {
            return decision != null && decision.isAllowed() && !refunded && !ignored;
        }

        Decision decision() {
            return decision;
        }

        boolean isUndecided() {
            return decision == null && !ignored;
        }

        /** Whether its charge is refunded: by the caller, or because the fallback has denied it. */
        private boolean isUnused() {
            return refunded || (executedAllowed && decision != null && !decision.isAllowed());
        }

        /** The caller is no longer interested. */
        void cancel() {
            ignored = true;
        }

        /** Whether it is in the ledger of its instance, and not in the store as far as that knows. */
        private boolean isUncharged() {
            return local && !chargeKnown && !reconciled;
        }

        /** Whether the instance has granted it itself, and takes the charge of the store for its own since a time. */
        private boolean isLate(long since) {
            return local && chargeKnown && chargedAt >= since;
        }

        void decided(Decision decided) {
            if (ignored || by.dead) {
                ignored = true;
                return;
            }
            decision = decided;
            local = decided.source() == Source.LOCAL;
            chargeKnown &= local;
            if (!decided.isAllowed()) {
                return;
            }
            // The store may have charged a request that the instance has granted itself a little later.
            long decidedAt = decided.at().toEpochMilli();
            at = executedAllowed ? Math.min(at, decidedAt) : decidedAt;
            if (local) {
                if (chargeKnown) {
                    Member.isCombined(by.knowledge(key), chargedAt, permits);
                }
                by.checkLocalGrant(this);
            } else {
                Knowledge knowledge = by.knowledge(key);
                evidence = at >= knowledge.evidenceSince && !Member.isCombined(knowledge, at, permits);
                certainAt = at;
                by.checkStoreGrant(this);
            }
            checkAll(this);
        }

        void refund() {
            refunded = true;
            long now = clock.getAsLong();
            if (local || !evidence || everLost) {
                by.knowledge(key).refunds.add(new Allowance(now, permits));
            }
            if (handedOverAt == at) {
                by.knowledge(key).exchanged.add(new Allowance(now, permits));
            }
            if (everLost || lossAt.contains(at)) {
                key(key).allowances.add(new Allowance(now, permits));
            }
        }

        @Override
        public String toString() {
            return (local ? "local " : "store ") + permits + " at " + at + " by " + by + (inStore ? " in store" : "")
                    + (everLost ? " was lost" : "") + (reconciled ? " reconciled" : "") + (refunded ? " refunded" : "")
                    + (chargeKnown ? " late" : "");
        }
    }

    /** The fourth rule. */
    private void checkAll(Request grant) {
        Key key = key(grant.key);
        long all = sum(key.requests, one -> one.counts() && one.at <= grant.at && isWithin(one, grant.at));
        long bound = limit.permits() + allowance(grant.key);
        for (Member member : members) {
            bound += member.knowledge(grant.key).uncharged.stream()
                    .filter(peak -> peak.at > grant.at - window())
                    .mapToLong(Allowance::permits)
                    .max()
                    .orElse(0);
        }
        bound += sum(key.requests, one -> one.everLost && one.counts() && isWithin(one, grant.at));
        checkSum(all, bound, "all within a window", grant, one -> isWithin(one, grant.at));
    }

    private long allowance(String key) {
        return recent(key(key).allowances);
    }

    private long recent(Deque<Allowance> allowances) {
        long since = clock.getAsLong() - 2 * limit.reach().toMillis();
        return allowances.stream()
                .filter(one -> one.at > since)
                .mapToLong(Allowance::permits)
                .sum();
    }

    private void checkSum(long sum, long bound, String what, Request grant, Predicate<Request> shown) {
        if (sum <= bound) {
            return;
        }
        StringBuilder text = new StringBuilder();
        key(grant.key).requests.stream()
                .filter(one -> one.counts() && shown.test(one))
                .forEach(one -> text.append("\n  ").append(one));
        fail(what + ": " + sum + " permits, at most " + bound + " expected, with " + grant + " of " + grant.key
                + " under " + limit + ":" + text);
    }

    /** One instance, from its start to its end. Observes its connection. */
    final class Member implements FaultyLink.Observer {

        private final Map<String, Knowledge> byKey = new HashMap<>();
        private final Set<String> batches = new HashSet<>();
        private final int number = members.size();
        private int instances = 1;
        private boolean dead;

        /** Returns a new request. */
        Request newRequest(String key, long permits) {
            Request request = new Request(this, key, permits);
            key(key).requests.add(request);
            return request;
        }

        void dies() {
            dead = true;
        }

        List<Request> requests(Predicate<Request> wanted) {
            return keys.values().stream()
                    .flatMap(key -> key.requests.stream())
                    .filter(request -> request.by == this && wanted.test(request))
                    .toList();
        }

        private Knowledge knowledge(String key) {
            return byKey.computeIfAbsent(key, any -> new Knowledge());
        }

        // The first three rules.

        private void checkStoreGrant(Request grant) {
            long now = clock.getAsLong();
            Knowledge knowledge = knowledge(grant.key);
            Set<Request> known = new LinkedHashSet<>(grant.before);
            known.removeIf(one -> !isWithin(one, grant.at));
            addUncharged(known, grant, now);
            long bound = limit.permits() + allowance(grant.key);
            if (grant.executedStep < knowledge.restoredStep) {
                addLost(known, knowledge, now);
                bound += knowledge.kept;
            }
            known.remove(grant);
            checkSum(
                    grant.permits + sum(known, Request::counts),
                    bound,
                    "a grant of the store with what is known",
                    grant,
                    known::contains);
        }

        private void checkLocalGrant(Request grant) {
            long now = clock.getAsLong();
            Knowledge knowledge = knowledge(grant.key);
            Set<Request> known = new LinkedHashSet<>(knowledge.newest);
            known.removeIf(one -> !isWithin(one, now));
            if (knowledge.isPending()) {
                addLost(known, knowledge, now);
            }
            if (instances > 1) {
                known.removeIf(one -> one.by != this);
            }
            addUncharged(known, grant, now);
            known.remove(grant);
            long bound = limit.permits()
                    + allowance(grant.key)
                    + (knowledge.isPending() ? knowledge.kept : 0)
                    + stale(grant.key, knowledge);
            checkSum(
                    grant.permits + sum(known, Request::counts),
                    bound,
                    "a local grant with what is known",
                    grant,
                    known::contains);
            checkShare(grant, knowledge, now);
        }

        private void checkShare(Request grant, Knowledge knowledge, long now) {
            Set<Request> uncharged = new LinkedHashSet<>();
            addUncharged(uncharged, grant, now);
            uncharged.add(grant);
            long permits = sum(uncharged, Request::counts);
            knowledge.uncharged.add(new Allowance(now, permits));
            long most = Math.max(1, (long) Math.floor(limit.permits() * share(grant.key, knowledge)));
            checkSum(
                    permits,
                    most + recent(knowledge.exchanged),
                    "the share of " + instances + " instances",
                    grant,
                    uncharged::contains);
        }

        /** Returns the highest share that this instance may compute. */
        private double share(String key, Knowledge knowledge) {
            if (instances <= 1) {
                return 1;
            }
            double own = 0.5; // it is rounded
            for (Request one : key(key).requests) {
                if (one.by == this && one.executedAllowed) {
                    own += one.permits * mostInUse(one.chargedAt, knowledge.newestAt);
                }
            }
            for (Allowance one : knowledge.reconciled.values()) {
                own += one.permits * mostInUse(one.at, knowledge.newestAt);
            }
            double even = 0.1 * limit.permits();
            return Math.min(1, (own + even / instances) / (Math.max(own, (double) knowledge.newestUsed) + even));
        }

        /** Returns the highest part of a permit that counts in the use of this instance. */
        private double mostInUse(long chargedAt, long newestAt) {
            long window = limit.window().toMillis();
            if (!limit.isAlignedToClock()) {
                return chargedAt > newestAt - window() ? 1 : 0;
            }
            // A slot of OwnUsage may be in two windows.
            long slot = 2 * window / OwnUsage.STEPS + 1;
            long start = newestAt - newestAt % window;
            if (chargedAt >= start - slot) {
                return 1;
            }
            return chargedAt >= start - window - slot ? 1 - (newestAt - start) / (double) window : 0;
        }

        private void addUncharged(Set<Request> known, Request grant, long now) {
            for (Request one : key(grant.key).requests) {
                if (one.by == this && one.isUncharged() && isWithin(one, now)) {
                    known.add(one);
                }
            }
        }

        private void addLost(Set<Request> known, Knowledge knowledge, long now) {
            for (Request one : knowledge.lost) {
                if (isWithin(one, now)) {
                    known.add(one);
                }
            }
        }

        // The connection.

        @Override
        public void registered(int counted) {
            if (!dead) {
                instances = counted;
            }
        }

        @Override
        public void sent(Call call) {
            if (call.kind() == Call.Kind.RECONCILE) {
                for (Reconciliation one : reconciliations(call)) {
                    handedOver(one);
                }
            } else if (call.kind() == Call.Kind.RESTORE) {
                restores((LostPermits) call.request());
            }
        }

        private void handedOver(Reconciliation reconciliation) {
            if (!batches.add(reconciliation.id())) {
                return;
            }
            for (Request one : key(reconciliation.claim().key()).requests) {
                if (one.by == this && one.batch == null && one.isUncharged() && one.counts()) {
                    one.batch = reconciliation.id();
                    one.handedOverAt = clock.getAsLong();
                }
            }
        }

        private void restores(LostPermits permits) {
            if (losses == 0 && knowledge(permits.claim().key()).refunds.isEmpty()) {
                fail("nothing is lost, and " + this + " restores " + permits);
            }
            Knowledge knowledge = knowledge(permits.claim().key());
            if (!knowledge.sent.containsKey(permits.since())) {
                if (knowledge.unsent.isEmpty()) {
                    // It has noticed what it need not have noticed.
                    knowledge.unsent.add(List.of());
                    if (!knowledge.isPending()) {
                        // What was restored before may be lost again.
                        knowledge.lost = Set.of();
                    }
                    forgetEvidence(permits.claim().key());
                    knowledge.forgotten = List.of();
                    // The reply that showed it is the newest one.
                    knowledge.evidenceSince = knowledge.newestAt;
                }
                knowledge.sent.put(permits.since(), knowledge.unsent.remove());
                knowledge.lastSent = permits.since();
            }
        }

        private void forgetEvidence(String key) {
            List<Request> forgotten = key(key).requests.stream()
                    .filter(one -> one.by == this && one.evidence)
                    .toList();
            forgotten.forEach(one -> one.evidence = false);
            knowledge(key).forgotten = forgotten;
        }

        @Override
        public void executed(Call call, StoreDecision reply) {
            steps++;
            Map<String, List<Request>> charged = new HashMap<>();
            for (StoreUsage usage : reply.usages()) {
                String key = usage.claim().key();
                switch (call.kind()) {
                    case TAKE -> charge(call, key, reply);
                    case RECONCILE -> chargeBatch(call, key);
                    case RESTORE -> restore(call, key);
                    default -> {}
                }
                charged.put(key, key(key).inStore());
            }
            executed.put(call, new Executed(steps, charged));
        }

        private void charge(Call call, String key, StoreDecision reply) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (request != null) {
                request.before = key(key).inStore();
                request.executedStep = steps;
                if (reply.isAllowed()) {
                    request.executedAllowed = true;
                    request.inStore = true;
                    request.chargedStep = steps;
                    request.chargedAt = reply.at().toEpochMilli();
                    request.at = request.decision == null ? request.chargedAt : Math.min(request.at, request.chargedAt);
                }
            }
        }

        private void chargeBatch(Call call, String key) {
            for (Reconciliation reconciliation : reconciliations(call)) {
                if (reconciliation.claim().key().equals(key)) {
                    key(key).begins.add(reconciliation.firstMillis());
                }
                for (Request one : key(key).requests) {
                    if (reconciliation.id().equals(one.batch) && !one.inStore) {
                        one.inStore = true;
                        one.chargedStep = steps;
                    }
                }
            }
        }

        private void restore(Call call, String key) {
            LostPermits permits = (LostPermits) call.request();
            List<Request> known = knowledge(key).sent.getOrDefault(permits.since(), List.of());
            long indistinct = sum(
                    key(key).requests,
                    one -> one.inStore
                            && !known.contains(one)
                            && (one.everLost || one.restored || isIndistinct(one, permits.since())));
            if (indistinct > 0) {
                key(key).allowances.add(new Allowance(clock.getAsLong(), indistinct));
                key(key).hidden.add(new Allowance(clock.getAsLong(), indistinct));
            }
            for (Request one : known) {
                one.restored = true;
                if (!one.inStore && one.chargedStep > 0) {
                    one.inStore = true;
                    one.chargedStep = steps;
                }
            }
        }

        /** Whether the restored count does not show that a request was charged since a time. */
        private boolean isIndistinct(Request request, long since) {
            if (limit.algorithm() == Algorithm.LOG) {
                long slot = limit.resolution().toMillis();
                return request.at / slot <= since / slot;
            }
            return limit.isAlignedToClock()
                    || keepsInPart
                    || key(request.key).begins.stream().anyMatch(begin -> begin < since);
        }

        @Override
        public void replied(Call call, StoreDecision reply) {
            Executed then = executed.get(call);
            if (dead || then == null) {
                return;
            }
            reply.parts().forEach(part -> replied(call, part, then));
        }

        private void replied(Call call, StoreDecision reply, Executed then) {
            for (StoreUsage usage : reply.usages()) {
                String key = usage.claim().key();
                Knowledge knowledge = knowledge(key);
                Request request = call.context().getOrDefault(Request.class, null);
                boolean isNewestRestoration = call.kind() == Call.Kind.RESTORE
                        && ((LostPermits) call.request()).since() == knowledge.lastSent;
                boolean mayNotice = call.kind() != Call.Kind.RESTORE || (isNewestRestoration && knowledge.isPending());
                boolean isNoticed = mayNotice && notice(key, call, reply, usage, then);
                if (call.kind() == Call.Kind.TAKE && request != null && reply.isAllowed()) {
                    request.chargeKnown = true;
                    if (request.local || request.ignored) {
                        isCombined(knowledge, request.chargedAt, request.permits);
                    }
                }
                if (call.kind() == Call.Kind.RECONCILE) {
                    reconciled(call, key, reply.stamp() > 0, reply.at().toEpochMilli());
                }
                learn(knowledge, reply.at().toEpochMilli(), usage, then.charged.get(key));
                if (isNewestRestoration && !isNoticed) {
                    restored(key, knowledge, reply, then);
                }
            }
        }

        /** The reply to the newest restoration; an earlier one only shows the usage. */
        private void restored(String key, Knowledge knowledge, StoreDecision reply, Executed then) {
            knowledge.restoredStep = then.step;
            if (reply.stamp() == 0) {
                return;
            }
            knowledge.combinedUntil = knowledge.newestAt;
            knowledge.combined = Math.max(0, chargedWithin(key, knowledge) - knowledge.highestUsed);
            // Refunds and losses before the restoration are too many cases to follow.
            if (clock.getAsLong() == knowledge.evidenceSince) {
                knowledge.forgotten.forEach(one -> one.evidence = true);
            }
        }

        /** Returns how many permits the store has charged to this instance that may be in use in the newest reply. */
        private long chargedWithin(String key, Knowledge knowledge) {
            long since = knowledge.newestAt - limit.reach().toMillis();
            long granted =
                    sum(key(key).requests, one -> one.by == this && one.executedAllowed && one.chargedAt > since);
            return granted
                    + knowledge.reconciled.values().stream()
                            .filter(one -> one.at > since)
                            .mapToLong(Allowance::permits)
                            .sum();
        }

        private void reconciled(Call call, String key, boolean isChargedNow, long repliedAt) {
            for (Reconciliation reconciliation : reconciliations(call)) {
                if (reconciliation.claim().key().equals(key)) {
                    Allowance permits = new Allowance(reconciliation.lastMillis(), reconciliation.permits());
                    knowledge(key).reconciled.put(reconciliation.id(), permits);
                }
                for (Request one : key(key).requests) {
                    if (!one.reconciled && reconciliation.id().equals(one.batch)) {
                        one.reconciled = true;
                        // Charged before a loss that was noticed since, it may be lost too.
                        one.evidence = isChargedNow
                                && repliedAt >= knowledge(key).evidenceSince
                                && !isCombined(knowledge(key), repliedAt, one.permits);
                        one.certainAt = one.at;
                    }
                }
            }
        }

        /** Returns whether the newest reply at a restoration had permits of which the instance learns only now. */
        private static boolean isCombined(Knowledge knowledge, long chargedAt, long permits) {
            boolean isCombined = chargedAt <= knowledge.combinedUntil;
            knowledge.combined += isCombined ? permits : 0;
            return isCombined;
        }

        private static void learn(Knowledge knowledge, long at, StoreUsage usage, List<Request> charged) {
            long used = usage.used();
            if (knowledge.newestAt == Long.MIN_VALUE) {
                knowledge.evidenceSince = at;
            }
            knowledge.highestUsed = at > knowledge.newestAt ? used : Math.max(knowledge.highestUsed, used);
            if (at > knowledge.newestAt || (at == knowledge.newestAt && used > knowledge.newestUsed)) {
                knowledge.newestAt = at;
                knowledge.newestUsed = used;
                knowledge.newestEnd = usage.wholeAt().toEpochMilli();
                knowledge.newest = charged;
            }
        }

        /** Returns whether the instance must notice a loss. */
        private boolean notice(String key, Call call, StoreDecision reply, StoreUsage usage, Executed then) {
            Knowledge knowledge = knowledge(key);
            long at = reply.at().toEpochMilli();
            double charged = reply.isCharged() ? usage.claim().permits() : charged(key, call, reply);
            long kept = usage.used() - (long) Math.ceil(charged - 1e-6);
            long most = usage.used() - (reply.stamp() > 0 ? (long) charged : 0);
            if (at <= knowledge.newestAt || most >= certain(key, knowledge, at)) {
                return false;
            }
            List<Request> known = knowledge.newest;
            long stale = stale(key, knowledge);
            if (knowledge.isPending() && !knowledge.lost.isEmpty()) {
                // Of two losses before the first restoration, the larger one is restored.
                stale += sum(known, Request::counts);
            }
            if (stale > 0) {
                key(key).allowances.add(new Allowance(clock.getAsLong(), stale));
            }
            knowledge.lost = knowledge.isPending() ? new LinkedHashSet<>(knowledge.lost) : new LinkedHashSet<>();
            knowledge.lost.addAll(known);
            knowledge.restoredStep = Long.MAX_VALUE;
            Request own = call.context().getOrDefault(Request.class, null);
            knowledge.kept = Math.max(0, kept - certainlyKept(key, then, one -> one != own && known.contains(one), at));
            if (at < knowledge.newestEnd && sum(known, one -> one.counts() && isWithin(one, at)) > 0) {
                Set<Request> restored = new LinkedHashSet<>(known);
                // What was lost since the reply was made, a second time, is not known to be lost.
                chargedBy(call, key).stream().filter(one -> one.inStore).forEach(restored::add);
                knowledge.unsent.add(List.copyOf(restored));
            }
            forgetEvidence(key);
            knowledge.evidenceSince = at;
            if (knowledge.newestUsed <= kept) {
                // The store has granted as much in the millisecond of that reply: the ledger has nothing to wait for.
                knowledge.forgotten = List.of();
            }
            return true;
        }

        /** Returns the grants of a reconciliation. */
        private List<Request> chargedBy(Call call, String key) {
            if (call.kind() != Call.Kind.RECONCILE) {
                return List.of();
            }
            Set<String> ids = new HashSet<>();
            reconciliations(call).forEach(one -> ids.add(one.id()));
            return requests(one -> one.key.equals(key) && ids.contains(one.batch));
        }

        /** Returns how many permits of a reconciliation certainly count in its reply. */
        private double charged(String key, Call call, StoreDecision reply) {
            double charged = 0;
            if (call.kind() == Call.Kind.RECONCILE) {
                for (Reconciliation one : reconciliations(call)) {
                    List<Grants> ages = reply.stamp() > 0 ? one.sentAges() : one.ages();
                    for (Grants some : one.claim().key().equals(key) ? ages : List.<Grants>of()) {
                        double part = Math.max(0, 1 - (double) some.fromMillis() / window());
                        charged += some.permits() * (limit.algorithm() == Algorithm.LOG ? Math.ceil(part) : part);
                    }
                }
            }
            return charged;
        }

        /** Returns how many of some permits the store certainly had when it replied: it may not have restored all. */
        private long certainlyKept(String key, Executed then, Predicate<Request> some, long at) {
            List<Request> charged = then.charged.get(key);
            Predicate<Request> counted = some.and(one -> one.counts() && isWithin(one, at));
            long restored = sum(charged, counted.and(one -> one.restored));
            return sum(charged, counted) - Math.min(restored, recent(key(key).hidden));
        }

        /** Returns how many permits of an earlier loss, which was not noticed, the instance still counts as its own. */
        private long stale(String key, Knowledge knowledge) {
            return sum(
                    key(key).requests,
                    one -> one.by == this
                            && one.everLost
                            && (one.evidence || one.isLate(knowledge.evidenceSince))
                            && !knowledge.newest.contains(one));
        }

        /** Returns how many permits in use the store has certainly granted to this instance. */
        private long certain(String key, Knowledge knowledge, long at) {
            double certain = 0;
            double slot = Math.ceil((double) limit.reach().toMillis() / CERTAIN_SLOTS);
            for (Request one : key(key).requests) {
                if (one.by == this && one.evidence && one.counts() && one.at <= at) {
                    double age = at - one.certainAt + slot;
                    certain += limit.algorithm() == Algorithm.LOG
                            ? (age + slot < window() ? one.permits : 0)
                            : one.permits * Math.max(0, Math.min(1, 1 - age / window()));
                }
            }
            boolean isAnyCombined = at - knowledge.combinedUntil < limit.reach().toMillis();
            return (long) Math.ceil(certain - 1e-6)
                    - recent(knowledge.refunds)
                    - (isAnyCombined ? knowledge.combined : 0);
        }

        @SuppressWarnings("unchecked") // by the kind of the call
        private static List<Reconciliation> reconciliations(Call call) {
            return (List<Reconciliation>) call.request();
        }

        @Override
        public String toString() {
            return "instance " + number + (dead ? " (dead)" : "");
        }
    }
}
