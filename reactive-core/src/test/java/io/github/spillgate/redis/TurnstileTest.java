package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class TurnstileTest {

    private final Turnstile turnstile = new Turnstile(() -> false, () -> {});

    @Test
    void tasksNeverOverlapAndNoneIsLost() {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        AtomicInteger passed = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            threads.add(new Thread(() -> {
                for (int task = 0; task < 20_000; task++) {
                    turnstile.execute(() -> {
                        most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                        passed.incrementAndGet();
                        inside.decrementAndGet();
                    });
                }
            }));
        }
        threads.forEach(Thread::start);
        await().until(() -> passed.get() == 160_000);
        assertThat(most).hasValue(1);
    }

    @Test
    void theLeavingActionRunsInTurn() {
        List<String> done = new ArrayList<>();
        AtomicReference<Turnstile> known = new AtomicReference<>();
        Turnstile observed = new Turnstile(() -> false, () -> {
            done.add("goes");
            if (done.size() == 3) {
                known.get().execute(() -> done.add("comes later"));
                done.add("has gone");
            }
        });
        known.set(observed);
        observed.execute(() -> {
            done.add("first, and " + (observed.isWaitedFor() ? "others wait" : "none waits"));
            observed.execute(() -> done.add("second"));
        });
        assertThat(done).containsExactly("first, and none waits", "second", "goes", "has gone", "comes later", "goes");
    }

    @Test
    void aThreadLeavesAlthoughTasksKeepArriving() throws Exception {
        CountDownLatch returned = new CountDownLatch(1);
        List<Thread> served = Collections.synchronizedList(new ArrayList<>());
        Thread first = new Thread(() -> {
            turnstile.execute(() -> again(returned, served));
            returned.countDown();
        });
        first.start();
        first.join();
        await().until(() -> returned.getCount() == 0);
        assertThat(served.stream().filter(thread -> thread == first)).hasSizeLessThanOrEqualTo(Turnstile.LONGEST_STAY);
    }

    /** Each task brings the next, until the first caller is back. */
    private void again(CountDownLatch returned, List<Thread> served) {
        served.add(Thread.currentThread());
        if (returned.getCount() > 0) {
            turnstile.execute(() -> again(returned, served));
        }
    }

    @Test
    void anErrorDoesNotBlockLaterTasks() {
        assertThatThrownBy(() -> turnstile.execute(() -> {
                    throw new StackOverflowError();
                }))
                .isInstanceOf(StackOverflowError.class);
        AtomicInteger passed = new AtomicInteger();
        turnstile.execute(passed::incrementAndGet);
        assertThat(passed).hasValue(1);
    }
}
