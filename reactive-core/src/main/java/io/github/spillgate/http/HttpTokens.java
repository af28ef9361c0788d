package io.github.spillgate.http;

/** The syntax of tokens in HTTP: methods and names of header fields (RFC 9110). */
final class HttpTokens {

    private static final String OTHERS = "!#$%&'*+-.^_`|~";

    private HttpTokens() {}

    static boolean isToken(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            boolean isAlphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
            if (!isAlphanumeric && OTHERS.indexOf(c) < 0) {
                return false;
            }
        }
        return !text.isEmpty();
    }
}
