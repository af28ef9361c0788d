package io.github.spillgate.examples.benchmark.measure;

import java.util.ArrayDeque;
import java.util.concurrent.Executor;

/** The slots of one thread that may go on, one after another and never one within another. */
final class Trampoline {

    /** So many questions in a row, then it is somebody else's turn. */
    private static final int IN_A_ROW = 256;

    private final ArrayDeque<Slot> ready = new ArrayDeque<>();
    private final Executor others;
    private boolean running;

    Trampoline(Executor others) {
        this.others = others;
    }

    void goOn(Slot slot) {
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
