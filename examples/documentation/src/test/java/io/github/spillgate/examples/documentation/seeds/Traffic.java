package io.github.spillgate.examples.documentation.seeds;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Random instants of requests, often exactly where windows begin and end. */
final class Traffic {

    /** The start of an ordinary day. */
    static final long START = 1_790_035_200_000L;

    private Traffic() {}

    /**
     * Returns instants at which a limit is sometimes exceeded and sometimes not: bursts, single requests, and pauses of
     * one to three windows. Many lie exactly one window after an earlier request, or one permit interval after the
     * previous one. All are distinct if requested.
     */
    static List<Long> of(long seed, int requests, long window, long permits, boolean apart) {
        Random random = new Random(seed);
        long share = Math.max(1, window / permits);
        long now = START + random.nextLong(window);
        int oldest = 0;
        List<Long> instants = new ArrayList<>();
        while (instants.size() < requests) {
            instants.add(now);
            while (instants.get(oldest) + window <= now) {
                oldest++;
            }
            long step = switch (random.nextInt(16)) {
                case 0, 1, 2, 3, 4 -> random.nextInt(2);
                case 5, 6 -> Math.min(share, instants.get(oldest) + window - now);
                case 7, 8 -> share - (now - instants.get(0)) % share;
                case 9 -> share - now % share;
                default -> random.nextLong(share + 1);
            };
            if (random.nextLong(2 * permits) == 0) {
                step = List.of(window - now % window, window - 1, window, window + 1, random.nextLong(3 * window))
                        .get(random.nextInt(5));
            }
            now += Math.max(apart ? 1 : 0, step);
        }
        return instants;
    }
}
