package io.github.spillgate.internal.holding;

import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The permits that running work of one limiter holds. Renews them in batches, releases them once, and ends those that
 * could not be renewed. Thread-safe.
 */
public final class Holds {
    // Design notes.
    //
    // A hold is renewed after a third of its hold time, so that two attempts can fail. All that are nearly due are
    // renewed together, in one command for each node. One timer serves all holds, and is set only while there are any.
    //
    // The owner of a hold must stop before the store gives the permits to another request. The store counts from the
    // execution of the last command, which is later than its sending. So the owner counts from the sending, on a clock
    // that never jumps. It stops a little earlier than necessary, because a timer may be late, and the two clocks may
    // run at different speeds. A process that was suspended stops its work when it runs again.
    //
    // That clock may stand still while a machine is suspended. So if the store does not know a hold, although by the
    // wall clock its time has passed, others may have got its permits, and the work ends.
    //
    // So a hold is never renewed after its end in the store. This matters because the store takes a hold that it does
    // not know again, even above the limit. A reply may arrive after the end, or its decision be kept after it: the
    // time of the sending is in the claim, because no deadline bounds how late that is.
    //
    // A release must not overtake a renewal, which would take the permits again. So it waits for the reply.

    // Parts of the hold time, which is divided by these numbers.

    /** After this part a hold is renewed. */
    private static final int RENEWAL = 3;

    /** By this part a renewal may be earlier than necessary, to share a command with others. */
    private static final int TOGETHER = 12;

    /** By this part the owner stops before the end. */
    private static final int MARGIN = 20;

    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(10);
    private static final int BATCH = 128;

    private final LimitStore store;
    private final long longest;
    private final Consumer<List<Claim>> onRelease;
    private final Set<WorkHold> active = ConcurrentHashMap.newKeySet();

    // Guarded by this.
    private @Nullable Disposable timer;
    private long timerAt;

    /**
     * Creates an empty set of holds.
     *
     * @param longest the longest time for which work holds permits
     * @param onRelease gets all claims of a decision after its permits were released
     */
    public Holds(LimitStore store, Duration longest, Consumer<List<Claim>> onRelease) {
        this.store = store;
        this.longest = longest.toNanos();
        this.onRelease = onRelease;
    }

    /** Returns how many holds there are. */
    public int size() {
        return active.size();
    }

    /**
     * Holds the permits of a decision until the result is disposed of, or they are lost.
     *
     * @param claims the claims of the decision
     * @param sentAt when the request was sent, or earlier, by {@link Time#nanos()}
     * @param onExpired called if the permits are lost; before this returns if the hold time has passed already
     */
    public WorkHold add(List<Claim> claims, long sentAt, Consumer<HoldExpiredException> onExpired) {
        WorkHold hold = new WorkHold(claims, HoldIds.holdsIn(claims), sentAt, onExpired);
        if (!hold.permits.isEmpty()) {
            active.add(hold);
            if (hold.wasReleased()) {
                hold.dispose();
            } else if (hold.hasExpired(Time.nanos())) {
                hold.expire("the decision took longer than their hold time");
            } else {
                setTimer(hold.nextAt());
            }
            if (hold.isOver()) {
                // It ended before it was added.
                active.remove(hold);
            }
        }
        return hold;
    }

    /** Returns when the first claim of a decision got its id: before the request was sent. */
    public static long sentAt(List<Claim> claims) {
        long first = Time.nanos();
        for (Claim claim : HoldIds.holdsIn(claims)) {
            long since = ((HeldClaim) claim).heldSince();
            first = since - first < 0 ? since : first;
        }
        return first;
    }

    /** Returns the shortest hold time, in nanoseconds. */
    private static long lifeOf(List<Claim> permits) {
        return permits.stream()
                .mapToLong(claim -> claim.limit().holdTime().toNanos())
                .min()
                .orElse(0);
    }

    /** Releases permits, without waiting for that. */
    void release(List<Claim> claims) {
        List<Claim> permits = HoldIds.holdsIn(claims);
        if (!permits.isEmpty()) {
            Mono.defer(() -> store.hold(permits, HoldAction.RELEASE))
                    .doFinally(end -> onRelease.accept(claims))
                    .subscribe(null, error -> {});
        }
    }

    /**
     * Returns the decision of one attempt; if it is emitted while its subscriber cancels, its permits are released
     * instead. The store does that if the subscriber has cancelled before.
     *
     * @param claims the claims, with the ids of this attempt
     */
    public Mono<StoreDecision> releasingIfCancelled(Mono<StoreDecision> decision, List<Claim> claims) {
        AtomicBoolean isOver = new AtomicBoolean();
        return decision.doOnCancel(() -> isOver.set(true)).handle((made, sink) -> {
            if (isOver.compareAndSet(false, true)) {
                sink.next(made);
            } else if (made.isCharged()) {
                release(claims);
            }
        });
    }

    private void setTimer(long at) {
        synchronized (this) {
            if (timer != null && timerAt - at <= 0) {
                return;
            }
            if (timer != null) {
                timer.dispose();
            }
            timerAt = at;
            timer = Schedulers.parallel()
                    .schedule(this::run, Math.max(SHORTEST_PAUSE, at - Time.nanos()), TimeUnit.NANOSECONDS);
        }
    }

    private void run() {
        synchronized (this) {
            timer = null;
        }
        try {
            long now = Time.nanos();
            renewDue(now);
            endOver(now);
        } finally {
            // Also if an action throws an error that Reactor throws on: all holds depend on this timer.
            setTimerForNext();
        }
    }

    private void renewDue(long now) {
        // By node: one that does not reply must not prevent the renewals of the others.
        Map<String, List<WorkHold>> due = new HashMap<>();
        for (WorkHold hold : active) {
            if (!hold.wasReleased() && !hold.hasExpired(now) && hold.beginRenewal(now)) {
                due.computeIfAbsent(nodeOf(hold), node -> new ArrayList<>()).add(hold);
            }
        }
        for (List<WorkHold> ofNode : due.values()) {
            for (int from = 0; from < ofNode.size(); from += BATCH) {
                renew(ofNode.subList(from, Math.min(ofNode.size(), from + BATCH)), now);
            }
        }
    }

    private void endOver(long now) {
        for (WorkHold hold : active) {
            if (hold.wasReleased()) {
                hold.dispose();
            } else if (hold.hasExpired(now)) {
                hold.expire(hold.isRenewable(now) ? "they could not be renewed" : "the longest hold time has passed");
            }
        }
    }

    /** Never throws, because all holds depend on this timer. */
    private String nodeOf(WorkHold hold) {
        try {
            return store.node(hold.permits);
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            return "";
        }
    }

    private void setTimerForNext() {
        long now = Time.nanos();
        boolean isAny = false;
        long next = 0;
        for (WorkHold hold : active) {
            long at = hold.nextAt();
            next = isAny && next - at <= 0 ? next : at;
            isAny = true;
        }
        if (isAny) {
            setTimer(Math.max(next, now));
        }
    }

    private void renew(List<WorkHold> holds, long sentAt) {
        List<Claim> claims = holds.stream()
                .flatMap(hold -> hold.permits.stream())
                .filter(claim -> !((HeldClaim) claim).isReleased())
                .toList();
        if (claims.isEmpty()) {
            holds.forEach(WorkHold::notRenewed);
            return;
        }
        long shortest = holds.stream().mapToLong(hold -> hold.life).min().orElse(longest);
        long wallAt = Time.millis();
        AtomicBoolean isDone = new AtomicBoolean();
        Mono.defer(() -> store.hold(claims, HoldAction.RENEW))
                .timeout(Duration.ofNanos(shortest / RENEWAL), Schedulers.parallel())
                .subscribe(
                        renewals -> {
                            isDone.set(true);
                            renewed(holds, renewals, sentAt, wallAt);
                        },
                        error -> holds.forEach(WorkHold::notRenewed),
                        () -> {
                            if (!isDone.get()) {
                                holds.forEach(WorkHold::notRenewed);
                            }
                        });
    }

    private void renewed(List<WorkHold> holds, List<HoldRenewal> renewals, long sentAt, long wallAt) {
        Map<UUID, HoldRenewal.RenewalOutcome> lost = new HashMap<>();
        Set<UUID> restored = new HashSet<>();
        for (HoldRenewal renewal : renewals) {
            UUID id = renewal.claim().holdId();
            if (id == null) {
                continue;
            }
            switch (renewal.outcome()) {
                case RENEWED -> {}
                case RESTORED -> restored.add(id);
                case RELEASED, FULL, FOREIGN -> lost.put(id, renewal.outcome());
            }
        }
        long now = Time.nanos();
        long wallNow = Time.millis();
        for (WorkHold hold : holds) {
            UUID id = hold.permits.get(0).holdId();
            if (restored.contains(id) && (hold.hasExpired(now) || hold.hasPassedByWallClock(wallNow))) {
                // Others may have got the permits before the renewal arrived. The release waits for its end.
                hold.expire("they could not be renewed");
            }
            hold.renewed(sentAt, wallAt);
            HoldRenewal.RenewalOutcome outcome = lost.get(id);
            if (outcome != null) {
                hold.expire("the store does not hold them: " + outcome);
            }
        }
        setTimerForNext();
    }

    /** The permits of one decision. Disposing of it releases them. */
    final class WorkHold implements Disposable {

        private final List<Claim> claims;
        private final List<Claim> permits;
        private final long heldSince;
        private final Consumer<HoldExpiredException> onExpired;

        /** The shortest hold time of its limits. */
        private final long life;

        private volatile long renewAt;
        private volatile long expiresAt;

        /** When it was renewed, or added, by the wall clock. */
        private volatile long wallAt;

        // Guarded by this.
        private boolean isRenewing;
        private boolean isOver;

        private WorkHold(
                List<Claim> claims, List<Claim> permits, long sentAt, Consumer<HoldExpiredException> onExpired) {
            this.claims = claims;
            this.permits = permits;
            this.heldSince = sentAt;
            this.onExpired = onExpired;
            this.life = lifeOf(permits);
            extend(sentAt, Time.millis());
        }

        private void extend(long sentAt, long wallAt) {
            this.wallAt = wallAt;
            renewAt = sentAt + life / RENEWAL;
            expiresAt = sentAt + life - life / MARGIN;
        }

        /** Returns whether the decision was released or refunded. A renewal would take its permits again. */
        private boolean wasReleased() {
            return permits.stream().allMatch(claim -> ((HeldClaim) claim).isReleased());
        }

        private boolean hasExpired(long now) {
            return now - expiresAt >= 0;
        }

        private boolean hasPassedByWallClock(long wallNow) {
            return wallNow - wallAt >= TimeUnit.NANOSECONDS.toMillis(life);
        }

        private boolean isRenewable(long now) {
            return now - heldSince < longest;
        }

        /** Returns the time of the next renewal or, if that is earlier, of the expiry. */
        private synchronized long nextAt() {
            return isRenewing || !isRenewable(renewAt) ? expiresAt : Math.min(renewAt, expiresAt);
        }

        private synchronized boolean isOver() {
            return isOver;
        }

        private synchronized boolean beginRenewal(long now) {
            boolean begins = !isOver && !isRenewing && isRenewable(now) && now - renewAt >= -life / TOGETHER;
            isRenewing |= begins;
            return begins;
        }

        private void renewed(long sentAt, long wallAt) {
            extend(sentAt, wallAt);
            endRenewal();
        }

        /** Ends a renewal without a result. The next one follows soon. */
        private void notRenewed() {
            renewAt = Time.nanos() + life / TOGETHER;
            endRenewal();
            setTimer(nextAt());
        }

        private void endRenewal() {
            boolean releases;
            synchronized (this) {
                isRenewing = false;
                releases = isOver;
            }
            if (releases) {
                release(claims);
            }
        }

        private void expire(String reason) {
            if (!end()) {
                return;
            }
            List<Limit> limits = permits.stream().map(Claim::limit).toList();
            try {
                onExpired.accept(new HoldExpiredException(limits, Duration.ofNanos(Time.nanos() - heldSince), reason));
            } catch (Throwable e) {
                Exceptions.throwIfFatal(e);
                Dropped.report(e);
            }
        }

        @Override
        public void dispose() {
            // The decision may be kept a second time: that renewal would take the permits again.
            HoldIds.noteRelease(permits);
            end();
        }

        @Override
        public boolean isDisposed() {
            return isOver();
        }

        /** Ends the hold, and returns whether this call did. */
        private boolean end() {
            boolean releases;
            synchronized (this) {
                if (isOver) {
                    return false;
                }
                isOver = true;
                releases = !isRenewing;
            }
            active.remove(this);
            if (releases) {
                release(claims);
            }
            return true;
        }
    }
}
