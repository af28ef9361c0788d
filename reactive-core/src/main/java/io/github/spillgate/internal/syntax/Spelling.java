package io.github.spillgate.internal.syntax;

import java.util.Collection;
import java.util.Locale;
import java.util.Optional;

/** Suggestions for misspelt names. */
public final class Spelling {

    private Spelling() {}

    /**
     * Returns the name that differs least from a misspelt one. Case, dashes and underscores do not count as
     * differences.
     *
     * @param misspelt the name, as written
     * @param names the valid names
     * @return the nearest name; empty if none is near: a name of up to 5 characters may differ by 1, one of up to 9 by
     *     2, a longer one by 3
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
     * Returns the end of an error message: the valid names, and a suggestion if one of them is near.
     *
     * @param misspelt the name, as written
     * @param names the valid names, at least one
     * @return text such as {@code did you mean paths? Expected one of methods, paths}
     */
    public static String expected(String misspelt, Collection<String> names) {
        return nearest(misspelt, names)
                        .map(nearest -> "did you mean " + nearest + "? Expected")
                        .orElse("expected")
                + " one of " + String.join(", ", names);
    }

    /**
     * Returns whether a name differs from another one by one letter that is missing, superfluous, wrong, or swapped
     * with its neighbour.
     *
     * @param misspelt the name, as written
     * @param name the other name
     * @return true if it differs in this way; false also if both are equal
     */
    public static boolean isNear(String misspelt, String name) {
        return distance(plain(misspelt), plain(name), 2) == 1;
    }

    /**
     * Returns the form of a name that settings compare: lower case, without dashes and underscores.
     *
     * @param name the name, as written
     * @return the form to compare
     */
    public static String plain(String name) {
        return name.replace("-", "").replace("_", "").toLowerCase(Locale.ROOT);
    }

    /**
     * Returns how many letters are missing, superfluous, wrong, or swapped with their neighbour, at most {@code most}.
     */
    private static int distance(String one, String other, int most) {
        // Also bounds the work: a name may be of any length.
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
