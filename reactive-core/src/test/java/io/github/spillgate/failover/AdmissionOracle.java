package io.github.spillgate.failover;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.failover.InstanceKnowledge.Seen;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
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
    //    dead or alive, the most of these that were not charged at any one time; plus what the store has lost. If
    //    reconciliations have charged more than N, and instances have granted permits since, these are in addition.
    //
    // If there is one instance that never dies, the first two say: never more than N, whatever the store loses.
    //
    // What an instance must know to be lost, and when, is in InstanceKnowledge: it knows all that was in use in its
    // newest reply, once a reply of another life has arrived. If several instances restore what they know of one life,
    // the store has all that any of them knew.
    //
    // The fallback may hand over a grant, and get the result, before the caller gets the grant. It is checked against
    // what the instance knew when it sent it.
    //
    // Before the store loses anything, nothing must be restored.

    private final Limit limit;
    private final Map<String, KeyHistory> keys = new HashMap<>();
    private final List<Member> members = new ArrayList<>();
    private final IdentityHashMap<Call, Executed> executed = new IdentityHashMap<>();
    private final LongSupplier clock;
    private AssertionError failure;
    private long steps;
    private int losses;

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

    /** Notes that the store loses all of its data, or that of one key. */
    void storeLoses(Predicate<KeyHistory> which) {
        losses++;
        for (KeyHistory key : keys.values()) {
            if (which.test(key)) {
                key.requests.forEach(Request::isLost);
            }
        }
    }

    /** Reports the first failure. */
    void check() {
        if (failure != null) {
            throw failure;
        }
    }

    /** Keeps a failure: an error that is thrown while a reply is passed on would be dropped. */
    private void fail(String message) {
        if (failure == null) {
            failure = new AssertionError(message);
        }
    }

    private KeyHistory key(String name) {
        return keys.computeIfAbsent(name, any -> new KeyHistory(name));
    }

    private long window() {
        return limit.window().toMillis();
    }

    static long sum(Iterable<Request> requests, Predicate<Request> counted) {
        long sum = 0;
        for (Request request : requests) {
            sum += counted.test(request) ? request.permits : 0;
        }
        return sum;
    }

    /** All requests for one key. */
    final class KeyHistory {

        final String name;
        final List<Request> requests = new ArrayList<>();

        /** By how much reconciliations have made the store exceed the limit. */
        private final Allowances excess = new Allowances(clock);

        private KeyHistory(String name) {
            this.name = name;
        }

        long sum(Predicate<Request> counted) {
            return AdmissionOracle.sum(requests, counted);
        }

        /** Returns whether a grant counts at a time. */
        boolean isWithin(Request grant, long time) {
            return limit.isAlignedToClock() ? grant.at >= time - time % window() : grant.at > time - window();
        }

        private List<Request> inStore() {
            return requests.stream().filter(request -> request.inStore).toList();
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /** Permits with the times from which on they are allowed, or count. */
    static final class Allowances {

        private final LongSupplier clock;
        private final List<Allowance> all = new ArrayList<>();

        Allowances(LongSupplier clock) {
            this.clock = clock;
        }

        void add(long permits) {
            if (permits > 0) {
                all.add(new Allowance(clock.getAsLong(), permits));
            }
        }

        /** Returns the most permits of one time within a window before this one. */
        long mostWithin(long window, long time) {
            return all.stream()
                    .filter(one -> one.at > time - window)
                    .mapToLong(Allowance::permits)
                    .max()
                    .orElse(0);
        }
    }

    private record Allowance(long at, long permits) {}

    /**
     * What the store had charged when it executed a call.
     *
     * @param step the number of the step
     * @param charged for each key the charged requests, that of the call included
     */
    record Executed(long step, Map<KeyHistory, List<Request>> charged) {}

    /** One request and its outcome. */
    final class Request {

        final Member by;
        private final KeyHistory key;
        final long permits;
        private Decision decision;
        boolean local;
        private boolean refunded;
        boolean ignored;

        /** When it was granted, on the clock that all share. */
        long at;

        /** When the store charged it; later than it was granted if the fallback decided first. */
        long chargedAt;

        boolean inStore;

        /** The stamp of that charge. */
        private long stamp;

        private boolean everLost;

        /** What the store had charged before it. */
        private List<Request> before = List.of();

        boolean executedAllowed;

        /** Whether the instance knows that the store has charged it, besides a grant of its own. */
        boolean chargeKnown;

        /** The id of the reconciliation that it is part of. */
        String batch;

        boolean reconciled;

        private Request(Member by, KeyHistory key, long permits) {
            this.by = by;
            this.key = key;
            this.permits = permits;
        }

        private InstanceKnowledge knowledge() {
            return by.knowledge(key);
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

        private void isLost() {
            everLost |= inStore;
            inStore = false;
        }

        /** The caller is no longer interested. */
        void cancel() {
            ignored = true;
        }

        /** Whether it is in the ledger of its instance, and not in the store as far as that knows. */
        private boolean isUncharged() {
            return local && !chargeKnown && !reconciled;
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
                by.checkLocalGrant(this);
            } else {
                by.checkStoreGrant(this);
            }
            checkAll(this);
        }

        void refund() {
            refunded = true;
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
        KeyHistory key = grant.key;
        Predicate<Request> counted = one -> one.counts() && key.isWithin(one, grant.at);
        long mostUncharged = members.stream()
                .mapToLong(member -> member.knowledge(key).uncharged.mostWithin(window(), grant.at))
                .sum();
        long inAddition = key.excess.mostWithin(window(), grant.at) + key.sum(counted.and(Request::isUncharged));
        long bound = limit.permits() + key.sum(counted.and(one -> one.everLost)) + Math.max(mostUncharged, inAddition);
        long all = key.sum(counted.and(one -> one.at <= grant.at));
        check(all, bound, "all within a window", grant, counted);
    }

    private void check(long sum, long bound, String what, Request grant, Predicate<Request> shown) {
        if (sum <= bound) {
            return;
        }
        StringBuilder text = new StringBuilder();
        grant.key.requests.stream()
                .filter(one -> one.counts() && shown.test(one))
                .forEach(one -> text.append("\n  ").append(one));
        fail(what + ": " + sum + " permits, at most " + bound + " expected, with " + grant + " of " + grant.key
                + " under " + limit + ":" + text);
    }

    /** One instance, from its start to its end. Observes its connection. */
    final class Member implements FaultyLink.Observer {

        private final Map<KeyHistory, InstanceKnowledge> byKey = new LinkedHashMap<>();
        private final Set<String> batches = new HashSet<>();
        private final int number = members.size();
        private int instances = 1;
        private boolean dead;

        /** Returns a new request. */
        Request newRequest(String name, long permits) {
            KeyHistory key = key(name);
            Request request = new Request(this, key, permits);
            key.requests.add(request);
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

        private InstanceKnowledge knowledge(KeyHistory key) {
            return byKey.computeIfAbsent(key, any -> new InstanceKnowledge(this, key, limit, clock));
        }

        // The first three rules.

        private void checkStoreGrant(Request grant) {
            Set<Request> known = within(grant.before, grant, grant.at);
            known.addAll(uncharged(grant));
            known.addAll(within(grant.knowledge().lost(), grant, clock.getAsLong()));
            checkWith(known, limit.permits(), "a grant of the store with what is known", grant);
        }

        private void checkLocalGrant(Request grant) {
            InstanceKnowledge knowledge = grant.knowledge();
            long now = clock.getAsLong();
            Seen seen = knowledge.seenBy(grant);
            Set<Request> known = within(seen.requests(), grant, now);
            known.addAll(within(knowledge.lost(), grant, now));
            if (instances > 1) {
                known.removeIf(one -> one.by != this);
            }
            known.addAll(uncharged(grant));
            checkWith(known, limit.permits(), "a local grant with what is known", grant);
            checkShare(grant, seen);
        }

        private void checkShare(Request grant, Seen seen) {
            InstanceKnowledge knowledge = grant.knowledge();
            Set<Request> uncharged = uncharged(grant);
            uncharged.add(grant);
            knowledge.uncharged.add(sum(uncharged, Request::counts));
            long most = Math.max(1, (long) Math.floor(limit.permits() * knowledge.share(instances, seen)));
            checkWith(uncharged, most, "the share of " + instances + " instances", grant);
        }

        private void checkWith(Set<Request> others, long bound, String what, Request grant) {
            others.remove(grant);
            check(grant.permits + sum(others, Request::counts), bound, what, grant, others::contains);
        }

        private Set<Request> within(Collection<Request> some, Request grant, long time) {
            Set<Request> within = new LinkedHashSet<>(some);
            within.removeIf(one -> !grant.key.isWithin(one, time));
            return within;
        }

        private Set<Request> uncharged(Request grant) {
            Set<Request> uncharged = within(grant.key.requests, grant, clock.getAsLong());
            uncharged.removeIf(one -> one.by != this || !one.isUncharged());
            return uncharged;
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
            call.reconciliations().forEach(this::handedOver);
        }

        private void handedOver(Reconciliation reconciliation) {
            if (losses == 0 && !reconciliation.lost().isEmpty()) {
                fail("nothing is lost, and " + this + " restores " + reconciliation.lost());
            }
            if (!batches.add(idOf(reconciliation))) {
                return;
            }
            KeyHistory key = key(reconciliation.claim().key());
            String repeated = knowledge(key).repeatedBy(reconciliation);
            if (repeated != null) {
                key.requests.stream()
                        .filter(one -> repeated.equals(one.batch))
                        .forEach(one -> one.batch = idOf(reconciliation));
                return;
            }
            long undelivered = reconciliation.permits();
            for (Request one : key.requests) {
                if (one.by == this && one.batch == null && one.isUncharged() && one.counts()) {
                    one.batch = idOf(reconciliation);
                    undelivered -= isRecorded(one) ? one.permits : 0;
                }
            }
            knowledge(key).handsOver(idOf(reconciliation), undelivered);
        }

        /** Returns whether a grant of the fallback still counts there, if only in part. */
        private boolean isRecorded(Request one) {
            long slot = limit.isAlignedToClock() ? window() : limit.resolution().toMillis();
            return (one.at / slot + 1) * slot + window() > clock.getAsLong();
        }

        @Override
        public void executed(Call call, StoreDecision reply) {
            steps++;
            Map<KeyHistory, List<Request>> charged = new HashMap<>();
            for (StoreUsage usage : reply.usages()) {
                KeyHistory key = key(usage.claim().key());
                switch (call.action()) {
                    case TAKE ->
                        charge(call, key, reply, usage.inStore().reply().stamp());
                    case RECONCILE -> chargeBatch(call, key);
                    default -> {}
                }
                charged.put(key, key.inStore());
            }
            executed.put(call, new Executed(steps, charged));
        }

        private void charge(Call call, KeyHistory key, StoreDecision reply, long stamp) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (request != null) {
                request.before = key.inStore();
                if (reply.isAllowed()) {
                    request.executedAllowed = true;
                    request.inStore = true;
                    request.chargedAt = reply.at().toEpochMilli();
                    request.stamp = stamp;
                    request.at = request.decision == null ? request.chargedAt : Math.min(request.at, request.chargedAt);
                }
            }
        }

        private void chargeBatch(Call call, KeyHistory key) {
            for (Reconciliation reconciliation : call.reconciliations()) {
                for (Request one : key.requests) {
                    one.inStore |= idOf(reconciliation).equals(one.batch);
                }
                if (reconciliation.claim().key().equals(key.name)) {
                    reconciliation
                            .lost()
                            .forEach(some -> knowledge(key).lost(some.life()).forEach(one -> one.inStore = true));
                }
            }
            Predicate<Request> inUse = one -> one.counts() && key.isWithin(one, clock.getAsLong());
            key.excess.add(sum(key.inStore(), inUse) - limit.permits());
        }

        /** Also of a charge that says nothing to the instance: its fallback has granted the request. */
        @Override
        public void refunded(Refund refund) {
            for (Request one : key(refund.claim().key()).requests) {
                one.inStore &=
                        one.by != this || one.stamp != refund.usage().reply().stamp();
            }
        }

        @Override
        public void replied(Call call, StoreDecision reply) {
            Executed then = executed.get(call);
            if (dead || then == null) {
                return;
            }
            for (StoreUsage usage : reply.usages()) {
                knowledge(key(usage.claim().key())).replied(call, reply, usage.inStore(), then);
            }
        }

        @Override
        public String toString() {
            return "instance " + number + (dead ? " (dead)" : "");
        }
    }

    /** Returns the id of a reconciliation, which no other one has. */
    static String idOf(Reconciliation one) {
        return one.source() + "#" + one.number();
    }
}
