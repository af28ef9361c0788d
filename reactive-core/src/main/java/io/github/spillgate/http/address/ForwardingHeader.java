package io.github.spillgate.http.address;

import io.github.spillgate.internal.syntax.HttpTokens;
import org.jspecify.annotations.Nullable;

/**
 * A header in which each proxy appends, on the right, the address from which it received the request.
 *
 * <p>It is read from right to left. The rightmost element was written by the nearest proxy and is well-formed; elements
 * further left may come from a client. Malformed input on the left, such as a quote without an end, therefore neither
 * affects how the right end is read nor costs time.
 */
enum ForwardingHeader {
    /** The de facto standard: addresses, with or without a port. */
    X_FORWARDED_FOR("X-Forwarded-For") {
        @Override
        int startOfElement(String line, int end) {
            int start = end;
            while (start > 0 && line.charAt(start - 1) != ',') {
                start--;
                if (end - start > LONGEST_ELEMENT) {
                    return MALFORMED;
                }
            }
            return start;
        }

        @Override
        @Nullable
        IpAddress address(String element) {
            int colon = element.indexOf(':');
            boolean bareV6 = colon >= 0 && element.charAt(0) != '[' && element.indexOf(':', colon + 1) >= 0;
            return bareV6 ? IpAddress.parse(element) : node(element, false);
        }
    },

    /**
     * RFC 7239: parameters, of which {@code for} names the sender. Space around a semicolon is not in the RFC, but
     * common, so it is skipped.
     */
    FORWARDED("Forwarded") {
        @Override
        int startOfElement(String line, int end) {
            int start = end;
            boolean quoted = false;
            while (start > 0) {
                char c = line.charAt(start - 1);
                if (c == ',' && !quoted) {
                    break;
                }
                // An opening quote follows an equals sign, so within quotes a quote after a backslash is escaped.
                boolean escaped = quoted && start > 1 && line.charAt(start - 2) == '\\';
                if (c == '"' && !escaped) {
                    quoted = !quoted;
                }
                start--;
                if (end - start > LONGEST_ELEMENT) {
                    return MALFORMED;
                }
            }
            return quoted ? MALFORMED : start;
        }

        @Override
        @Nullable
        IpAddress address(String element) {
            String node = null;
            int i = 0;
            while (true) {
                i = skipSpace(element, i);
                int name = i;
                i = skipToken(element, i);
                if (i > name) {
                    int nameEnd = i;
                    if (i == element.length() || element.charAt(i) != '=') {
                        return null;
                    }
                    int value = i + 1;
                    i = skipValue(element, value);
                    if (i == MALFORMED) {
                        return null;
                    }
                    if (nameEnd - name == FOR.length() && element.regionMatches(true, name, FOR, 0, FOR.length())) {
                        if (node != null) {
                            return null;
                        }
                        node = unquoted(element.substring(value, i));
                    }
                }
                i = skipSpace(element, i);
                if (i == element.length()) {
                    return node == null ? null : node(node, true);
                }
                if (element.charAt(i) != ';') {
                    return null;
                }
                i++;
            }
        }
    };

    static final int MALFORMED = -1;

    /** Longer than any element of a proxy. It bounds the work for elements that a client has written. */
    static final int LONGEST_ELEMENT = 1_024;

    private static final String FOR = "for";
    private static final int MOST_PORT_DIGITS = 5;
    private static final int MOST_PORT = 65_535;

    private final String headerName;

    ForwardingHeader(String headerName) {
        this.headerName = headerName;
    }

    String headerName() {
        return headerName;
    }

    /**
     * Returns the start of the element that ends before {@code end}, which is the start of the line or follows a comma;
     * {@link #MALFORMED} if it cannot be determined.
     */
    abstract int startOfElement(String line, int end);

    /** Returns the address in the element; null if it is malformed or has none. */
    abstract @Nullable IpAddress address(String element);

    static boolean isSpace(char c) {
        return c == ' ' || c == '\t';
    }

    private static int skipSpace(String text, int from) {
        int i = from;
        while (i < text.length() && isSpace(text.charAt(i))) {
            i++;
        }
        return i;
    }

    private static int skipToken(String text, int from) {
        int i = from;
        while (i < text.length() && HttpTokens.isTokenCharacter(text.charAt(i))) {
            i++;
        }
        return i;
    }

    /** Returns the end of the token or quoted string that starts here; {@link #MALFORMED} if there is none. */
    private static int skipValue(String text, int from) {
        if (from == text.length() || text.charAt(from) != '"') {
            int end = skipToken(text, from);
            return end == from ? MALFORMED : end;
        }
        for (int i = from + 1; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"') {
                return i + 1;
            }
            if (c == '\\') {
                i++;
                c = i == text.length() ? 0 : text.charAt(i);
            }
            if (c != '\t' && (c < ' ' || c == 0x7f || c > 0xff)) {
                return MALFORMED;
            }
        }
        return MALFORMED;
    }

    private static String unquoted(String value) {
        if (value.charAt(0) != '"') {
            return value;
        }
        StringBuilder unquoted = new StringBuilder(value.length());
        for (int i = 1; i < value.length() - 1; i++) {
            if (value.charAt(i) == '\\') {
                i++;
            }
            unquoted.append(value.charAt(i));
        }
        return unquoted.toString();
    }

    /** Parses {@code 192.0.2.1} or {@code [2001:db8::1]}, with an optional port. */
    private static @Nullable IpAddress node(String node, boolean obfuscatedPorts) {
        int end = node.startsWith("[") ? node.indexOf(']') + 1 : node.indexOf(':');
        if (end < 0) {
            return IpAddress.parse(node);
        }
        if (end < node.length() && !isPort(node, end, obfuscatedPorts)) {
            return null;
        }
        if (node.charAt(0) != '[') {
            return IpAddress.parse(node.substring(0, end));
        }
        String inside = node.substring(1, Math.max(1, end - 1));
        return inside.indexOf(':') < 0 ? null : IpAddress.parse(inside);
    }

    private static boolean isPort(String node, int colon, boolean obfuscated) {
        if (node.charAt(colon) != ':' || colon + 1 == node.length()) {
            return false;
        }
        if (obfuscated && node.charAt(colon + 1) == '_') {
            return isObfuscated(node, colon + 2);
        }
        if (node.length() - colon - 1 > MOST_PORT_DIGITS) {
            return false;
        }
        int port = 0;
        for (int i = colon + 1; i < node.length(); i++) {
            if (!HttpTokens.isDigit(node.charAt(i))) {
                return false;
            }
            port = 10 * port + node.charAt(i) - '0';
        }
        return port <= MOST_PORT;
    }

    private static boolean isObfuscated(String node, int from) {
        for (int i = from; i < node.length(); i++) {
            char c = node.charAt(i);
            if (!HttpTokens.isLetterOrDigit(c) && c != '.' && c != '_' && c != '-') {
                return false;
            }
        }
        return from < node.length();
    }
}
