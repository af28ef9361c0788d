package io.github.spillgate.examples.benchmark.measure;

import java.time.Duration;

/**
 * A fixed amount of work for a processor, calibrated once to a duration. Waiting for a point in time would also count
 * time in which another thread has the processor.
 */
public final class Cpu implements Runnable {

    private static final int TRIES = 50;
    private static final int ROUNDS_OF_A_TRY = 200_000;

    private final long rounds;
    private volatile long sink;

    private Cpu(long rounds) {
        this.rounds = rounds;
    }

    public static Cpu busyFor(Duration time) {
        Cpu work = new Cpu(ROUNDS_OF_A_TRY);
        long quickest = Long.MAX_VALUE;
        for (int i = 0; i < TRIES; i++) {
            long start = System.nanoTime();
            work.run();
            quickest = Math.min(quickest, System.nanoTime() - start);
        }
        return new Cpu(Math.max(1, ROUNDS_OF_A_TRY * time.toNanos() / Math.max(1, quickest)));
    }

    @Override
    public void run() {
        long state = System.identityHashCode(Thread.currentThread()) | 1;
        for (long i = 0; i < rounds; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        // The result might be read, so the compiler cannot skip the computation.
        if (state == 0) {
            sink = state;
        }
    }

    @Override
    public String toString() {
        return "Cpu[rounds=" + rounds + ", sink=" + sink + "]";
    }
}
