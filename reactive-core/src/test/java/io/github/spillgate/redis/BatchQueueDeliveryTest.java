package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

class BatchQueueDeliveryTest {

    @Test
    void answersRunOnTheScheduler() {
        Scheduler scheduler = Schedulers.newSingle("delivery-test");
        AtomicReference<String> thread = new AtomicReference<>("");
        BatchQueue.deliver(scheduler, () -> thread.set(Thread.currentThread().getName()));
        await().until(() -> thread.get().startsWith("delivery-test"));
        scheduler.dispose();
    }

    @Test
    void answersRunAfterTheSchedulerHasBeenShutDown() {
        Scheduler gone = Schedulers.newSingle("delivery-test");
        gone.dispose();
        AtomicInteger answered = new AtomicInteger();
        BatchQueue.deliver(gone, answered::incrementAndGet);
        assertThat(answered).hasValue(1);
    }
}
