package io.github.spillgate.http;

/** Writes the parts of structured fields, as RFC 9651 has them, that we need. */
final class StructuredField {

    /** What an Integer holds: fifteen digits. */
    static final long MOST_INTEGER = 999_999_999_999_999L;

    private StructuredField() {}

    /**
     * Writes a String. It holds printable ASCII alone; what is none becomes a question mark, so that the field stays
     * one.
     */
    static void appendString(StringBuilder field, String value) {
        field.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                field.append('\\');
            }
            field.append(c >= ' ' && c <= '~' ? c : '?');
        }
        field.append('"');
    }

    /** Writes an Integer that is not negative, or the nearest that there is. */
    static void appendParameter(StringBuilder field, String name, long value) {
        field.append(';').append(name).append('=').append(Math.max(0, Math.min(value, MOST_INTEGER)));
    }
}
