package io.github.spillgate.internal.syntax;

import io.github.spillgate.internal.Text;
import java.util.BitSet;
import java.util.function.IntPredicate;

/** A parser of statuses in settings: {@code 401}, and {@code 4xx} for all that begin with a 4. */
public final class StatusSet {

    private static final int LEAST = 100;
    private static final int MOST = 599;

    private StatusSet() {}

    public static IntPredicate parse(String... texts) {
        BitSet statuses = new BitSet(MOST + 1);
        for (String text : texts) {
            boolean isClass = text.length() == 3 && text.substring(1).equalsIgnoreCase("xx");
            int first = number(isClass ? text.charAt(0) + "00" : text);
            if (first < LEAST || first > MOST) {
                throw new IllegalArgumentException("status " + Text.quote(text)
                        + " is not a status: expected one from 100 to 599, or a class of them, for example"
                        + " \"401\" or \"2xx\"");
            }
            statuses.set(first, isClass ? first + 100 : first + 1);
        }
        return status -> status >= 0 && statuses.get(status);
    }

    private static int number(String text) {
        if (text.length() != 3) {
            return -1;
        }
        int number = 0;
        for (int i = 0; i < 3; i++) {
            char c = text.charAt(i);
            if (!HttpTokens.isDigit(c)) {
                return -1;
            }
            number = 10 * number + c - '0';
        }
        return number;
    }
}
