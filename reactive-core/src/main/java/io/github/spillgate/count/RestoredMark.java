package io.github.spillgate.count;

import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The permits that were restored into one life of a count, of each of the last two lives that were lost. Several
 * instances restore what they know of the same lost life, and the mark says what the count already has of it. A store
 * keeps the mark beside the value, for the {@linkplain LimitKind#reach reach} of the limit. No API.
 */
public final class RestoredMark {

    /** The mark of a count into which nothing was restored. */
    public static final RestoredMark NONE = new RestoredMark(0, List.of());

    private static final int MOST_LOST = 2;
    private static final Pattern TEXT = Pattern.compile("\\d{1,5}( \\d{1,5}( \\d{1,18}){3}){1,2}");

    /** The life into which permits were restored, without its resets. */
    private final int life;

    private final List<Restored> lost;

    private RestoredMark(int life, List<Restored> lost) {
        this.life = life;
        this.lost = lost;
    }

    /**
     * Reads a mark.
     *
     * @param text the text of a mark, the same as in Redis
     * @return the mark; {@link #NONE} if the text is none
     */
    public static RestoredMark parse(String text) {
        if (!TEXT.matcher(text).matches()) {
            return NONE;
        }
        long[] numbers =
                Arrays.stream(text.split(" ")).mapToLong(Long::parseLong).toArray();
        List<Restored> lost = new ArrayList<>();
        for (int i = 1; i < numbers.length; i += 4) {
            lost.add(new Restored((int) numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]));
        }
        return new RestoredMark((int) numbers[0], lost);
    }

    /** Returns what was restored of a lost life into this life. */
    Restored of(int lostLife, int presentLife) {
        Restored none = new Restored(lostLife, 0, 0, 0);
        for (Restored one : lostOf(presentLife)) {
            if (one.isOf(lostLife)) {
                return none.with(one.first, one.second, one.third);
            }
        }
        return none;
    }

    /** Returns a mark of this life that has what was restored of one lost life, and of the last other one. */
    RestoredMark with(Restored restored, int presentLife) {
        List<Restored> all = new ArrayList<>(List.of(restored));
        lostOf(presentLife).stream()
                .filter(one -> !one.isOf(restored.lostLife))
                .limit(MOST_LOST - 1)
                .forEach(all::add);
        return new RestoredMark(presentLife / StoreUsage.RESETS, all);
    }

    private List<Restored> lostOf(int presentLife) {
        return life == presentLife / StoreUsage.RESETS ? lost : List.of();
    }

    /**
     * Returns the text of the mark.
     *
     * @return the life, and for each lost life four numbers
     */
    public String text() {
        return life + lost.stream().map(Restored::text).collect(Collectors.joining());
    }

    /** What was restored of a lost life: three numbers, which depend on the kind of the count; zeros if nothing. */
    record Restored(int lostLife, long first, long second, long third) {

        Restored with(long first, long second, long third) {
            return new Restored(lostLife, first, second, third);
        }

        private String text() {
            return " " + lostLife + " " + first + " " + second + " " + third;
        }

        private boolean isOf(int life) {
            return lostLife / StoreUsage.RESETS == life / StoreUsage.RESETS;
        }
    }
}
