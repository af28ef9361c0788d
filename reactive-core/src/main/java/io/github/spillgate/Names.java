package io.github.spillgate;

import java.util.regex.Pattern;

/**
 * The syntax of the names of limiters, limits and reconciliations. Names become parts of Redis keys, HTTP headers and
 * metrics; with this syntax none of them needs escaping.
 */
final class Names {

    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");

    private Names() {}

    /** Returns the name; throws an {@link IllegalArgumentException} if it has another syntax. */
    static String check(String what, String name, String example) {
        if (!NAME.matcher(Checks.present(name, what, example)).matches()) {
            throw new IllegalArgumentException(what + " " + Text.quote(name)
                    + " is not a name: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, for example " + example);
        }
        return name;
    }
}
