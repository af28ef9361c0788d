package io.github.spillgate.internal.syntax;

/** The syntax of tokens in HTTP: methods, names of header fields and of parameters in them (RFC 9110). */
public final class HttpTokens {

    private static final String OTHERS = "!#$%&'*+-.^_`|~";

    private HttpTokens() {}

    public static boolean isToken(String text) {
        return !text.isEmpty() && text.chars().allMatch(c -> isTokenCharacter((char) c));
    }

    public static boolean isTokenCharacter(char c) {
        return isLetterOrDigit(c) || OTHERS.indexOf(c) >= 0;
    }

    /** Returns whether a character is an ASCII digit. */
    public static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }

    /** Returns whether a character is an ASCII letter or digit. */
    public static boolean isLetterOrDigit(char c) {
        return isDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    }
}
