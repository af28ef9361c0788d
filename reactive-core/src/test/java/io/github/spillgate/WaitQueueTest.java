package io.github.spillgate;

import static io.github.spillgate.LineAssertions.assertNobodyIsLeft;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.MeddledScheduler;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A wait queue on a scheduler with a time and timers that the test changes. */
class WaitQueueTest {

    private static final Duration LONG = Duration.ofHours(1);

    private final MeddledScheduler scheduler = new MeddledScheduler();
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

    @AfterEach
    void stop() {
        scheduler.close();
    }

    @Test
    void aClockThatStepsBackDoesNotAffectWaiters() {
        wait("first", LONG);
        scheduler.passMillis(30_000);
        wait("too late", Duration.ofSeconds(90));
        scheduler.stepBack(Duration.ofSeconds(20));
        wait("too late again", Duration.ofSeconds(90));
        assertThat(served).containsExactly("too late denied", "too late again denied");
        wait("in time", Duration.ofMillis(90_002));
        scheduler.passMillis(90_002);
        assertThat(served).endsWith("first", "in time");
        assertNobodyIsLeft(limiter);
    }

    @Test
    void aCallerThatJoinsDuringTheCloseFails() {
        scheduler.atTheNextLook(limiter::close);
        wait("late", LONG);
        assertThat(errors)
                .singleElement()
                .satisfies(error -> assertThat(error).hasMessageContaining("limiter test is closed"));
        assertNobodyIsLeft(limiter);
    }

    @Test
    void aClosedLimiterHasNoTimer() {
        wait("first", LONG);
        wait("second", LONG);
        assertThat(scheduler.alarms()).isOne();
        limiter.close();
        assertThat(errors).hasSize(2);
        assertThat(scheduler.alarms()).isZero();
    }

    @Test
    void aTimerThatIsSetTooLateIsCancelled() {
        scheduler.beforeTheNextAlarm(() -> limiter.reset("a").block());
        wait("first", LONG);
        assertThat(served).containsExactly("first");
        assertThat(scheduler.alarms()).isZero();
        assertNobodyIsLeft(limiter);
    }

    @Test
    void aWaiterFailsIfItsTimerIsRejected() {
        scheduler.beforeTheNextAlarm(() -> {
            throw new RejectedExecutionException("shut down");
        });
        wait("first", LONG);
        assertThat(errors).singleElement().isInstanceOf(RejectedExecutionException.class);
        assertNobodyIsLeft(limiter);
    }

    private void wait(String name, Duration longest) {
        limiter.acquire("a", longest)
                .subscribe(decision -> served.add(decision.isAllowed() ? name : name + " denied"), errors::add);
    }
}
