package io.github.spillgate.examples.benchmark.measure;

import org.jspecify.annotations.Nullable;

/** The counts of decisions in one slot, or their sum. Not thread-safe. */
final class DecisionCounts {

    final Histogram times = new Histogram();
    long allowed;
    long denied;
    long fellBack;
    long failed;
    long inTime;

    @Nullable
    Throwable error;

    /**
     * Counts a decision. Only decisions have a latency and count for the rate: a fast failure is not a fast decision.
     */
    void decided(boolean allows, long askedAt, long until) {
        long now = System.nanoTime();
        times.record(now - askedAt);
        if (now - until <= 0) {
            inTime++;
        }
        if (allows) {
            allowed++;
        } else {
            denied++;
        }
    }

    void failed(Throwable with) {
        failed++;
        if (error == null) {
            error = with;
        }
    }

    void add(DecisionCounts other) {
        times.add(other.times);
        allowed += other.allowed;
        denied += other.denied;
        fellBack += other.fellBack;
        failed += other.failed;
        inTime += other.inTime;
        if (error == null) {
            error = other.error;
        }
    }

    /** Returns the share of one decision in the cost of all, or 0 without decisions. */
    double each() {
        long decided = allowed + denied;
        return decided == 0 ? 0 : 1.0 / decided;
    }
}
