package io.github.spillgate.examples.documentation.seeds;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Instants at which somebody asks: by chance, but often at those where windows begin and end. */
final class Traffic {

    /** An ordinary day, at its beginning. */
    static final long START = 1_790_035_200_000L;

    private Traffic() {}

    /**
     * So many instants, at which a limit of so many permits in a window so long is now exceeded and now not: bursts,
     * requests one after another, pauses of one to three windows, and often just when an earlier request is a window
     * old, or when the share of a permit has passed. No two are the same where that is asked for.
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
