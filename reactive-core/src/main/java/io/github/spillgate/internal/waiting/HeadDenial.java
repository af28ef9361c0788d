package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A denial of the head of a {@link WaitQueue}, and the time of the next attempt for it. Times are in nanoseconds of the
 * queue's clock.
 */
final class HeadDenial {

    /** The jitter of the time between two attempts for permits of a concurrency limit, as a part of that time. */
    private static final double JITTER = 0.25;

    /** The number of lease times after which all permits that are leased now are spent or refunded. */
    private static final int LEASE_TIMES = 2;

    /** The longest time between two attempts for permits of a concurrency limit, before jitter: with it, a second. */
    private static final long LONGEST_POLL = (long) (TimeUnit.SECONDS.toNanos(1) / (1 + JITTER));

    final Decision decision;
    final List<Claim> claims;
    final long receivedAt;

    /** The time of the next attempt. */
    final long retryAt;

    /** The time before which the claims do not fit. */
    final long fitsAt;

    /** The time until which the decision says to wait: not before {@link #fitsAt}. */
    final long deniedUntil;

    /**
     * Creates a denial.
     *
     * @param claims the claims that were denied
     * @param sentAt the time at which they were sent
     * @param wait the retry time of the decision
     * @param now the time at which the reply arrived
     */
    HeadDenial(List<Claim> claims, long sentAt, StoreDecision decision, Duration wait, long now) {
        this.decision = decision;
        this.claims = claims;
        this.receivedAt = now;
        long untilFits;
        long untilRetry;
        if (decision.violated().stream().anyMatch(Limit::holdsPermits)) {
            // A holder may release its permits at any time, so only the windows of other limits bound the wait.
            untilFits = TimeUnit.MILLISECONDS.toNanos(waitForWindows(decision));
            untilRetry = Math.max(untilFits, withJitter(Math.min(atLeastAMillisecond(wait.toMillis()), LONGEST_POLL)));
        } else {
            boolean isLeased =
                    decision.usages().stream().anyMatch(usage -> usage.isViolated() && mayRefundLeases(usage));
            untilFits = atLeastAMillisecond(isLeased ? waitForWindows(decision) : wait.toMillis());
            untilRetry = untilFits;
        }
        if (decision.violated().stream().anyMatch(limit -> !limit.takesPermits())) {
            // A ban or pause may be ended by a call of any instance.
            untilRetry = Math.min(untilRetry, withJitter(LONGEST_POLL));
        }
        // Measured from the time of sending, so that the next attempt reaches the store when the permit is free. If it
        // were measured from the reply, an instance with a slow network would always be later than the others.
        this.retryAt = WaitQueue.saturatedSum(sentAt, untilRetry);
        this.fitsAt = WaitQueue.saturatedSum(sentAt, untilFits);
        this.deniedUntil = WaitQueue.saturatedSum(sentAt, Math.max(untilFits, atLeastAMillisecond(wait.toMillis())));
    }

    /** Returns whether the claims may fit before the next attempt, so that a shorter wait may be enough. */
    boolean isPoll() {
        return fitsAt < retryAt;
    }

    private static long atLeastAMillisecond(long millis) {
        return TimeUnit.MILLISECONDS.toNanos(Math.max(1, millis));
    }

    /** Returns the milliseconds until the claims fit all limits that have a window. */
    private static long waitForWindows(StoreDecision decision) {
        return decision.usages().stream()
                .filter(usage -> !usage.limit().holdsPermits())
                .mapToLong(usage -> waitFor(usage, decision))
                .max()
                .orElse(0);
    }

    /** Returns the milliseconds until a claim fits; fewer than the store replied if leased permits may be refunded. */
    private static long waitFor(StoreUsage usage, StoreDecision decision) {
        long wait = Duration.between(decision.at(), usage.fitsAt()).toMillis();
        return mayRefundLeases(usage)
                ? Math.min(wait, LEASE_TIMES * usage.limit().leaseTime().toMillis())
                : wait;
    }

    /**
     * Returns whether leased permits may be refunded soon: permits are leased, by any instance, or a lease of a log has
     * just ended, and the refund is not executed yet. A slot does not show when permits were charged in it, so this may
     * be true without leases. The level of a bucket does not show leases.
     */
    private static boolean mayRefundLeases(StoreUsage usage) {
        StoreUsage inStore = usage.inStore();
        long at = inStore.reply().at();
        if (!(usage.limit() instanceof Limit.Log log && log.isLeased())) {
            return inStore.chargedAt() > at;
        }
        // The newest slot had not ended one lease time ago.
        return inStore.wholeAtMillis()
                        - log.window().toMillis()
                        + log.leaseTime().toMillis()
                > at;
    }

    /** Returns a duration with jitter, so that several instances do not ask at the same time. */
    private static long withJitter(long nanos) {
        return (long) (nanos * (1 + JITTER * (2 * ThreadLocalRandom.current().nextDouble() - 1)));
    }
}
