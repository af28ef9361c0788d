package io.github.spillgate.http;

/** Quotes untrusted text for messages: short, on one line, and without control characters for a terminal. */
final class SafeText {

    private static final int LONGEST = 80;

    private SafeText() {}

    static String quote(String text) {
        return quote(text, LONGEST);
    }

    static String quote(String text, int longest) {
        StringBuilder quoted = new StringBuilder().append('"');
        text.chars().limit(longest).forEach(c -> quoted.append(c < ' ' || c > '~' ? '?' : (char) c));
        return quoted.append(text.length() > longest ? "…\"" : "\"").toString();
    }
}
