package io.github.spillgate.http;

/** The syntax of tokens in HTTP: methods, names of header fields and of parameters in them (RFC 9110). */
final class HttpTokens {

    private static final String OTHERS = "!#$%&'*+-.^_`|~";

    private HttpTokens() {}

    static boolean isToken(String text) {
        return !text.isEmpty() && text.chars().allMatch(c -> isTokenCharacter((char) c));
    }

    static boolean isTokenCharacter(char c) {
        return isLetterOrDigit(c) || OTHERS.indexOf(c) >= 0;
    }

    /** Returns whether a character is an ASCII letter or digit. */
    static boolean isLetterOrDigit(char c) {
        return IpAddress.isDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    }
}
