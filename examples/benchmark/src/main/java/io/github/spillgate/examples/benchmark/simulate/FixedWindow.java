package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;

/** What many start with, as the bad example: a count that starts at 0 when the clock comes to the next window. */
final class FixedWindow implements Admission {

    private final long window;
    private final long permits;
    private long number = -1;
    private long taken;

    FixedWindow(Limit limit) {
        window = limit.window().toMillis();
        permits = limit.permits();
    }

    @Override
    public boolean admits(long now) {
        if (now / window != number) {
            number = now / window;
            taken = 0;
        }
        if (taken == permits) {
            return false;
        }
        taken++;
        return true;
    }
}
