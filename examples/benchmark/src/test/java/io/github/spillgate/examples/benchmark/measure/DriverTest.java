package io.github.spillgate.examples.benchmark.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.benchmark.contender.Answer;
import io.github.spillgate.examples.benchmark.contender.Contender;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

final class DriverTest {

    private static final Duration SHORT = Duration.ofMillis(50);
    private static final Duration ENOUGH = Duration.ofMillis(500);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int SLOTS = 64;
    private static final int THREADS = 2;

    private final LongAdder asked = new LongAdder();

    @Test
    void synchronousDecisionsKeepAllThreadsBusyWithoutStackOverflow() {
        Set<Thread> threads = ConcurrentHashMap.newKeySet();
        // A thread may get no processor within a slice.
        await().untilAsserted(() -> {
            threads.clear();
            Slice slice = drive((key, answer) -> {
                threads.add(Thread.currentThread());
                answer.decided(true);
            });
            assertThat(slice.asked()).isEqualTo(asked.sum()).isGreaterThan(SLOTS);
            assertThat(slice.allowed()).isEqualTo(slice.asked());
            assertThat(threads).hasSize(THREADS);
        });
    }

    @Test
    void eachSlotRequestsADecisionEvenIfTheSliceIsOver() {
        Slice slice = drive(load((key, answer) -> answer.decided(true)), Duration.ZERO, LONG);
        assertThat(slice.asked()).isEqualTo(asked.sum()).isEqualTo(SLOTS);
    }

    @Test
    void asynchronousDecisionsAreCountedOnce() {
        ExecutorService elsewhere = Executors.newSingleThreadExecutor();
        try {
            Slice slice = drive((key, answer) -> elsewhere.execute(() -> answer.decided(false)));
            assertThat(slice.asked()).isEqualTo(asked.sum()).isGreaterThan(SLOTS);
            assertThat(slice.denied()).isEqualTo(slice.asked());
        } finally {
            elsewhere.shutdown();
        }
    }

    @Test
    void everyKeyIsUsedInTurn() {
        Set<String> keys = ConcurrentHashMap.newKeySet();
        Slice slice = drive(load((key, answer) -> {
                    keys.add(key);
                    answer.decided(true);
                })
                .everyKeyInTurn());
        assertThat(slice.failed()).isZero();
        assertThat(keys).containsExactlyInAnyOrder("a", "b", "c");
    }

    @Test
    void failuresAndFallbacksAreCountedSeparately() {
        Slice failed = drive((key, answer) -> {
            throw new IllegalArgumentException("no such key");
        });
        assertThat(failed.failed()).isEqualTo(failed.asked()).isPositive();
        assertThat(failed.error()).get().asString().contains("no such key");
        Slice fellBack = drive((key, answer) -> answer.fellBack());
        assertThat(fellBack.fellBack()).isEqualTo(fellBack.asked()).isPositive();
    }

    @Test
    void aContenderThatNeverDecidesEndsTheSliceWithAnError() {
        assertThatThrownBy(() -> drive(load((key, answer) -> {}), ENOUGH, SHORT))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining(SLOTS + " of " + SLOTS + " decisions in flight were not answered");
    }

    private Slice drive(BiConsumer<String, Answer> decide) {
        return drive(load(decide));
    }

    /**
     * Returns a slice in which each slot has decided: on a busy machine a thread may get no processor during a slice.
     */
    private Slice drive(Load load) {
        return await().until(
                        () -> {
                            asked.reset();
                            return drive(load, SHORT, LONG);
                        },
                        slice -> slice.asked() > SLOTS);
    }

    private static Slice drive(Load load, Duration time, Duration timeout) {
        try (Driver driver = new Driver(THREADS, timeout)) {
            return driver.drive(load, time);
        }
    }

    private Load load(BiConsumer<String, Answer> decide) {
        Contender contender = new Contender() {
            @Override
            public void decide(String key, Answer answer) {
                asked.increment();
                decide.accept(key, answer);
            }

            @Override
            public void close() {}
        };
        return new Load(List.of(contender), List.of(), List.of("a", "b", "c"), SLOTS, false);
    }
}
