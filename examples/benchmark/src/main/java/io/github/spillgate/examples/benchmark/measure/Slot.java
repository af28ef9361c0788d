package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Answer;
import io.github.spillgate.examples.benchmark.contender.Contender;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Executor;

/**
 * Requests one decision after another, and at least one: on a busy machine a thread may get no processor during a short
 * slice. Runs on one thread at a time; each callback hands the slot over to the next thread.
 */
final class Slot implements Answer, Runnable {

    private static final long SEED = 0x5eed;

    private final Contender contender;
    private final List<String> keys;
    private final int step;
    private final ThreadLocal<Trampoline> trampolines;
    private final Executor later;
    private final Runnable end;
    private final SplittableRandom random;
    private final DecisionCounts tally = new DecisionCounts();
    private long until;
    private long askedAt;
    private boolean asking;
    private boolean hasAsked;
    private int next;

    Slot(
            int number,
            Contender contender,
            Load load,
            ThreadLocal<Trampoline> trampolines,
            Executor later,
            Runnable end) {
        this.contender = contender;
        this.keys = load.keys();
        this.step = load.inTurn() ? load.inFlight() : 0;
        this.next = number;
        this.trampolines = trampolines;
        this.later = later;
        this.end = end;
        this.random = new SplittableRandom(SEED + number);
    }

    /** Sets the end of the time. Must be called before the slot runs. */
    void start(long until) {
        this.until = until;
    }

    @Override
    public void run() {
        trampolines.get().proceed(this);
    }

    void ask() {
        askedAt = System.nanoTime();
        if (hasAsked && askedAt - until >= 0) {
            end.run();
            return;
        }
        hasAsked = true;
        asking = true;
        try {
            contender.decide(key(), this);
        } catch (RuntimeException e) {
            failed(e);
        }
    }

    private String key() {
        if (step == 0) {
            return keys.get(random.nextInt(keys.size()));
        }
        String key = keys.get(next % keys.size());
        next = (next + step) % keys.size();
        return key;
    }

    @Override
    public void decided(boolean allowed) {
        if (answered()) {
            tally.decided(allowed, askedAt, until);
            proceed();
        }
    }

    @Override
    public void fellBack() {
        if (answered()) {
            tally.fellBack++;
            // Without a delay, a million decisions a second by the fallback would take the processors from the
            // measurement.
            later.execute(this);
        }
    }

    @Override
    public void failed(Throwable error) {
        if (answered()) {
            tally.failed(error);
            proceed();
        }
    }

    private boolean answered() {
        boolean first = asking;
        asking = false;
        return first;
    }

    private void proceed() {
        trampolines.get().proceed(this);
    }

    DecisionCounts tally() {
        return tally;
    }
}
