package io.github.spillgate.http;

/** Texts of settings, made fit for a message: short, on one line, and with nothing in them that a terminal would obey. */
final class Quoted {

    private static final int LONGEST = 80;

    private Quoted() {}

    static String text(String text) {
        StringBuilder quoted = new StringBuilder().append('"');
        text.chars().limit(LONGEST).forEach(c -> quoted.append(c < ' ' || c > '~' ? '?' : (char) c));
        return quoted.append(text.length() > LONGEST ? "…\"" : "\"").toString();
    }
}
