package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * Refunds, settlements and resets, and releases and renewals of holds, in the primary store and in the fallback.
 *
 * <p>A local fallback is changed before the primary store is asked: replies until then still include the permits; a
 * later reply may not, and subtracting them from that one would count a refund twice.
 */
final class CountChanges {

    /** The interval at which a waiting refund checks whether local grants are reconciled. */
    private static final Duration CHECK_AGAIN = Duration.ofMillis(5);

    private final Failover failover;
    private final LimitStore primary;
    private final LimitStore fallback;
    private final LocalGrants grants;
    private final DenialCache denials;
    private final @Nullable LocalFallback local;
    private final Duration checkAgain;
    private final SettlementOutbox settlements;

    CountChanges(Failover failover) {
        this.failover = failover;
        this.primary = failover.primary();
        this.fallback = failover.fallback();
        this.grants = failover.grants();
        this.denials = failover.denials();
        this.local = grants.fallback();
        Duration deadline = Duration.ofNanos(failover.deadlineNanos());
        this.settlements =
                new SettlementOutbox(primary, failover.gates(), denials, grants::settled, grants::noteRefundOfOldest);
        this.checkAgain = deadline.compareTo(CHECK_AGAIN) < 0 ? deadline : CHECK_AGAIN;
    }

    // Refunds and settlements of decisions.

    /** Makes corrections at the same time. One that fails does not prevent the others. */
    Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return Mono.defer(() -> {
            Corrected[] results = new Corrected[corrections.size()];
            List<Refund> inPrimary = new ArrayList<>();
            List<Refund> inFallback = new ArrayList<>();
            List<Claim> oldest = new ArrayList<>();
            List<Mono<Void>> changes = new ArrayList<>();
            for (int i = 0; i < results.length; i++) {
                int place = i;
                results[i] = Corrected.of(CorrectionOutcome.APPLIED);
                if (corrections.get(i) instanceof Refund one) {
                    if (one.fallbacks() > 0) {
                        inFallback.add(one.inFallback());
                    } else {
                        inPrimary.add(one);
                    }
                } else if (corrections.get(i) instanceof Settlement one) {
                    changes.add(settle(one, result -> results[place] = result));
                } else if (corrections.get(i) instanceof RefundOldest || corrections.get(i) instanceof RefundCharged) {
                    oldest.add(corrections.get(i).claim());
                } else if (corrections.get(i) instanceof Reconciliation one
                        && !one.claim().limit().takesPermits()) {
                    changes.add(ban(one, result -> results[place] = result));
                } else {
                    results[i] = Corrected.of(CorrectionOutcome.UNSUPPORTED);
                }
            }
            if (!inPrimary.isEmpty()) {
                changes.add(denials.freeing(claimsOf(inPrimary), refundInPrimary(inPrimary)));
            }
            if (!inFallback.isEmpty()) {
                changes.add(denials.freeing(claimsOf(inFallback), refundInFallback(inFallback)));
            }
            if (!oldest.isEmpty()) {
                changes.add(refundOldest(oldest));
            }
            return (changes.size() == 1 ? changes.get(0) : Mono.whenDelayError(changes))
                    .then(Mono.fromSupplier(() -> List.of(results)));
        });
    }

    private static List<Claim> claimsOf(List<? extends Correction> corrections) {
        return corrections.stream().map(Correction::claim).toList();
    }

    private Mono<Void> refundInFallback(List<Refund> refunds) {
        LocalFallback ledgers = local;
        if (ledgers == null) {
            return fallback.correct(refunds).then();
        }
        return Mono.defer(() -> {
            List<RefundCharged> charged = refunds.stream()
                    .map(ledgers::refundGrant)
                    .filter(Objects::nonNull)
                    .toList();
            return charged.isEmpty() ? Mono.empty() : refundCharged(charged, ledgers);
        });
    }

    private Mono<Void> refundInPrimary(List<Refund> refunds) {
        Mono<Void> onPrimary =
                call(claimsOf(refunds), deadline -> primary.correct(refunds).then(), store -> Mono.empty());
        LocalFallback ledgers = local;
        if (ledgers == null) {
            return onPrimary;
        }
        return Mono.defer(() -> {
            refunds.forEach(one -> ledgers.refundConfirmed(one, one.claim().permits()));
            return onPrimary;
        });
    }

    /**
     * Replaces the costs of decisions. Those of the fallback are settled in its ledgers, and so is an additional cost
     * during an outage: it is a grant that is reconciled, unless the count was reset. Everything else is delivered to
     * the primary store, for which the caller waits until the deadline.
     *
     * @param byFallback gets the result of a fallback that is not a local one
     */
    private Mono<Void> settle(Settlement one, Consumer<Corrected> byFallback) {
        List<Claim> freed = one.toRefund() > 0 ? List.of(one.claim()) : List.of();
        return denials.freeing(freed, Mono.defer(() -> settleNow(one, byFallback)));
    }

    private Mono<Void> settleNow(Settlement one, Consumer<Corrected> byFallback) {
        LocalFallback ledgers = local;
        if (one.fallbacks() > 0) {
            return ledgers == null
                    ? fallback.correct(List.of(one.inFallback()))
                            .doOnNext(results -> byFallback.accept(results.get(0)))
                            .then()
                    : settleGrant(one, ledgers);
        }
        boolean isDown = failover.gates().toOrWhole(List.of(one.claim())).isOpen();
        // Only the primary store knows whether a reset has removed what its decision has charged.
        if (ledgers != null && isDown && one.toCharge() > 0 && ledgers.isInPresentLife(one.usage())) {
            ledgers.takeBeyond(one);
            return Mono.empty();
        }
        if (ledgers != null && one.toRefund() > 0) {
            ledgers.refundConfirmed(one, one.toRefund());
        }
        Mono<Void> delivered = settlements.add(one);
        return isDown
                ? Mono.empty()
                : delivered.timeout(Duration.ofNanos(failover.deadlineNanos()), Mono.empty(), Schedulers.parallel());
    }

    /**
     * Settles a decision of the fallback. What is refunded of permits that the primary store has charged since is
     * delivered there: by the deadline of the settlement, or later.
     */
    private Mono<Void> settleGrant(Settlement one, LocalFallback ledgers) {
        RefundCharged charged = ledgers.settleGrant(one);
        if (charged == null) {
            return Mono.empty();
        }
        Mono<Void> delivered = settlements.add(charged, one.deadline());
        if (failover.gates().toOrWhole(List.of(one.claim())).isOpen()) {
            ledgers.refundCharged(charged);
            return Mono.empty();
        }
        return delivered.timeout(Duration.ofNanos(failover.deadlineNanos()), Mono.empty(), Schedulers.parallel());
    }

    private Mono<Void> refundCharged(List<RefundCharged> charged, LocalFallback ledgers) {
        return refundOnce(
                claimsOf(charged),
                () -> primary.correct(charged).then(),
                store -> Mono.fromRunnable(() -> charged.forEach(ledgers::refundCharged)));
    }

    /** Returns what waits to be settled in the primary store. */
    SettlementOutbox settlements() {
        return settlements;
    }

    // Bans.

    /**
     * Bans a key by a call. A ban that is made twice is the same, so the fallback bans too if a reply is lost. It also
     * does if the key holds the value of another program, because it decides on that key then.
     */
    private Mono<Void> ban(Reconciliation one, Consumer<Corrected> result) {
        List<Reconciliation> ban = List.of(one);
        return call(
                List.of(one.claim()),
                deadline -> primary.correct(ban).flatMap(results -> {
                    Corrected made = results.get(0);
                    result.accept(made);
                    grants.settled(made);
                    return made.outcome() == CorrectionOutcome.NOT_POSSIBLE ? banHere(ban, fallback) : Mono.empty();
                }),
                store -> banHere(ban, store));
    }

    private static Mono<Void> banHere(List<Reconciliation> ban, LimitStore store) {
        return store.correct(ban)
                .filter(results -> results.get(0).outcome() == CorrectionOutcome.UNSUPPORTED)
                .flatMap(refused -> Mono.error(new LimitStoreException(
                        Kind.UNAVAILABLE, "the store cannot ban the key now, and " + store + " does not count")));
    }

    // Refunds of the oldest permits.

    /**
     * Refunds the oldest permits. The primary store knows which these are only when local grants are reconciled, so
     * this waits for that, up to the deadline.
     */
    private Mono<Void> refundOldest(List<Claim> claims) {
        LocalFallback ledgers = local;
        return denials.freeing(
                claims,
                Mono.defer(() -> ledgers == null || grants.isReconciled(claims)
                        ? refundOldestInStore(claims)
                        : refundAfterReconciliation(claims, ledgers)));
    }

    private Mono<Void> refundAfterReconciliation(List<Claim> claims, LocalFallback ledgers) {
        long since = Time.nanos();
        return Mono.deferContextual(context -> untilReconciled(claims, context))
                .then(Mono.defer(() -> refundNow(claims, ledgers)))
                .contextWrite(context -> context.hasKey(LimitStore.WAITING_SINCE)
                        ? context
                        : context.put(LimitStore.WAITING_SINCE, since));
    }

    /** Completes when local grants are reconciled, at the deadline, or at once during an outage. */
    private Mono<Void> untilReconciled(List<Claim> claims, ContextView context) {
        return Flux.interval(Duration.ZERO, checkAgain, Schedulers.parallel())
                .takeUntil(check -> grants.isReconciled(claims)
                        || failover.gates().toOrWhole(claims).isOpen()
                        || failover.timeLeft(context) <= 0)
                .then();
    }

    private Mono<Void> refundNow(List<Claim> claims, LocalFallback ledgers) {
        if (grants.isReconciled(claims)) {
            return refundOldestInStore(claims);
        }
        if (failover.gates().toOrWhole(claims).isOpen()) {
            claims.forEach(ledgers::refundOldest);
            return Mono.empty();
        }
        List<Claim> rest = ledgers.refundOldestGrants(claims);
        if (!rest.isEmpty()) {
            // Do not wait: the deadline has passed.
            denials.freeing(rest, Mono.defer(() -> refundOldestInStore(rest))).subscribe(null, error -> {});
        }
        return Mono.empty();
    }

    private Mono<Void> refundOldestInStore(List<Claim> claims) {
        List<RefundOldest> refunds = RefundOldest.of(claims);
        return refundOnce(
                claims,
                () -> primary.correct(refunds).then(),
                store -> store.correct(refunds).then());
    }

    /**
     * Refunds the oldest permits in the primary store or in the fallback. If the result in the primary store is
     * unknown, the fallback does not refund too: later replies may already be without these permits.
     */
    private Mono<Void> refundOnce(
            List<Claim> claims, Supplier<Mono<Void>> onPrimary, Function<LimitStore, Mono<Void>> onFallback) {
        return Mono.defer(() -> {
            AtomicBoolean isUnknown = new AtomicBoolean();
            return call(
                    claims,
                    deadline -> {
                        isUnknown.set(true);
                        grants.noteRefundOfOldest(claims);
                        return Mono.defer(onPrimary).doOnError(error -> isUnknown.set(Kind.UNANSWERED.isOf(error)));
                    },
                    store -> isUnknown.get() ? Mono.empty() : onFallback.apply(store));
        });
    }

    // Resets.

    /**
     * Resets counts. If the primary store's reply is lost, a local fallback is not reset again, because decisions may
     * have been made since. If the primary store refuses, nothing is reset.
     */
    Mono<Void> reset(List<Claim> claims) {
        LocalFallback ledgers = local;
        Mono<Void> onPrimary = call(
                claims,
                deadline -> resetPrimary(claims, deadline),
                store -> ledgers == null ? store.reset(claims, LimitStore.NO_DEADLINE) : Mono.empty());
        return denials.freeing(claims, Mono.defer(() -> {
            failover.leases().reset(claims);
            Consumer<Boolean> end = ledgers == null ? isReset -> {} : ledgers.beginReset(claims);
            return onPrimary
                    .doOnSuccess(done -> end.accept(true))
                    .doOnError(error -> end.accept(false))
                    // The primary store may still execute it, until its deadline.
                    .doOnCancel(() -> Background.scheduler()
                            .schedule(() -> end.accept(true), failover.deadlineNanos(), TimeUnit.NANOSECONDS));
        }));
    }

    /** If the connection is lost, the primary store may still execute the reset, until its deadline. */
    private Mono<Void> resetPrimary(List<Claim> claims, long deadline) {
        return primary.reset(claims, deadline)
                .onErrorResume(
                        Kind.UNANSWERED::isOf,
                        lost -> Mono.<Void>error(lost)
                                .delaySubscription(Duration.ofNanos(Math.max(0, deadline - Time.nanos()))))
                // The caller may have cancelled long before.
                .doOnTerminate(() -> failover.leases().reset(claims));
    }

    // Holds.

    /**
     * Releases holds. If the primary store does not release them now, it does so later, with the same result: a hold
     * has an id.
     */
    Mono<Void> release(List<Claim> holds) {
        Mono<Void> onPrimary = StoreCall.of(
                        failover,
                        holds,
                        StoreOperation.change(
                                deadline ->
                                        primary.hold(holds, HoldAction.RELEASE).then(),
                                store -> Mono.defer(() -> releaseLater(holds))))
                .onErrorResume(LimitStoreException.class, error -> releaseLater(holds));
        return Mono.defer(() -> {
            if (local != null) {
                local.releaseHolds(holds);
            }
            return onPrimary;
        });
    }

    private Mono<Void> releaseLater(List<Claim> holds) {
        grants.releases().add(holds);
        // A fallback of the user's own may hold them.
        return local != null
                ? Mono.empty()
                : Mono.defer(() -> fallback.hold(holds, HoldAction.RELEASE))
                        .onErrorComplete()
                        .then();
    }

    /**
     * Renews holds. During an outage a local fallback renews them: they are in use and count there, and are reconciled
     * later.
     */
    Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return StoreCall.of(
                        failover,
                        holds,
                        StoreOperation.change(
                                deadline -> primary.hold(holds, HoldAction.RENEW)
                                        .doOnNext(renewals -> renewed(renewals, deadline)),
                                store -> store.hold(holds, HoldAction.RENEW)))
                .onErrorResume(Kind.REFUSED::isOf, refused -> fallback.hold(holds, HoldAction.RENEW));
    }

    /** Notes renewals. If they are late, the fallback has renewed the holds, and they may have been released since. */
    private void renewed(List<HoldRenewal> renewals, long deadline) {
        if (local != null && Time.nanos() - deadline < 0) {
            local.renewedInPrimary(renewals);
        }
    }

    /** Calls the primary store. Its result may be late, and frees permits then. */
    private Mono<Void> call(
            List<Claim> claims, LongFunction<Mono<Void>> onPrimary, Function<LimitStore, Mono<Void>> onFallback) {
        return StoreCall.of(
                failover,
                claims,
                StoreOperation.change(
                        deadline -> denials.freeing(claims, Mono.defer(() -> onPrimary.apply(deadline))), onFallback));
    }
}
