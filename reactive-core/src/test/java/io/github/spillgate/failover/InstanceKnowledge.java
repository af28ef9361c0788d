package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.AdmissionOracle.Allowances;
import io.github.spillgate.failover.AdmissionOracle.Executed;
import io.github.spillgate.failover.AdmissionOracle.KeyHistory;
import io.github.spillgate.failover.AdmissionOracle.Member;
import io.github.spillgate.failover.AdmissionOracle.Request;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.failover.ledger.HandOver;
import io.github.spillgate.failover.ledger.OwnPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Schedulers;

/**
 * What one instance must know of one key, from the replies to it: what is in use, and what the store has lost. Part of
 * {@link AdmissionOracle}.
 */
final class InstanceKnowledge {

    private final Member member;
    private final KeyHistory key;
    private final Limit limit;
    private final LongSupplier clock;
    private Seen seen = new Seen(0, 0, 0, 0, 0, 0, List.of());

    /** What was in use in each life that is lost and was not restored, as far as the instance knows. */
    private final Map<Integer, List<Request>> lost = new HashMap<>();

    /** How many permits the store had not charged, each time that the instance granted some. */
    final Allowances uncharged;

    /** The permits of each reconciliation of which it knows the result, as of the last grant. */
    private final Map<String, Grants> reconciled = new HashMap<>();

    private @Nullable HandOver last;

    /** The newest reconciliation; null before the first. */
    private @Nullable Reconciliation newest;

    /** Whether the reply to it is of a lost life, so that the next one repeats it. */
    private boolean isNewestLost;

    InstanceKnowledge(Member member, KeyHistory key, Limit limit, LongSupplier clock) {
        this.member = member;
        this.key = key;
        this.limit = limit;
        this.clock = clock;
        this.uncharged = new Allowances(clock);
    }

    /** The newest reply, its step in the store, and what that had charged then, which all expires by its end. */
    record Seen(int life, long at, long ends, long step, long arrivedAt, long used, List<Request> requests) {}

    /** A reconciliation that was sent after the newest reply, when no caller had got these permits of it. */
    private record HandOver(String id, long at, long undelivered, Seen seen) {}

    // What the oracle asks.

    /** Returns the newest reply when it granted a request, which it may hand over before the caller gets it. */
    Seen seenBy(Request grant) {
        HandOver sent = last;
        if (sent == null || sent.at != clock.getAsLong() || sent.undelivered != grant.permits) {
            return seen;
        }
        last = null;
        grant.batch = sent.id;
        grant.reconciled = reconciled.containsKey(sent.id);
        grant.inStore |= grant.reconciled;
        return sent.seen;
    }

    /** Returns what it knows to be lost, and not to be restored. */
    List<Request> lost() {
        return lost.values().stream().flatMap(List::stream).toList();
    }

    /** Returns what it knows of a lost life. */
    List<Request> lost(int life) {
        return lost.getOrDefault(life / StoreUsage.RESETS, List.of());
    }

    /** Returns the highest share that this instance may compute. */
    double share(int instances, Seen then) {
        if (instances <= 1) {
            return 1;
        }
        double own = 0.5; // it is rounded
        for (Request one : key.requests) {
            if (one.by == member && one.executedAllowed) {
                own += one.permits * mostInUse(one.chargedAt, then.at);
            }
        }
        for (Grants one : reconciled.values()) {
            own += one.permits() * mostInUse(one.toMillis(), then.at);
        }
        double even = 0.1 * limit.permits();
        return Math.min(1, (own + even / instances) / (Math.max(own, (double) then.used) + even));
    }

    /** Returns the highest part of a permit that counts in the use of this instance. */
    private double mostInUse(long chargedAt, long now) {
        long window = limit.window().toMillis();
        if (!limit.isAlignedToClock()) {
            return chargedAt > now - window ? 1 : 0;
        }
        // A slot of OwnPermits may be in two windows.
        long slot = 2 * window / OwnPermits.STEPS + 1;
        long start = now - now % window;
        if (chargedAt >= start - slot) {
            return 1;
        }
        return chargedAt >= start - window - slot ? 1 - (now - start) / (double) window : 0;
    }

    // What happens.

    /** The instance sends a reconciliation; returns the id of the one that it repeats, null if there is none. */
    @Nullable
    String repeatedBy(Reconciliation next) {
        Reconciliation before = newest;
        boolean isRepeated = isNewestLost && before != null && hasOnlyPartsOf(before, next);
        newest = next;
        isNewestLost = false;
        return isRepeated ? AdmissionOracle.idOf(before) : null;
    }

    /** If all grants of a lost one were refunded, it is not repeated. */
    private static boolean hasOnlyPartsOf(Reconciliation before, Reconciliation next) {
        return next.lost().equals(before.lost())
                && next.permits() <= before.permits()
                && next.grants().stream()
                        .allMatch(some -> before.grants().stream()
                                .anyMatch(one ->
                                        one.fromMillis() == some.fromMillis() && one.toMillis() == some.toMillis()));
    }

    /** The instance sends a reconciliation for the first time. */
    void handsOver(String id, long undelivered) {
        last = new HandOver(id, clock.getAsLong(), undelivered, seen);
    }

    /** The instance has got a reply. */
    void replied(Call call, StoreDecision reply, StoreUsage usage, Executed then) {
        int life = usage.life() / StoreUsage.RESETS;
        boolean isSame = life == seen.life;
        long at = usage.reply().at();
        if (isSame ? then.step() > seen.step : call.sentAt() >= seen.arrivedAt || at >= seen.ends) {
            if (!isSame) {
                lost.put(seen.life, seen.requests);
            }
            long now = Schedulers.parallel().now(TimeUnit.MILLISECONDS);
            long ends = usage.wholeAt().toEpochMilli();
            List<Request> charged = then.charged().get(key);
            seen = new Seen(life, at, ends, then.step(), now, usage.used(), charged);
        }
        if (life == seen.life) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (request != null && call.action() == Call.Action.TAKE && reply.isAllowed()) {
                request.chargeKnown = true;
            }
            call.reconciliations().forEach(this::reconciled);
        } else {
            isNewestLost |= call.reconciliations().stream().anyMatch(one -> one == newest);
        }
    }

    /** The reply to a reconciliation is of the present life: the store has all of it. */
    private void reconciled(Reconciliation one) {
        if (one.claim().key().equals(key.name)) {
            one.lost().forEach(some -> lost.remove(some.life() / StoreUsage.RESETS));
            if (!one.grants().isEmpty()) {
                long newest = one.grants().get(one.grants().size() - 1).toMillis();
                reconciled.put(AdmissionOracle.idOf(one), new Grants(newest, newest, one.permits()));
            }
            key.requests.stream()
                    .filter(some -> AdmissionOracle.idOf(one).equals(some.batch))
                    .forEach(some -> some.reconciled = true);
        }
    }
}
