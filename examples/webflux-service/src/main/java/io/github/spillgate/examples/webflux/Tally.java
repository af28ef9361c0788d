package io.github.spillgate.examples.webflux;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** How often something happened in the last ten seconds, and the most that ever happened in ten seconds. */
final class Tally {

    static final Duration WINDOW = Duration.ofSeconds(10);

    private static final int LONGEST = 10_000;

    private final Deque<Instant> times = new ArrayDeque<>();
    private int most;

    synchronized void add(Instant at) {
        times.add(at);
        if (times.size() > LONGEST) {
            times.remove();
        }
    }

    /** Counts both. The times may be a little out of order, because two instances report them. */
    synchronized Counted count(Instant now) {
        times.removeIf(at -> at.isBefore(now.minus(WINDOW.multipliedBy(2))));
        List<Instant> sorted = times.stream().sorted().toList();
        for (int from = 0, to = 0; to < sorted.size(); to++) {
            while (!sorted.get(from).isAfter(sorted.get(to).minus(WINDOW))) {
                from++;
            }
            most = Math.max(most, to - from + 1);
        }
        Instant start = now.minus(WINDOW);
        return new Counted((int) sorted.stream().filter(start::isBefore).count(), most);
    }

    /**
     * Numbers of events.
     *
     * @param last in the last ten seconds
     * @param most in any ten seconds
     */
    record Counted(int last, int most) {}
}
