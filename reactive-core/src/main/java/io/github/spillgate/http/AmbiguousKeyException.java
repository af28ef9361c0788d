package io.github.spillgate.http;

/** A request has several different values where its key has one, and the rule denies it. */
final class AmbiguousKeyException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    AmbiguousKeyException() {
        // Without a stack trace: clients can cause it.
        super("the request has several different values of its key: expected one", null, false, false);
    }
}
