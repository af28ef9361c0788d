package io.github.spillgate.internal;

import java.util.regex.Pattern;

/**
 * The syntax of the names of limiters, limits and reconciliations. Names become parts of Redis keys, HTTP headers and
 * metrics; with this syntax none of them needs escaping.
 */
public final class Names {

    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");

    private Names() {}

    /**
     * Returns the name if it has this syntax.
     *
     * @param what what the name is for
     * @param name the name
     * @param example an example of a name
     * @return the name
     * @throws IllegalArgumentException if the name has another syntax
     */
    public static String check(String what, String name, String example) {
        if (!NAME.matcher(Checks.present(name, what, example)).matches()) {
            throw new IllegalArgumentException(what + " " + Text.quote(name)
                    + " is not a name: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, for example " + example);
        }
        return name;
    }
}
