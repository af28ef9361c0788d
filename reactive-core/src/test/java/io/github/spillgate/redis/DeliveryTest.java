package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

class DeliveryTest {

    private final List<Scheduler> schedulers = new ArrayList<>();

    @AfterEach
    void end() {
        schedulers.forEach(Scheduler::dispose);
    }

    @Test
    void everyTaskRunsWithManyThreads() {
        Delivery delivery = new Delivery(several());
        Set<Integer> told = ConcurrentHashMap.newKeySet();
        AtomicInteger number = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            threads.add(new Thread(() -> {
                for (int n = 0; n < 20_000; n++) {
                    int mine = number.getAndIncrement();
                    delivery.deliverWithOthers(() -> told.add(mine));
                }
            }));
        }
        threads.forEach(Thread::start);
        await().until(() -> told.size() == 80_000);
    }

    @Test
    void simultaneousTasksShareASchedulerHop() {
        Queue<Runnable> hops = new ConcurrentLinkedQueue<>();
        Delivery delivery = new Delivery(Schedulers.fromExecutor(hops::add), () -> 0);
        Scheduler threads = several();
        firstAnswer(delivery, () -> threads.schedule(Objects.requireNonNull(hops.poll())));
        List<Integer> told = Collections.synchronizedList(new ArrayList<>());
        for (int i = 0; i < 100; i++) {
            int mine = i;
            delivery.deliverWithOthers(() -> told.add(mine));
        }
        assertThat(hops).hasSize(1);
        int taken = 0;
        for (Runnable hop = hops.poll(); hop != null; hop = hops.poll()) {
            int before = told.size();
            Mono.fromRunnable(hop).subscribeOn(threads).block();
            taken = Math.max(taken, told.size() - before);
        }
        assertThat(told).hasSize(100).isSorted();
        assertThat(taken).as("told by one thread, while others may be idle").isLessThan(100);
    }

    @Test
    void aTaskThatThrowsDoesNotAffectOthers() {
        Delivery delivery = new Delivery(several());
        AtomicInteger told = new AtomicInteger();
        for (int i = 0; i < 5; i++) {
            delivery.deliverWithOthers(() -> {
                throw new IllegalStateException("thrown on purpose, and shown by the scheduler");
            });
            delivery.deliverWithOthers(told::incrementAndGet);
        }
        await().untilAtomic(told, n -> assertThat(n).isEqualTo(5));
    }

    @Test
    void tasksRunAfterTheSchedulerHasBeenShutDown() {
        Scheduler gone = several();
        gone.dispose();
        Delivery delivery = new Delivery(gone);
        AtomicInteger told = new AtomicInteger();
        delivery.deliverWithOthers(told::incrementAndGet);
        delivery.deliver(told::incrementAndGet);
        assertThat(told).hasValue(2);
    }

    @Test
    void aTaskThatBlocksDoesNotAffectOthers() {
        // One thread may still be leaving the first answer; with two in all, the next two would share the other one.
        Scheduler elastic = Schedulers.newBoundedElastic(3, 10, "delivery-test");
        schedulers.add(elastic);
        Queue<Runnable> hops = new ConcurrentLinkedQueue<>();
        Delivery delivery = new Delivery(Schedulers.fromExecutor(hops::add));
        firstAnswer(delivery, () -> elastic.schedule(Objects.requireNonNull(hops.poll())));
        CountDownLatch second = new CountDownLatch(1);
        AtomicInteger told = new AtomicInteger();
        // Both are queued before a thread runs them.
        Runnable firstOfTwo = () -> {
            awaited(second);
            told.incrementAndGet();
        };
        delivery.deliverWithOthers(firstOfTwo);
        delivery.deliverWithOthers(second::countDown);
        hops.forEach(elastic::schedule);
        await().untilAtomic(told, n -> assertThat(n).isEqualTo(1));
    }

    @Test
    void queuedTasksRunIfTheSchedulerIsShutDown() {
        Scheduler busy = Schedulers.newSingle("delivery-test");
        AtomicLong nanos = new AtomicLong();
        Delivery delivery = new Delivery(busy, nanos::get);
        firstAnswer(delivery, () -> {});
        occupied(busy);
        AtomicInteger told = new AtomicInteger();
        delivery.deliverWithOthers(told::incrementAndGet);
        busy.dispose();
        nanos.addAndGet(Delivery.LONGEST_WAY + 2);
        delivery.deliverWithOthers(told::incrementAndGet);
        assertThat(told).hasValue(2);
    }

    /** From which is learned what threads these are. */
    private static void firstAnswer(Delivery delivery, Runnable hop) {
        CountDownLatch told = new CountDownLatch(1);
        delivery.deliverWithOthers(told::countDown);
        hop.run();
        await().until(() -> told.getCount() == 0);
    }

    /** Its only thread does nothing else until it is shut down. */
    private static void occupied(Scheduler single) {
        CountDownLatch begun = new CountDownLatch(1);
        single.schedule(() -> {
            begun.countDown();
            while (!Thread.currentThread().isInterrupted()) {
                Thread.onSpinWait();
            }
        });
        await().until(() -> begun.getCount() == 0);
    }

    private static void awaited(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Scheduler several() {
        Scheduler scheduler = Schedulers.newParallel("delivery-test", 3);
        schedulers.add(scheduler);
        return scheduler;
    }
}
