package io.github.spillgate.internal;

import org.jspecify.annotations.Nullable;

/** The quoting of untrusted values in messages: short, on one line, and without control characters. */
public final class Text {

    private static final int LONGEST = 80;

    private Text() {}

    /**
     * Returns the value in quotation marks, escaped, and cut after 80 characters.
     *
     * @param value the value
     * @return the text for a message
     */
    public static String quote(String value) {
        return quote(value, LONGEST);
    }

    /**
     * Returns a message on one line and without control characters: all characters but printable ASCII are escaped.
     *
     * @param message the message of an error; null if it has none
     * @return the text for a log line
     */
    public static String line(@Nullable String message) {
        StringBuilder line = new StringBuilder();
        String.valueOf(message).chars().forEach(c -> append(line, (char) c));
        return line.toString();
    }

    /**
     * Returns the value in quotation marks, escaped, and cut after a number of characters.
     *
     * @param value the value
     * @param longest the number of characters
     * @return the text for a message
     */
    public static String quote(String value, int longest) {
        StringBuilder quoted = new StringBuilder(Math.min(value.length(), longest) + 16).append('"');
        for (int i = 0; i < value.length() && i < longest; i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else {
                append(quoted, c);
            }
        }
        if (value.length() > longest) {
            quoted.append("…\" (").append(value.length()).append(" characters)");
        } else {
            quoted.append('"');
        }
        return quoted.toString();
    }

    private static void append(StringBuilder text, char c) {
        if (c >= ' ' && c < 0x7f) {
            text.append(c);
        } else {
            text.append(String.format("\\u%04x", (int) c));
        }
    }
}
