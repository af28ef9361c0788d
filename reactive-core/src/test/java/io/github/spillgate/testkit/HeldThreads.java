package io.github.spillgate.testkit;

import java.util.concurrent.CountDownLatch;
import reactor.core.scheduler.Schedulers;

/** Callers that block all threads of {@code Schedulers.parallel()} until this is closed. */
public final class HeldThreads implements AutoCloseable {

    private final CountDownLatch released = new CountDownLatch(1);

    public HeldThreads() throws InterruptedException {
        int threads = Schedulers.DEFAULT_POOL_SIZE;
        CountDownLatch holding = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Schedulers.parallel().schedule(() -> hold(holding));
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
