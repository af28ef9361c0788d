package io.github.spillgate;

import java.util.regex.Pattern;

/**
 * What a limiter, a limit or a namespace may be called. Names become part of Redis keys, of HTTP headers and of
 * metrics, so that none of these has to escape anything.
 */
final class Names {

    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");

    private Names() {}

    static String check(String what, String name, String example) {
        if (!NAME.matcher(Checks.present(name, what, example)).matches()) {
            throw new IllegalArgumentException(what + " " + Text.quote(name)
                    + " is not a name: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, for example " + example);
        }
        return name;
    }
}
