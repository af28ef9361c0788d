package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** A failed lookup of the limits of a key, if the {@link LimitLookup} is configured to fail. */
public class LimitLookupException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what happened
     * @param cause the error of the lookup, if there was one
     */
    public LimitLookupException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
