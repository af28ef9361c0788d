package io.github.spillgate.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

class TurnsTest {

    @Test
    void theTurnOfAWorkerEnds() {
        int decided = CompletableFuture.supplyAsync(
                        TurnsTest::decideUntilTheTurnIsOver, Schedulers.parallel()::schedule)
                .join();
        // Earlier tests may have used a part of it.
        assertThat(decided).isLessThanOrEqualTo(Turns.LENGTH);
    }

    @Test
    void anotherThreadDecidesWithoutTurns() {
        for (int i = 0; i < 2 * Turns.LENGTH; i++) {
            Turns.count();
        }
        assertThat(Turns.isOver()).isFalse();
    }

    @Test
    void whatWaitsRunsOnTheSameThreadInItsOrderAfterWhatWasScheduledBefore() {
        int number = 3 * Turns.LENGTH;
        List<String> order = new CopyOnWriteArrayList<>();
        List<Thread> threads = new CopyOnWriteArrayList<>();
        Scheduler.Worker worker = Schedulers.parallel().createWorker();
        worker.schedule(() -> {
            decideUntilTheTurnIsOver();
            threads.add(Thread.currentThread());
            for (int i = 0; i < number; i++) {
                String mine = "task " + i;
                Turns.join(() -> {
                    order.add(mine);
                    threads.add(Thread.currentThread());
                    if (order.size() == 1) {
                        worker.schedule(() -> order.add("other"));
                        throw new IllegalStateException("thrown by a test");
                    }
                });
            }
        });
        await().until(() -> order.size() == number + 1);
        assertThat(threads).hasSize(number + 1).containsOnly(threads.get(0));
        assertThat(order.indexOf("other")).isBetween(1, Turns.LENGTH);
        order.remove("other");
        assertThat(order)
                .isEqualTo(IntStream.range(0, number).mapToObj(i -> "task " + i).toList());
        worker.dispose();
    }

    @Test
    void aThreadOfAnotherSchedulerWithASimilarNameIsLeftAlone() {
        Scheduler similar = Schedulers.newParallel("parallel", 1);
        try {
            int tasks = 10;
            List<Boolean> wereOver = new CopyOnWriteArrayList<>();
            similar.schedule(() -> {
                decideUntilTheTurnIsOver();
                for (int i = 0; i < tasks; i++) {
                    Turns.join(() -> wereOver.add(Turns.isOver()));
                }
            });
            await().until(() -> wereOver.size() == tasks);
            assertThat(CompletableFuture.supplyAsync(Turns::isOver, similar::schedule)
                            .join())
                    .isFalse();
        } finally {
            similar.dispose();
        }
    }

    /** The worker of a thread is looked for on all threads, of which one may be held by another caller. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void aThreadThatAnotherCallerHoldsDoesNotDelayTheTurnOfThisOne(int workersBefore) {
        Schedulers.Snapshot before = Schedulers.setFactoryWithSnapshot(new Schedulers.Factory() {});
        AtomicBoolean isReleased = new AtomicBoolean();
        try {
            Scheduler.Worker mine = Schedulers.parallel().createWorker();
            for (int i = 1; i < Schedulers.DEFAULT_POOL_SIZE; i++) {
                Schedulers.parallel().createWorker().schedule(() -> {
                    long spins = 0;
                    while (!isReleased.get()) {
                        spins++;
                    }
                    assertThat(spins).isPositive();
                });
            }
            // So that with one of the two numbers, the next worker is on a thread that is held.
            for (int i = 0; i < workersBefore; i++) {
                Schedulers.parallel().createWorker();
            }
            CompletableFuture<Void> decided = new CompletableFuture<>();
            mine.schedule(() -> {
                decideUntilTheTurnIsOver();
                Turns.join(() -> decided.complete(null));
            });
            assertThat(decided).succeedsWithin(Duration.ofSeconds(5));
        } finally {
            isReleased.set(true);
            Schedulers.resetFrom(before);
        }
    }

    @Test
    void aThreadWithALongerNameIsNoWorker() {
        Scheduler reports = Schedulers.newParallel("parallel-reports", 1);
        try {
            boolean isOver = CompletableFuture.supplyAsync(
                            () -> {
                                for (int i = 0; i < 2 * Turns.LENGTH; i++) {
                                    Turns.count();
                                }
                                return Turns.isOver();
                            },
                            reports::schedule)
                    .join();
            assertThat(isOver).isFalse();
        } finally {
            reports.dispose();
        }
    }

    /** No worker of the scheduler is on it, so what joined would run on a thread of the scheduler. */
    @Test
    void aThreadOfTheApplicationWithTheNameOfAWorkerTakesNoTurns() throws InterruptedException {
        AtomicBoolean isOver = new AtomicBoolean();
        Thread shared = new Thread(Turns::share);
        Thread similar = new Thread(
                () -> {
                    for (int i = 0; i < 2 * Turns.LENGTH; i++) {
                        Turns.count();
                    }
                    isOver.set(Turns.isOver());
                },
                "parallel-1");
        for (Thread each : List.of(shared, similar)) {
            each.start();
            each.join();
        }
        assertThat(isOver).isFalse();
    }

    /** Without turns, each caller would continue with its own: on its own thread, within its own task. */
    @Test
    void aCallerDoesNotContinueWithTheThreadLocalsOfAnother() {
        ThreadLocal<String> tenant = new ThreadLocal<>();
        Schedulers.onScheduleHook("tenant", task -> {
            String captured = tenant.get();
            return () -> {
                tenant.set(captured);
                try {
                    task.run();
                } finally {
                    tenant.remove();
                }
            };
        });
        try {
            List<String> seen = new CopyOnWriteArrayList<>();
            Schedulers.parallel().schedule(() -> {
                decideUntilTheTurnIsOver();
                for (String caller : List.of("a", "b")) {
                    tenant.set(caller);
                    Turns.join(() -> seen.add(caller + " as " + tenant.get()));
                }
                tenant.remove();
            });
            await().until(() -> seen.size() == 2);
            assertThat(seen).containsExactly("a as a", "b as b");
        } finally {
            Schedulers.resetOnScheduleHook("tenant");
        }
    }

    /** A stream with several decisions in flight: when one is made, it requests another. */
    @Test
    void callersThatWaitAlternateWithAStream() {
        int inFlight = 100;
        AtomicInteger ofStream = new AtomicInteger();
        CompletableFuture<Integer> before = new CompletableFuture<>();
        Schedulers.parallel().schedule(() -> {
            decideUntilTheTurnIsOver();
            for (int i = 0; i < inFlight; i++) {
                Turns.join(() -> decideUntil(before, ofStream));
            }
            Turns.join(() -> before.complete(ofStream.get()));
        });
        assertThat(before.join()).isEqualTo(inFlight);
    }

    private static void decideUntil(CompletableFuture<Integer> end, AtomicInteger decided) {
        do {
            Turns.count();
            decided.incrementAndGet();
        } while (!end.isDone() && !Turns.isOver());
        if (!end.isDone()) {
            Turns.join(() -> decideUntil(end, decided));
        }
    }

    @Test
    void aCallerThatDoesNotLeaveTheThreadMakesMostOfItsDecisionsAtOnce() {
        int number = 100_000;
        int waited = CompletableFuture.supplyAsync(
                        () -> {
                            int joined = 0;
                            for (int i = 0; i < number; i++) {
                                if (Turns.isOver()) {
                                    Turns.join(() -> {});
                                    joined++;
                                } else {
                                    Turns.count();
                                }
                            }
                            return joined;
                        },
                        Schedulers.parallel()::schedule)
                .join();
        assertThat(waited).isBetween(1, number / 50);
    }

    private static int decideUntilTheTurnIsOver() {
        int decided = 0;
        while (!Turns.isOver()) {
            Turns.count();
            decided++;
        }
        return decided;
    }
}
