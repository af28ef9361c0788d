package io.github.spillgate.http;

/**
 * Texts of settings, made fit for a message: short, on one line, and with nothing in them that a terminal would obey.
 */
final class Quoted {

    private static final int LONGEST = 80;

    private Quoted() {}

    static String text(String text) {
        return text(text, LONGEST);
    }

    static String text(String text, int longest) {
        StringBuilder quoted = new StringBuilder().append('"');
        text.chars().limit(longest).forEach(c -> quoted.append(c < ' ' || c > '~' ? '?' : (char) c));
        return quoted.append(text.length() > longest ? "…\"" : "\"").toString();
    }
}
