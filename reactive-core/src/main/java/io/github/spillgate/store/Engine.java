package io.github.spillgate.store;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The queue of tasks, and the batches in flight. */
final class Engine {
    // Design notes.
    //
    // A key is in one batch at a time: two batches of one process would only conflict with each other. So a task waits
    // while one of its keys is in flight, and a hot key makes one large batch.
    //
    // One thread at a time makes a pass over the queue; others only note that there is more to do. No lock is held, and
    // no thread waits. A store that answers on the calling thread would keep it in passes for as long as tasks arrive,
    // so after a few rounds another thread goes on.
    //
    // A task on several keys could wait forever, if each of them is in flight whenever another one is free. So the
    // first one that has to wait holds all of its keys: no later task with one of them is sent before it. There is one
    // at a time, so that no two wait for each other.

    /** The longest pause of a batch, or of tasks, that wait for another process. */
    static final Duration LONGEST_PAUSE = Duration.ofMillis(20);

    private static final int MOST_KEYS = 64;
    private static final int MOST_TASKS = 256;
    private static final int MOST_ROUNDS = 4;

    private final CompareAndWriteStore store;
    private final int mostInFlight;
    private final int mostWaiting;
    private final WrittenRows written = new WrittenRows();

    private final Queue<Task<?>> submitted = new ConcurrentLinkedQueue<>();
    private final Queue<Collection<String>> freed = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicInteger inFlight = new AtomicInteger();

    /** How often a pass is needed. */
    private final AtomicInteger passes = new AtomicInteger();

    // Used in a pass only.

    private final Deque<Task<?>> ready = new ArrayDeque<>();

    /** The keys in flight, and the tasks that wait for each. */
    private final Map<String, Deque<Task<?>>> busy = new HashMap<>();

    /** The task that holds its keys, and the tasks that wait for it. */
    private @Nullable Task<?> holder;

    private final Deque<Task<?>> behindHolder = new ArrayDeque<>();

    Engine(CompareAndWriteStore store, int mostInFlight, int mostWaiting) {
        if (mostInFlight < 1 || mostInFlight > 1_000 || mostWaiting < 1 || mostWaiting > 1_000_000) {
            throw new IllegalArgumentException("inFlight " + mostInFlight + ", waiting " + mostWaiting
                    + " is out of range: expected 1 to 1,000, and 1 to 1,000,000, for example 2, 10_000");
        }
        this.store = store;
        this.mostInFlight = mostInFlight;
        this.mostWaiting = mostWaiting;
    }

    CompareAndWriteStore store() {
        return store;
    }

    WrittenRows written() {
        return written;
    }

    <T> Mono<T> run(Task.Work<T> work) {
        return Task.of(work, this::submit);
    }

    /** Runs a step. Its result takes nothing that must be released. */
    <T> Mono<T> run(List<String> keys, long deadline, Function<Page, @Nullable T> step) {
        return run(new Task.Work<T>(keys, deadline, step, unused -> {}));
    }

    private void submit(Task<?> task) {
        if (waiting.incrementAndGet() > mostWaiting) {
            waiting.decrementAndGet();
            task.fail(new LimitStoreException(
                    Kind.UNAVAILABLE,
                    "store " + store + " has " + mostWaiting + " waiting decisions, as many as it may have: expected"
                            + " fewer at a time, or a higher bound in the constructor of CompareAndWriteStore"));
            task.answer();
            return;
        }
        submitted.add(task);
        pass();
    }

    /**
     * Frees keys of a batch.
     *
     * @param isLast whether the batch ends with these
     */
    void free(Collection<String> keys, boolean isLast) {
        freed.add(keys);
        if (isLast) {
            inFlight.decrementAndGet();
        }
        pass();
    }

    /** Queues tasks again after a pause, which is longer each time; or fails those that were tried too often. */
    void postpone(List<Task<?>> tasks, LimitStoreException failure) {
        List<Task<?>> again = new ArrayList<>();
        int tries = 0;
        for (Task<?> task : tasks) {
            tries = task.markWaiting();
            if (tries > Task.MOST_TRIES) {
                task.fail(failure);
                answer(List.of(task));
            } else {
                again.add(task);
            }
        }
        waiting.addAndGet(again.size());
        Schedulers.parallel()
                .schedule(
                        () -> {
                            submitted.addAll(again);
                            pass();
                        },
                        Math.min(tries, LONGEST_PAUSE.toMillis()),
                        TimeUnit.MILLISECONDS);
    }

    private void pass() {
        if (passes.getAndIncrement() == 0) {
            makePasses();
        }
    }

    private void makePasses() {
        for (int round = 0; round < MOST_ROUNDS; round++) {
            int known = passes.get();
            makePass();
            if (passes.addAndGet(-known) == 0) {
                return;
            }
        }
        Schedulers.parallel().schedule(this::makePasses);
    }

    private void makePass() {
        for (Collection<String> keys = freed.poll(); keys != null; keys = freed.poll()) {
            for (String key : keys) {
                putFirst(busy.remove(key));
            }
        }
        for (Task<?> task = submitted.poll(); task != null; task = submitted.poll()) {
            ready.add(task);
        }
        for (int started = inFlight.get(); started < mostInFlight && !ready.isEmpty(); started++) {
            List<Task<?>> tasks = nextTasks();
            if (!tasks.isEmpty()) {
                inFlight.incrementAndGet();
                new RowBatch(this).start(tasks);
            }
        }
    }

    private void putFirst(@Nullable Deque<Task<?>> tasks) {
        while (tasks != null && !tasks.isEmpty()) {
            ready.addFirst(tasks.removeLast());
        }
    }

    /** Takes the tasks of a batch out of the queue, and marks their keys as busy. */
    private List<Task<?>> nextTasks() {
        List<Task<?>> tasks = new ArrayList<>();
        List<Task<?>> late = new ArrayList<>();
        Set<String> keys = new HashSet<>();
        long now = Time.nanos();
        while (tasks.size() < MOST_TASKS && !ready.isEmpty()) {
            Task<?> task = ready.remove();
            if (isAfter(task.deadline(), now)) {
                late.add(task);
                leave(task);
            } else if (!hasToWait(task)) {
                long more =
                        task.keys().stream().filter(key -> !keys.contains(key)).count();
                if (!tasks.isEmpty() && keys.size() + more > MOST_KEYS) {
                    ready.addFirst(task);
                    break;
                }
                leave(task);
                if (task.markSent()) {
                    tasks.add(task);
                    keys.addAll(task.keys());
                }
            }
        }
        keys.forEach(key -> busy.put(key, new ArrayDeque<>()));
        if (!late.isEmpty()) {
            late.forEach(this::failLate);
            answer(late);
        }
        return tasks;
    }

    private void leave(Task<?> task) {
        waiting.decrementAndGet();
        if (task == holder) {
            holder = null;
            putFirst(behindHolder);
        }
    }

    /** Returns whether a task has to wait for a batch in flight, or for the holder, and puts it there. */
    private boolean hasToWait(Task<?> task) {
        Task<?> held = holder;
        if (held != null && held != task && task.keys().stream().anyMatch(held.keys()::contains)) {
            behindHolder.add(task);
            return true;
        }
        for (String key : task.keys()) {
            Deque<Task<?>> others = busy.get(key);
            if (others != null) {
                others.add(task);
                holder = held == null && task.keys().size() > 1 ? task : held;
                return true;
            }
        }
        return false;
    }

    void failLate(Task<?> task) {
        task.fail(new LimitStoreException(Kind.LATE, "store " + store + " changed nothing: the deadline had passed"));
    }

    /** Answers tasks on a thread on which their callers may go on. */
    static void answer(Collection<Task<?>> tasks) {
        Schedulers.parallel().schedule(() -> tasks.forEach(Task::answer));
    }

    static boolean isAfter(long deadline, long now) {
        return deadline != LimitStore.NO_DEADLINE && now - deadline > 0;
    }
}
