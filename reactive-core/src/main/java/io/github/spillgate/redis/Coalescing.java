package io.github.spillgate.redis;

/**
 * How far decisions are put together.
 *
 * @param together how many decisions leave in one command at most
 * @param underWay how many such commands are under way at a time at most
 * @param waiting how many decisions wait at most
 */
record Coalescing(int together, int underWay, int waiting) {

    static final int MOST_TOGETHER = 1_000;
    static final int MOST_UNDER_WAY = 1_000;
    static final int MOST_WAITING = 1_000_000;

    /**
     * A hundred decisions keep Redis busy for some tenths of a millisecond, so whoever else asks it does not wait for long. Four
     * commands keep it from having nothing to do while an answer is on its way, and whoever comes from waiting for more than a
     * part of that way.
     */
    static final Coalescing AT_FIRST = new Coalescing(128, 4, 100_000);

    Coalescing {
        check("decisions together", together, MOST_TOGETHER);
        check("commands under way", underWay, MOST_UNDER_WAY);
        check("decisions that wait", waiting, MOST_WAITING);
    }

    private static void check(String what, int number, int most) {
        if (number < 1 || number > most) {
            throw new IllegalArgumentException(
                    number + " " + what + " are out of range: expected 1 to " + most + ", for example .coalescing("
                            + AT_FIRST.together + ", " + AT_FIRST.underWay + ", " + AT_FIRST.waiting + ")");
        }
    }
}
