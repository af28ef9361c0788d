package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.internal.Time;
import io.github.spillgate.testkit.InterceptedScheduler;
import io.github.spillgate.testkit.VirtualTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Hooks;
import reactor.core.scheduler.Schedulers;

class DeadlinesTest {

    private static final long NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final List<String> told = new ArrayList<>();

    @Nested
    class InVirtualTime {

        @AutoClose
        private final VirtualTime time = new VirtualTime();

        private final Deadlines deadlines = new Deadlines(NANOS);

        @Test
        void eachWaiterIsNotifiedAtItsDeadline() {
            deadlines.add(waiter("first"));
            time.passMillis(30);
            deadlines.add(waiter("second"));
            time.passMillis(69);
            assertThat(told).isEmpty();
            time.passMillis(1);
            assertThat(told).containsExactly("first");
            time.passMillis(29);
            assertThat(told).hasSize(1);
            time.passMillis(1);
            assertThat(told).containsExactly("first", "second");
            assertThat(deadlines.size()).isZero();
        }

        @Test
        void anAnsweredWaiterIsRemovedWithoutNotification() {
            for (int i = 0; i < 1_000; i++) {
                Waiter one = waiter("answered");
                deadlines.add(one);
                one.answered = true;
                time.passMillis(1);
                assertThat(deadlines.size()).isLessThanOrEqualTo(1);
            }
            time.passMillis(200);
            assertThat(told).isEmpty();
            assertThat(deadlines.size()).isZero();
        }

        @Test
        void anUnansweredWaiterDoesNotRetainAnsweredOnes() {
            deadlines.add(waiter("waits"));
            for (int i = 0; i < 100_000; i++) {
                Waiter one = waiter("answered");
                deadlines.add(one);
                one.answered = true;
                assertThat(deadlines.size()).isLessThan(5_000);
            }
            time.passMillis(100);
            assertThat(told).containsExactly("waits");
        }

        @Test
        void otherWaitersAreNotifiedIfOneThrows() {
            Hooks.onErrorDropped(error -> told.add(error.getMessage()));
            deadlines.add(new Waiter(() -> {
                throw new IllegalStateException("thrown");
            }));
            deadlines.add(waiter("second"));
            time.passMillis(100);
            Hooks.resetOnErrorDropped();
            assertThat(told).containsExactly("thrown", "second");
        }

        @Test
        void eachWaiterIsNotifiedOnceIfManyAreDueTogether() {
            List<String> all = new ArrayList<>();
            for (int i = 0; i < 3 * Deadlines.ANSWERED_TOGETHER + 1; i++) {
                all.add("number " + i);
                deadlines.add(waiter("number " + i));
            }
            time.passMillis(100);
            assertThat(told).containsExactlyInAnyOrderElementsOf(all);
        }

        @Test
        void aWaiterLearnsThatTheProcessWasSuspended() {
            Waiter before = waiter("before");
            deadlines.add(before);
            suspend(time, 60);
            Waiter after = waiter("after");
            deadlines.add(after);
            // Some timers fire on time before the deadlines.
            time.passMillis(100);
            assertThat(told).containsExactly("before", "after");
            assertThat(before.stalled).isTrue();
            assertThat(after.stalled).isFalse();
        }

        @ParameterizedTest
        @CsvSource({"24, false", "25, true"})
        void timersLateByAQuarterOfTheDeadlineAreASuspension(long late, boolean stalled) {
            Waiter one = waiter("one");
            deadlines.add(one);
            suspend(time, late);
            time.passMillis(100);
            assertThat(told).containsExactly("one");
            assertThat(one.stalled).isEqualTo(stalled);
        }

        @Test
        void newWaitersDoNotDelayTheFirst() {
            time.passMillis(10_000);
            Waiter first = waiter("first");
            assertThat(deadlines.add(first)).isEqualTo(Time.nanos());
            for (int i = 0; i < 10; i++) {
                time.passMillis(10);
                deadlines.add(waiter("later"));
            }
            assertThat(told).containsExactly("first");
            assertThat(first.stalled).isFalse();
        }

        /** Delays the timers of the next 30 ms by this much. */
        private static void suspend(VirtualTime time, long millis) {
            Schedulers.parallel().schedule(() -> time.passMillis(millis), 10, TimeUnit.MILLISECONDS);
            time.passMillis(30);
        }
    }

    @Test
    void aTimerLostWithItsSchedulerIsSetAgain() {
        Deadlines deadlines;
        Waiter before = waiter("before");
        try (VirtualTime time = new VirtualTime()) {
            deadlines = new Deadlines(NANOS);
            deadlines.add(before);
            time.passMillis(10);
        }
        try (VirtualTime time = new VirtualTime()) {
            time.passMillis(6_000);
            Waiter after = waiter("after");
            deadlines.add(after);
            time.passMillis(100);
            assertThat(told).containsExactly("before", "after");
            assertThat(before.stalled).isTrue();
            assertThat(after.stalled).isFalse();
        }
    }

    @Test
    void aWaiterAddedAfterARejectedTimerIsNotifiedOnTime() {
        try (InterceptedScheduler scheduler = new InterceptedScheduler()) {
            Deadlines deadlines = new Deadlines(NANOS);
            rejectTheNextTimer(scheduler);
            assertThatExceptionOfType(RejectedExecutionException.class)
                    .isThrownBy(() -> deadlines.add(waiter("first")));
            deadlines.add(waiter("second"));
            scheduler.passMillis(100);
            assertThat(told).containsExactly("first", "second");
        }
    }

    @Test
    void aDueWaiterIsNotifiedIfTheNextTimerIsRejected() {
        try (InterceptedScheduler scheduler = new InterceptedScheduler()) {
            Deadlines deadlines = new Deadlines(NANOS);
            deadlines.add(() -> !told.isEmpty(), () -> told.add("first"));
            scheduler.passMillis(50);
            deadlines.add(waiter("second"));
            scheduler.passMillis(49);
            rejectTheNextTimer(scheduler);
            assertThatExceptionOfType(RejectedExecutionException.class).isThrownBy(() -> scheduler.passMillis(1));
            assertThat(told).containsExactly("first");
        }
    }

    private static void rejectTheNextTimer(InterceptedScheduler scheduler) {
        scheduler.beforeNextTimer(() -> {
            throw new RejectedExecutionException("shut down");
        });
    }

    private Waiter waiter(String name) {
        return new Waiter(() -> told.add(name));
    }

    @Test
    void otherWaitersAreNotifiedIfOneThrowsAnError() {
        Deadlines deadlines = new Deadlines(NANOS);
        AtomicInteger told = new AtomicInteger();
        List<Throwable> seen = Collections.synchronizedList(new ArrayList<>());
        Schedulers.onHandleError((thread, error) -> seen.add(error));
        try {
            deadlines.add(new Waiter(() -> {
                throw new NoClassDefFoundError("gone");
            }));
            deadlines.add(new Waiter(told::incrementAndGet));
            await().until(() -> told.get() == 1);
            await().untilAsserted(() -> assertThat(seen).hasAtLeastOneElementOfType(NoClassDefFoundError.class));
        } finally {
            Schedulers.resetOnHandleError();
        }
    }

    @Test
    void eachWaiterIsNotifiedOnceAndNotEarlyWithManyThreads() throws InterruptedException {
        Deadlines deadlines = new Deadlines(NANOS);
        int threads = 4;
        int each = 20_000;
        AtomicInteger told = new AtomicInteger();
        List<Long> early = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch done = new CountDownLatch(threads);
        for (int t = 0; t < threads; t++) {
            new Thread(() -> {
                        for (int i = 0; i < each; i++) {
                            boolean answered = i % 10 != 0;
                            long start = Time.nanos();
                            Waiter one = new Waiter(() -> {
                                told.incrementAndGet();
                                if (Time.nanos() - start < NANOS) {
                                    early.add(Time.nanos() - start);
                                }
                            });
                            one.answered = answered;
                            deadlines.add(one);
                        }
                        done.countDown();
                    })
                    .start();
        }
        done.await();
        await().until(() -> deadlines.size() == 0);
        await().until(() -> told.get() >= threads * each / 10);
        assertThat(told).hasValue(threads * each / 10);
        assertThat(early).isEmpty();
    }

    private static final class Waiter extends Deadlines.TimedCall {

        private final Runnable onDeadline;
        private volatile boolean answered;
        private volatile boolean stalled;

        Waiter(Runnable onDeadline) {
            this.onDeadline = onDeadline;
        }

        @Override
        boolean isDone() {
            return answered;
        }

        @Override
        boolean onDeadline(boolean stalled) {
            answered = true;
            this.stalled = stalled;
            return true;
        }

        @Override
        void answer(boolean stalled) {
            onDeadline.run();
        }
    }
}
