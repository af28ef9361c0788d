package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * A failed lookup of the limits of a key: the {@link LimitLookup} is configured to fail, or {@code CachedLimits} did
 * not start the lookup or cancelled it.
 */
public class LimitLookupException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what happened
     * @param cause the error of the lookup, if there was one
     */
    public LimitLookupException(String message, @Nullable Throwable cause) {
        // Created for each such request, possibly for all: without a stack trace it is cheap.
        super(message, cause, false, false);
    }
}
