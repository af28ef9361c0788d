package io.github.spillgate.testkit;

import java.util.concurrent.CountDownLatch;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** Callers that block all threads of a scheduler until this is closed. */
public final class HeldThreads implements AutoCloseable {

    private final CountDownLatch released = new CountDownLatch(1);

    /** Blocks the threads of {@code Schedulers.parallel()}. */
    public HeldThreads() throws InterruptedException {
        this(Schedulers.parallel(), Schedulers.DEFAULT_POOL_SIZE);
    }

    /**
     * Blocks the threads of a scheduler.
     *
     * @param threads their number
     */
    public HeldThreads(Scheduler scheduler, int threads) throws InterruptedException {
        CountDownLatch holding = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            scheduler.schedule(() -> hold(holding));
        }
        holding.await();
    }

    /** BlockHound {@linkplain AllowedToBlock allows} it to block. */
    private void hold(CountDownLatch holding) {
        holding.countDown();
        try {
            released.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        released.countDown();
    }
}
