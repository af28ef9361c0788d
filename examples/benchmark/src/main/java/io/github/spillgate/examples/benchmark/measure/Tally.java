package io.github.spillgate.examples.benchmark.measure;

import org.jspecify.annotations.Nullable;

/** What has come of decisions; counted in each slot, and then added up. Not for several threads at a time. */
final class Tally {

    final Histogram times = new Histogram();
    long allowed;
    long denied;
    long fellBack;
    long failed;
    long inTime;

    @Nullable
    Throwable error;

    /** Only these have a time, and count for the rate: a quick failure is not a quick decision. */
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

    void add(Tally other) {
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

    /** What falls to one decision of what all of them have cost. Where none was made, none has cost anything. */
    double each() {
        long decided = allowed + denied;
        return decided == 0 ? 0 : 1.0 / decided;
    }
}
