package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;

/** A fixed window, as the bad example: a count that starts at 0 in each window of the clock. */
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
