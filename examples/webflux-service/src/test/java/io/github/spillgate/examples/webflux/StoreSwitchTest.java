package io.github.spillgate.examples.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpStatus;
import org.springframework.web.server.ResponseStatusException;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The switch during a change, which takes as long as a test needs. */
class StoreSwitchTest {

    private final CountDownLatch mayTurn = new CountDownLatch(1);

    private ExampleRedis redis;
    private StoreSwitch storeSwitch;

    @BeforeEach
    void start() throws IOException {
        redis = ExampleRedis.embedded();
        storeSwitch = new StoreSwitch(redis);
        Schedulers.onScheduleHook("hold", task -> () -> {
            try {
                mayTurn.await();
            } catch (InterruptedException e) {
                // The task was cancelled.
                return;
            }
            task.run();
        });
    }

    @AfterEach
    void stop() {
        mayTurn.countDown();
        Schedulers.resetOnScheduleHook("hold");
        redis.close();
    }

    @Test
    void aRequestDuringAChangeIsRejectedAtOnce() {
        CompletableFuture<Void> first = storeSwitch.stop().toFuture();
        assertRejected(storeSwitch.stop());
        assertRejected(storeSwitch.start());
        assertThat(redis.isRunning()).isTrue();
        mayTurn.countDown();
        first.join();
        assertThat(redis.isRunning()).isFalse();
        storeSwitch.start().block();
        assertThat(redis.isRunning()).isTrue();
    }

    @Test
    void aChangeCompletesAfterACancellation() {
        storeSwitch.stop().subscribe().dispose();
        assertRejected(storeSwitch.start());
        mayTurn.countDown();
        await().until(() -> !redis.isRunning());
    }

    @Test
    void nothingHappensWithoutASubscription() {
        mayTurn.countDown();
        Mono<Void> stop = storeSwitch.stop();
        storeSwitch.start().block();
        assertThat(redis.isRunning()).isTrue();
        stop.block();
        assertThat(redis.isRunning()).isFalse();
    }

    @Test
    void anotherRedisIsNotStoppedAndItsPasswordIsHidden() throws IOException {
        mayTurn.countDown();
        StoreSwitch another =
                new StoreSwitch(ExampleRedis.open(redis.uri().replace("redis://", "redis://default:top-secret@")));
        assertThat(another.state())
                .isEqualTo(new Playground.Server("Redis", "the server of SPILLGATE_REDIS_URI", false, true));
        for (Mono<Void> turn : List.of(another.stop(), another.start())) {
            assertThatExceptionOfType(ResponseStatusException.class)
                    .isThrownBy(turn::block)
                    .satisfies(error -> assertThat(error.getStatusCode()).isEqualTo(HttpStatus.CONFLICT))
                    .withMessageContaining("which is yours; expected an embedded server")
                    .withMessageNotContaining("top-secret");
        }
        assertThat(redis.isRunning()).isTrue();
    }

    private static void assertRejected(Mono<Void> turn) {
        assertThatExceptionOfType(ResponseStatusException.class)
                .isThrownBy(turn::block)
                .satisfies(error -> assertThat(error.getStatusCode()).isEqualTo(HttpStatus.CONFLICT))
                .withMessageContaining("expected one change at a time");
    }
}
