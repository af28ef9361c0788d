package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs what it is given at once, and one after another: whoever comes while somebody is inside leaves his task to him.
 *
 * <p>Lettuce takes a lock for each command that is written. Two threads that write at the same time would wait for each other
 * there, and ours are event loops; those that pass here never meet. The tasks are those of a Reactor scheduler, which lets no
 * exception of theirs out.
 */
final class Turnstile implements Executor {

    private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicInteger present = new AtomicInteger();

    @Override
    public void execute(Runnable task) {
        waiting.add(task);
        if (present.getAndIncrement() == 0) {
            do {
                Runnable next = waiting.poll();
                if (next != null) {
                    next.run();
                }
            } while (present.decrementAndGet() != 0);
        }
    }
}
