package io.github.spillgate;

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

    /** By which part of the time an attempt for permits of a concurrency limit is earlier or later. */
    private static final double SPREAD = 0.25;

    /** After so many lease times, all permits that are leased now are spent or refunded. */
    private static final int LEASE_TIMES = 2;

    /** The longest time between two attempts for permits of a concurrency limit. */
    private static final long LONGEST_POLL = TimeUnit.SECONDS.toNanos(1);

    final Decision decision;
    final List<Claim> claims;
    final long receivedAt;

    /** The time of the next attempt. */
    final long retryAt;

    /** The time before which the claims do not fit. */
    final long fitsAt;

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
        long unfit;
        long pause;
        if (decision.violated().stream().anyMatch(limit -> limit.algorithm() == Algorithm.CONCURRENT)) {
            // A holder may release its permits at any time, so only the windows of other limits bound the wait.
            unfit = TimeUnit.MILLISECONDS.toNanos(waitForWindows(decision));
            pause = Math.max(unfit, spread(Math.min(atLeastAMillisecond(wait.toMillis()), LONGEST_POLL)));
        } else {
            boolean isLeased =
                    decision.usages().stream().anyMatch(usage -> usage.isViolated() && decision.mayRefundLeases(usage));
            unfit = atLeastAMillisecond(isLeased ? waitForWindows(decision) : wait.toMillis());
            pause = unfit;
        }
        // Measured from the time of sending, so that the next attempt reaches the store when the permit is free. An
        // instance with a slow network would otherwise always come second.
        this.retryAt = WaitQueue.sum(sentAt, pause);
        this.fitsAt = WaitQueue.sum(sentAt, unfit);
    }

    /** Returns whether the claims may fit before the next attempt, so that a waiter may wait for less than that. */
    boolean isPoll() {
        return fitsAt < retryAt;
    }

    private static long atLeastAMillisecond(long millis) {
        return TimeUnit.MILLISECONDS.toNanos(Math.max(1, millis));
    }

    /** Returns the milliseconds until the claims fit all limits that have a window. */
    private static long waitForWindows(StoreDecision decision) {
        return decision.usages().stream()
                .filter(usage -> usage.limit().algorithm() != Algorithm.CONCURRENT)
                .mapToLong(usage -> waitFor(usage, decision))
                .max()
                .orElse(0);
    }

    /** A denial does not know that leased permits may be refunded. */
    private static long waitFor(StoreUsage usage, StoreDecision decision) {
        long wait = Duration.between(decision.at(), usage.fitsAt()).toMillis();
        return decision.mayRefundLeases(usage)
                ? Math.min(wait, LEASE_TIMES * usage.limit().leaseTime().toMillis())
                : wait;
    }

    /** Several instances must not ask at the same time. */
    private static long spread(long nanos) {
        return (long) (nanos * (1 + SPREAD * (2 * ThreadLocalRandom.current().nextDouble() - 1)));
    }
}
