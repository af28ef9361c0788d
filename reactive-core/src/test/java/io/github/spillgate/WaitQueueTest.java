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

/**
 * What becomes of those in a line while somebody meddles with the scheduler that it has its time and its alarms from.
 */
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
    void aClockThatStepsBackChangesNothingForThoseWhoWait() {
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
    void whoComesWhileTheLimiterClosesIsToldSo() {
        scheduler.atTheNextLook(limiter::close);
        wait("late", LONG);
        assertThat(errors)
                .singleElement()
                .satisfies(error -> assertThat(error).hasMessageContaining("limiter test is closed"));
        assertNobodyIsLeft(limiter);
    }

    @Test
    void aLimiterThatIsClosedLeavesNoAlarm() {
        wait("first", LONG);
        wait("second", LONG);
        assertThat(scheduler.alarms()).isOne();
        limiter.close();
        assertThat(errors).hasSize(2);
        assertThat(scheduler.alarms()).isZero();
    }

    @Test
    void anAlarmThatIsSetTooLateIsTakenBack() {
        scheduler.beforeTheNextAlarm(() -> limiter.reset("a").block());
        wait("first", LONG);
        assertThat(served).containsExactly("first");
        assertThat(scheduler.alarms()).isZero();
        assertNobodyIsLeft(limiter);
    }

    @Test
    void whomNoAlarmCanWakeIsToldSo() {
        scheduler.beforeTheNextAlarm(() -> {
            throw new RejectedExecutionException("shut down");
        });
        wait("first", LONG);
        assertThat(errors).singleElement().isInstanceOf(RejectedExecutionException.class);
        assertNobodyIsLeft(limiter);
    }

    private void wait(String who, Duration longest) {
        limiter.acquire("a", longest)
                .subscribe(decision -> served.add(decision.isAllowed() ? who : who + " denied"), errors::add);
    }
}
