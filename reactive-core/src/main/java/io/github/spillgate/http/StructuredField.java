package io.github.spillgate.http;

/** A writer of the parts of structured fields (RFC 9651) that rate limit header fields need. */
final class StructuredField {

    /** The largest Integer of a structured field: 15 digits. */
    static final long MOST_INTEGER = 999_999_999_999_999L;

    private StructuredField() {}

    /** Appends a String. Only printable ASCII is valid, so other characters become question marks. */
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

    /** Appends an Integer parameter, cut to the valid range from 0. */
    static void appendParameter(StringBuilder field, String name, long value) {
        field.append(';').append(name).append('=').append(Math.max(0, Math.min(value, MOST_INTEGER)));
    }
}
