package io.github.spillgate.http;

import java.util.Collection;
import java.util.Locale;
import java.util.Optional;

/** Finds the name that a misspelt one was probably meant to be. */
public final class Spelling {

    private Spelling() {}

    /**
     * Returns the name that differs least from a misspelt one. Case, dashes and underscores do not count as differences.
     *
     * @param misspelt the name as it was written
     * @param names the names that there are
     * @return the nearest of them; empty if none is near: a name of up to five characters may differ by one, of up to nine by two, a
     *     longer one by three
     */
    public static Optional<String> nearest(String misspelt, Collection<String> names) {
        String plain = plain(misspelt);
        String nearest = null;
        int least = plain.length() <= 5 ? 2 : plain.length() < 10 ? 3 : 4;
        for (String name : names) {
            int distance = distance(plain, plain(name), least);
            if (distance < least) {
                nearest = name;
                least = distance;
            }
        }
        return Optional.ofNullable(nearest);
    }

    /**
     * Returns whether a name is another one with one letter missing, superfluous, wrong, or swapped with its neighbour.
     *
     * @param misspelt the name as it was written
     * @param name the other one
     * @return true if it is; false also if both are equal
     */
    public static boolean isNear(String misspelt, String name) {
        return distance(plain(misspelt), plain(name), 2) == 1;
    }

    /**
     * Returns a name as settings compare it: without case, dashes and underscores.
     *
     * @param name the name as it was written
     * @return its letters and digits
     */
    public static String plain(String name) {
        return name.replace("-", "").replace("_", "").toLowerCase(Locale.ROOT);
    }

    /** Returns how many letters are missing, superfluous, wrong, or swapped with their neighbour; {@code most} if that many or more. */
    private static int distance(String one, String other, int most) {
        // Also bounds the work: what is compared may be as long as whoever wrote it liked.
        if (Math.abs(one.length() - other.length()) >= most) {
            return most;
        }
        int[][] distances = new int[one.length() + 1][other.length() + 1];
        for (int i = 0; i <= one.length(); i++) {
            for (int j = 0; j <= other.length(); j++) {
                distances[i][j] = i == 0 || j == 0 ? i + j : least(one, other, distances, i, j);
            }
        }
        return Math.min(most, distances[one.length()][other.length()]);
    }

    private static int least(String one, String other, int[][] distances, int i, int j) {
        boolean isSame = one.charAt(i - 1) == other.charAt(j - 1);
        int replaced = distances[i - 1][j - 1] + (isSame ? 0 : 1);
        int least = Math.min(replaced, Math.min(distances[i - 1][j], distances[i][j - 1]) + 1);
        boolean isSwapped =
                i > 1 && j > 1 && one.charAt(i - 1) == other.charAt(j - 2) && one.charAt(i - 2) == other.charAt(j - 1);
        return isSwapped ? Math.min(least, distances[i - 2][j - 2] + 1) : least;
    }
}
