package io.github.spillgate.examples.benchmark.measure;

import java.util.ArrayDeque;
import java.util.concurrent.Executor;

/** The ready slots of one thread, which run in sequence and never nested. */
final class Trampoline {

    /** The decisions in a row before the thread hands over to others. */
    private static final int IN_A_ROW = 256;

    private final ArrayDeque<Slot> ready = new ArrayDeque<>();
    private final Executor others;
    private boolean running;

    Trampoline(Executor others) {
        this.others = others;
    }

    void proceed(Slot slot) {
        if (running) {
            ready.add(slot);
            return;
        }
        running = true;
        int left = IN_A_ROW;
        for (Slot next = slot; next != null; next = ready.poll()) {
            if (left-- > 0) {
                next.ask();
            } else {
                others.execute(next);
            }
        }
        running = false;
    }
}
