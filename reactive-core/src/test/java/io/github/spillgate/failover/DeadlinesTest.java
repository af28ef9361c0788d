package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.MeddledScheduler;
import io.github.spillgate.testkit.VirtualTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Hooks;
import reactor.core.scheduler.Schedulers;

class DeadlinesTest {

    private static final long NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    @Nested
    class InATimeThatIsSet {

        private final List<String> told = new ArrayList<>();

        @Test
        void everybodyIsToldWhenHisTimeIsUp() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                deadlines.add(somebody("first"));
                time.passMillis(30);
                deadlines.add(somebody("second"));
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
        }

        @Test
        void whoHasBeenAnsweredIsNotToldAndNotKept() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                for (int i = 0; i < 1_000; i++) {
                    Somebody one = somebody("answered");
                    deadlines.add(one);
                    one.answered = true;
                    time.passMillis(1);
                    assertThat(deadlines.size()).isLessThanOrEqualTo(1);
                }
                time.passMillis(200);
                assertThat(told).isEmpty();
                assertThat(deadlines.size()).isZero();
            }
        }

        @Test
        void oneWhoIsNotAnsweredDoesNotKeepAllTheOthers() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                deadlines.add(somebody("waits"));
                for (int i = 0; i < 100_000; i++) {
                    Somebody one = somebody("answered");
                    deadlines.add(one);
                    one.answered = true;
                    assertThat(deadlines.size()).isLessThan(5_000);
                }
                time.passMillis(100);
                assertThat(told).containsExactly("waits");
            }
        }

        @Test
        void oneWhoThrowsDoesNotKeepTheOthersFromBeingTold() {
            Hooks.onErrorDropped(error -> told.add(error.getMessage()));
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                deadlines.add(new Somebody(() -> {
                    throw new IllegalStateException("thrown");
                }));
                deadlines.add(somebody("second"));
                time.passMillis(100);
                assertThat(told).containsExactly("thrown", "second");
            } finally {
                Hooks.resetOnErrorDropped();
            }
        }

        @Test
        void everybodyIsToldOnceHoweverManyAreDueAtOnce() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                List<String> all = new ArrayList<>();
                for (int i = 0; i < 3 * Deadlines.REPORTED_TOGETHER + 1; i++) {
                    all.add("number " + i);
                    deadlines.add(somebody("number " + i));
                }
                time.passMillis(100);
                assertThat(told).containsExactlyInAnyOrderElementsOf(all);
            }
        }

        @Test
        void whoHasWaitedWhileNothingHappenedForAWhileHearsThatTheProcessHasStoodStill() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                Somebody before = somebody("before");
                deadlines.add(before);
                standStill(time, 60);
                Somebody after = somebody("after");
                deadlines.add(after);
                // Some alarms ring in time again before anybody is told.
                time.passMillis(100);
                assertThat(told).containsExactly("before", "after");
                assertThat(before.stoodStill).isTrue();
                assertThat(after.stoodStill).isFalse();
            }
        }

        @ParameterizedTest
        @CsvSource({"24, false", "25, true"})
        void alarmsThatComeLateByAQuarterAreAStandstillAndEarlierOnesAreNone(long late, boolean stoodStill) {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                Somebody one = somebody("one");
                deadlines.add(one);
                standStill(time, late);
                time.passMillis(100);
                assertThat(told).containsExactly("one");
                assertThat(one.stoodStill).isEqualTo(stoodStill);
            }
        }

        @Test
        void thoseWhoGoOnComingDoNotPutOffWhoCameFirst() {
            try (VirtualTime time = new VirtualTime()) {
                Deadlines deadlines = new Deadlines(NANOS);
                time.passMillis(10_000);
                Somebody first = somebody("first");
                assertThat(deadlines.add(first)).isEqualTo(Deadlines.now());
                for (int i = 0; i < 10; i++) {
                    time.passMillis(10);
                    deadlines.add(somebody("later"));
                }
                assertThat(told).containsExactly("first");
                assertThat(first.stoodStill).isFalse();
            }
        }

        @Test
        void anAlarmThatIsLostWithItsSchedulerIsSetAnew() {
            Deadlines deadlines;
            Somebody before = somebody("before");
            try (VirtualTime time = new VirtualTime()) {
                deadlines = new Deadlines(NANOS);
                deadlines.add(before);
                time.passMillis(10);
            }
            try (VirtualTime time = new VirtualTime()) {
                time.passMillis(6_000);
                Somebody after = somebody("after");
                deadlines.add(after);
                time.passMillis(100);
                assertThat(told).containsExactly("before", "after");
                assertThat(before.stoodStill).isTrue();
                assertThat(after.stoodStill).isFalse();
            }
        }

        @Test
        void whoComesAfterAnAlarmWasRefusedIsToldInTime() {
            try (MeddledScheduler scheduler = new MeddledScheduler()) {
                Deadlines deadlines = new Deadlines(NANOS);
                refuseTheNextAlarm(scheduler);
                assertThatExceptionOfType(RejectedExecutionException.class)
                        .isThrownBy(() -> deadlines.add(somebody("first")));
                deadlines.add(somebody("second"));
                scheduler.passMillis(100);
                assertThat(told).containsExactly("first", "second");
            }
        }

        @Test
        void whoIsDueIsToldAlsoIfTheNextAlarmIsRefused() {
            try (MeddledScheduler scheduler = new MeddledScheduler()) {
                Deadlines deadlines = new Deadlines(NANOS);
                deadlines.add(somebody("first"));
                scheduler.passMillis(50);
                deadlines.add(somebody("second"));
                scheduler.passMillis(49);
                refuseTheNextAlarm(scheduler);
                assertThatExceptionOfType(RejectedExecutionException.class).isThrownBy(() -> scheduler.passMillis(1));
                assertThat(told).containsExactly("first");
            }
        }

        private static void refuseTheNextAlarm(MeddledScheduler scheduler) {
            scheduler.beforeTheNextAlarm(() -> {
                throw new RejectedExecutionException("shut down");
            });
        }

        /** What is due in the next 30 ms happens so much later. */
        private static void standStill(VirtualTime time, long millis) {
            Schedulers.parallel().schedule(() -> time.passMillis(millis), 10, TimeUnit.MILLISECONDS);
            time.passMillis(30);
        }

        private Somebody somebody(String name) {
            return new Somebody(() -> told.add(name));
        }
    }

    @Test
    void oneAtWhomAThreadCannotGoOnDoesNotKeepTheOthersFromBeingTold() {
        Deadlines deadlines = new Deadlines(NANOS);
        AtomicInteger told = new AtomicInteger();
        List<Throwable> seen = Collections.synchronizedList(new ArrayList<>());
        Schedulers.onHandleError((thread, error) -> seen.add(error));
        try {
            deadlines.add(new Somebody(() -> {
                throw new NoClassDefFoundError("gone");
            }));
            deadlines.add(new Somebody(told::incrementAndGet));
            await().until(() -> told.get() == 1);
            await().untilAsserted(() -> assertThat(seen).hasAtLeastOneElementOfType(NoClassDefFoundError.class));
        } finally {
            Schedulers.resetOnHandleError();
        }
    }

    @Test
    void fromManyThreadsEveryoneWhoIsNotAnsweredIsToldOnceAndNotTooEarly() throws InterruptedException {
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
                            long start = Deadlines.now();
                            Somebody one = new Somebody(() -> {
                                told.incrementAndGet();
                                if (Deadlines.now() - start < NANOS) {
                                    early.add(Deadlines.now() - start);
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

    private static final class Somebody implements Deadlines.Waiting {

        private final Runnable timeIsUp;
        private volatile boolean answered;
        private volatile boolean stoodStill;

        Somebody(Runnable timeIsUp) {
            this.timeIsUp = timeIsUp;
        }

        @Override
        public boolean isAnswered() {
            return answered;
        }

        @Override
        public void timeIsUp(boolean stoodStill) {
            answered = true;
            this.stoodStill = stoodStill;
            timeIsUp.run();
        }
    }
}
