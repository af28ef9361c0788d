package io.github.spillgate.metrics;

/** The error in a trace if no decision could be made; without the message, cause and stack trace of the original. */
final class UndecidedException extends RuntimeException {

    private static final long serialVersionUID = 1;

    UndecidedException(String message) {
        super(message, null, false, false);
    }
}
