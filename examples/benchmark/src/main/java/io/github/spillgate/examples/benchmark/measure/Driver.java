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
 * A closed loop: so many decisions are under way at a time, each in its slot, and when one is answered its slot asks
 * for the next, on the thread on which the answer came. Nothing else is done there, and nothing is allocated. Only who
 * was answered by a fallback waits for a millisecond.
 */
public final class Driver implements AutoCloseable {
    // Design notes.
    //
    // An answer that comes while its question is still being asked may not ask the next one from within, or the stack
    // would grow with each. So every thread has a trampoline: the slot that is answered waits there until what runs is
    // over. And where every answer comes at once, a thread that goes on and on would leave the other slots out, and
    // might be the one that reads from Redis; so it stops after a while, and hands its slots to the workers, of which
    // there are as many as may be busy at a time.

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final ExecutorService workers;
    private final ThreadLocal<Trampoline> trampolines;
    private final Duration patience;

    /**
     * A driver on so many threads; contenders bring more of their own.
     *
     * @param patience how long to wait for what is under way when the time is over
     */
    Driver(int threads, Duration patience) {
        this.workers = Executors.newFixedThreadPool(threads, work -> {
            Thread thread = new Thread(work, "driver");
            thread.setDaemon(true);
            return thread;
        });
        this.trampolines = ThreadLocal.withInitial(() -> new Trampoline(workers));
        this.patience = patience;
    }

    public static Driver of(int threads) {
        return new Driver(threads, PATIENCE);
    }

    /** Goes on for so long, and then until all is answered that is under way. */
    public Slice drive(Load load, Duration time) {
        CountDownLatch running = new CountDownLatch(load.inFlight());
        List<Slot> slots = slots(load, running);
        List<Use> usesBefore = uses(load);
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
        List<Use> uses = uses(load);
        Tally tally = new Tally();
        slots.forEach(slot -> tally.add(slot.tally()));
        Contender one = load.instances().get(0);
        List<Share> nodes = IntStream.range(0, uses.size())
                .mapToObj(i -> share(one, uses.get(i).since(usesBefore.get(i)), tally.each()))
                .toList();
        return Slice.of(tally, time, nodes, cpu, allocated);
    }

    private static List<Use> uses(Load load) {
        return load.servers().stream().map(RedisServer::use).toList();
    }

    private static Share share(Contender one, Use use, double each) {
        CommandCalls.Sum sent = one.sent(use.calls());
        return new Share(
                sent.calls() * each,
                sent.micros() * each,
                use.cpuMicros() * each,
                use.bytesIn() * each,
                use.bytesOut() * each);
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
            if (!running.await(time.plus(patience).toNanos(), TimeUnit.NANOSECONDS)) {
                throw new IllegalStateException(
                        running.getCount() + " of " + load.inFlight() + " decisions in flight were not answered:"
                                + " expected all within " + patience.toMillis() + " ms after the end of the slice");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while decisions are under way", e);
        }
    }

    @Override
    public void close() {
        workers.shutdownNow();
    }
}
