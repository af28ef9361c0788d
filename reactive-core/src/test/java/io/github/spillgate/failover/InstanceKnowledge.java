package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.AdmissionOracle.Allowances;
import io.github.spillgate.failover.AdmissionOracle.Executed;
import io.github.spillgate.failover.AdmissionOracle.KeyHistory;
import io.github.spillgate.failover.AdmissionOracle.Member;
import io.github.spillgate.failover.AdmissionOracle.Request;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import reactor.core.scheduler.Schedulers;

/**
 * What one instance must know of one key, from the replies to it: what is in use, and what the store has lost. Part of
 * {@link AdmissionOracle}.
 */
final class InstanceKnowledge {

    /** A slot of OwnPermits is this part of the window. */
    private static final int SLOTS = OwnPermits.STEPS;

    private final Member member;
    private final KeyHistory key;
    private final Limit limit;

    // The newest reply.

    private int life;
    private long newestAt = Long.MIN_VALUE;
    private long newestStamp;
    private long arrivedAt = Long.MIN_VALUE;
    private long newestUsed;
    private List<Request> newest = List.of();

    /** What was in use in each life that is lost and was not restored, as far as the instance knows. */
    private final Map<Integer, Set<Request>> lost = new HashMap<>();

    /** The lives that a reconciliation has restored, with the step of the store, while its reply is on its way. */
    private final Map<Integer, Long> restoredSteps = new HashMap<>();

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
        this.uncharged = new Allowances(limit, clock);
        this.exchanged = new Allowances(limit, clock);
    }

    private record Charged(long at, long permits) {}

    // What the oracle asks.

    /** The requests that the store had charged at the newest reply. */
    List<Request> newest() {
        return newest;
    }

    /** What the instance knows to be lost, and the store had not restored before it executed a step. */
    Set<Request> lostAt(long step) {
        Set<Request> all = new LinkedHashSet<>();
        lost.forEach((one, requests) -> {
            if (step < restoredSteps.getOrDefault(one, Long.MAX_VALUE)) {
                all.addAll(requests);
            }
        });
        return all;
    }

    /** Returns the most permits in a window that the instance had granted itself at any one time. */
    long mostUncharged(long time) {
        return uncharged.mostWithin(limit.window().toMillis(), time);
    }

    /** Returns by how much the permits granted here may exceed the share. */
    long exchanged() {
        return exchanged.recent();
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
        long window = limit.window().toMillis();
        if (!limit.isAlignedToClock()) {
            return chargedAt > newestAt - window ? 1 : 0;
        }
        // A slot of OwnPermits may be in two windows.
        long slot = 2 * window / SLOTS + 1;
        long start = newestAt - newestAt % window;
        if (chargedAt >= start - slot) {
            return 1;
        }
        return chargedAt >= start - window - slot ? 1 - (newestAt - start) / (double) window : 0;
    }

    // What happens to its requests.

    /** The instance has granted permits itself, with which so many are not charged. */
    void granted(long notCharged) {
        uncharged.add(notCharged);
    }

    void refundedInExchange(long permits) {
        exchanged.add(permits);
    }

    // The connection.

    /** The store has executed a reconciliation, and restored these permits; returns those that are in use again. */
    Set<Request> restored(LostPermits permits, long step) {
        int one = permits.life() / StoreUsage.RESETS;
        restoredSteps.put(one, step);
        return lost.getOrDefault(one, Set.of());
    }

    /** The store has lost its data, and what was restored without a reply so far. */
    void storeLoses() {
        restoredSteps.clear();
    }

    /** The instance has got a reply. */
    void replied(Call call, StoreDecision reply, StoreUsage usage, Executed then) {
        long at = reply.at().toEpochMilli();
        int replied = usage.life() / StoreUsage.RESETS;
        boolean isNewer = call.sentAt() >= arrivedAt + (replied == life ? 1 : 0)
                || (replied == life && isLater(at, reply.stamp(), usage.used()));
        if (isNewer) {
            if (replied != life && life != 0 && !newest.isEmpty()) {
                lost.put(life, new LinkedHashSet<>(newest));
            }
            life = replied;
            newestAt = at;
            newestStamp = reply.stamp();
            arrivedAt = Schedulers.parallel().now(TimeUnit.MILLISECONDS);
            newestUsed = usage.used();
            newest = then.charged().get(key);
        }
        if (replied == life) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (request != null && call.kind() == Call.Kind.TAKE && reply.isAllowed()) {
                request.chargeKnown = true;
            }
            call.reconciliations().forEach(this::reconciled);
        }
    }

    private boolean isLater(long at, long stamp, long used) {
        if (at != newestAt) {
            return at > newestAt;
        }
        return stamp > newestStamp || (stamp == newestStamp && used > newestUsed);
    }

    /** The reply to a reconciliation is of the present life: the store has all of it. */
    private void reconciled(Reconciliation one) {
        if (one.claim().key().equals(key.name)) {
            one.lost().forEach(some -> lost.remove(some.life() / StoreUsage.RESETS));
            if (!one.grants().isEmpty()) {
                reconciled.put(
                        one.id(),
                        new Charged(one.grants().get(one.grants().size() - 1).toMillis(), one.permits()));
            }
            key.requests.stream().filter(some -> one.id().equals(some.batch)).forEach(some -> some.reconciled = true);
        }
    }
}
