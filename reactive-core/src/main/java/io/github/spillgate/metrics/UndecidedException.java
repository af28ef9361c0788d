package io.github.spillgate.metrics;

/** Says in a trace that nothing could be decided: without the words, the cause and the stack of what went wrong. */
final class UndecidedException extends RuntimeException {

    private static final long serialVersionUID = 1;

    UndecidedException(String message) {
        super(message, null, false, false);
    }
}
