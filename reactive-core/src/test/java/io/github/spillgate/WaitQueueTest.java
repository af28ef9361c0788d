package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.InterceptedScheduler;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A wait queue on a scheduler with a time and timers that the test changes. */
class WaitQueueTest {

    private static final Duration LONG = Duration.ofHours(1);

    @AutoClose
    private final InterceptedScheduler scheduler = new InterceptedScheduler();

    private final List<String> served = new ArrayList<>();
    private final List<Throwable> errors = new ArrayList<>();
    private final RateLimiter limiter = RateLimiter.builder("test")
            .store(LocalStore.bounded(100, () -> Instant.ofEpochMilli(scheduler.passedMillis())))
            .limit(Limit.perMinute(1))
            .build();

    @BeforeEach
    void takeAll() {
        limiter.tryAcquire("a").block();
    }

    @Test
    void aCallerThatJoinsDuringTheCloseFails() {
        scheduler.onNextClockRead(limiter::close);
        wait("late", LONG);
        assertThat(errors)
                .singleElement()
                .satisfies(error -> assertThat(error).hasMessageContaining("limiter test is closed"));
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aClosedLimiterHasNoTimer() {
        wait("first", LONG);
        wait("second", LONG);
        assertThat(scheduler.timers()).isOne();
        limiter.close();
        assertThat(errors).hasSize(2);
        assertThat(scheduler.timers()).isZero();
    }

    @Test
    void aResetCancelsTheTimer() {
        wait("first", LONG);
        limiter.reset("a").block();
        assertThat(served).containsExactly("first");
        assertThat(scheduler.timers()).isZero();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aWaiterFailsIfItsTimerIsRejected() {
        scheduler.beforeNextTimer(() -> {
            throw new RejectedExecutionException("shut down");
        });
        wait("first", LONG);
        assertThat(errors).singleElement().isInstanceOf(RejectedExecutionException.class);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aResetWhileTheTimerIsBeingSetLeavesNoTimer() {
        AtomicBoolean isReset = new AtomicBoolean();
        scheduler.beforeNextTimer(
                () -> isReset.set(endsOnAnotherThread(() -> limiter.reset("a").block())));
        wait("first", LONG);
        assertThat(isReset).isTrue();
        assertThat(served).containsExactly("first");
        assertThat(errors).isEmpty();
        assertThat(scheduler.timers()).isZero();
        assertNoWaiterIsLeft(limiter);
    }

    /** Returns whether the task ends, and does not wait for a monitor of this thread. */
    private static boolean endsOnAnotherThread(Runnable task) {
        return CompletableFuture.runAsync(task, command -> new Thread(command).start())
                .orTimeout(10, TimeUnit.SECONDS)
                .handle((ended, error) -> error == null)
                .join();
    }

    private void wait(String name, Duration longest) {
        limiter.acquire("a", longest)
                .subscribe(decision -> served.add(decision.isAllowed() ? name : name + " denied"), errors::add);
    }
}
