package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.github.spillgate.examples.benchmark.contender.Contender;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/**
 * A closed loop with a fixed number of decisions in flight, each in its slot. After each decision, its slot requests
 * the next one on the same thread, without any other work or allocation. Only after a decision by a fallback, the slot
 * waits for one millisecond.
 */
public final class Driver implements AutoCloseable {
    // Design notes.
    //
    // If a contender decides synchronously, requesting the next decision from its callback would make the stack grow.
    // So each thread has a trampoline, where the slot waits until the current call has returned. A thread that
    // continues forever would starve other slots, and might be the one that reads from the server. So it stops after
    // some
    // decisions, and hands its slots to the workers.

    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private final ExecutorService workers;
    private final ThreadLocal<Trampoline> trampolines;
    private final Duration timeout;

    /**
     * Creates a driver with this number of threads; contenders have their own in addition.
     *
     * @param timeout how long to wait for decisions in flight at the end of the time
     */
    Driver(int threads, Duration timeout) {
        this.workers = Executors.newFixedThreadPool(threads, work -> {
            Thread thread = new Thread(work, "driver");
            thread.setDaemon(true);
            return thread;
        });
        this.trampolines = ThreadLocal.withInitial(() -> new Trampoline(workers));
        this.timeout = timeout;
    }

    public static Driver of(int threads) {
        return new Driver(threads, TIMEOUT);
    }

    /** Runs the load for this time, and then waits for the decisions in flight. */
    public Slice drive(Load load, Duration time) {
        CountDownLatch running = new CountDownLatch(load.inFlight());
        List<Slot> slots = slots(load, running);
        List<ServerUsage> usageBefore = usage(load);
        long allocatedBefore = Jvm.allocated();
        long cpuBefore = Jvm.cpuNanos();
        long start = System.nanoTime();
        for (Slot slot : slots) {
            slot.start(start + time.toNanos());
            workers.execute(slot);
        }
        await(running, time, load);
        long cpu = Jvm.cpuNanos() - cpuBefore;
        long allocated = Jvm.allocated() - allocatedBefore;
        List<ServerUsage> usage = usage(load);
        DecisionCounts tally = new DecisionCounts();
        slots.forEach(slot -> tally.add(slot.tally()));
        Contender one = load.instances().get(0);
        List<NodeCost> nodes = IntStream.range(0, usage.size())
                .mapToObj(i -> cost(one, usage.get(i).since(usageBefore.get(i)), tally.each()))
                .toList();
        return Slice.of(tally, time, nodes, cpu, allocated);
    }

    private static List<ServerUsage> usage(Load load) {
        return load.servers().stream().map(Server::usage).toList();
    }

    private static NodeCost cost(Contender one, ServerUsage usage, double each) {
        CommandCalls.Sum sent = one.sent(usage.calls());
        return new NodeCost(
                sent.calls() * each,
                sent.micros() * each,
                usage.cpuMicros() * each,
                usage.bytesIn() * each,
                usage.bytesOut() * each);
    }

    private List<Slot> slots(Load load, CountDownLatch running) {
        List<Slot> slots = new ArrayList<>(load.inFlight());
        Executor later = CompletableFuture.delayedExecutor(1, TimeUnit.MILLISECONDS, workers);
        for (int i = 0; i < load.inFlight(); i++) {
            Contender instance = load.instances().get(i % load.instances().size());
            slots.add(new Slot(i, instance, load, trampolines, later, running::countDown));
        }
        return slots;
    }

    private void await(CountDownLatch running, Duration time, Load load) {
        try {
            if (!running.await(time.plus(timeout).toNanos(), TimeUnit.NANOSECONDS)) {
                throw new IllegalStateException(
                        running.getCount() + " of " + load.inFlight() + " decisions in flight were not answered:"
                                + " expected all within " + timeout.toMillis() + " ms after the end of the slice");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while decisions are in flight", e);
        }
    }

    @Override
    public void close() {
        workers.shutdownNow();
    }
}
