package io.github.spillgate.http;

/** What HTTP calls a token: methods are, and names of header fields. */
final class Tokens {

    private static final String OTHERS = "!#$%&'*+-.^_`|~";

    private Tokens() {}

    static boolean is(String text) {
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
