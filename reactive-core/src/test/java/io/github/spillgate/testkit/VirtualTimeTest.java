package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.internal.Background;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

class VirtualTimeTest {

    private static final int TIMES = 2_000;

    /** Threads that an earlier test has left behind may ask for a scheduler at any time. */
    @Test
    void timeIsVirtualWhileOtherThreadsUseTheSchedulers() throws InterruptedException {
        AtomicBoolean stopped = new AtomicBoolean();
        Thread[] others = Stream.generate(() -> new Thread(() -> {
                    while (!stopped.get()) {
                        useSchedulers();
                    }
                }))
                .limit(3)
                .toArray(Thread[]::new);
        for (Thread other : others) {
            other.start();
        }
        try {
            assertThat(IntStream.range(0, TIMES).filter(i -> !delayEndsVirtually()))
                    .isEmpty();
        } finally {
            stopped.set(true);
            for (Thread other : others) {
                other.join();
            }
        }
    }

    private static void useSchedulers() {
        try {
            Mono.delay(Duration.ofHours(1)).subscribe().dispose();
        } catch (RejectedExecutionException replaced) {
            // Another scheduler is the shared one by now.
        }
    }

    private static boolean delayEndsVirtually() {
        try (VirtualTime time = new VirtualTime()) {
            AtomicBoolean ended = new AtomicBoolean();
            Mono.delay(Duration.ofMinutes(1)).subscribe(nothing -> ended.set(true));
            time.pass(Duration.ofMinutes(1));
            return ended.get();
        }
    }

    /** What is scheduled in it may be whole stores, and all of the tests of a module run in one process. */
    @Test
    void aClosedTimeIsNotKept() {
        WeakReference<VirtualTime> closed = scheduleAndClose();
        Background.scheduler();
        await().atMost(Duration.ofSeconds(30)).until(() -> {
            System.gc();
            return closed.refersTo(null);
        });
    }

    private static WeakReference<VirtualTime> scheduleAndClose() {
        try (VirtualTime time = new VirtualTime()) {
            Background.scheduler().schedule(() -> {}, 1, TimeUnit.HOURS);
            return new WeakReference<>(time);
        }
    }
}
