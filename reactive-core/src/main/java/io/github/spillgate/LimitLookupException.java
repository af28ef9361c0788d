package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** The limits of a key could not be looked up, and the {@link LimitLookup} was told to fail then. */
public class LimitLookupException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Says what went wrong.
     *
     * @param message what happened
     * @param cause what the lookup has failed with, if it has failed
     */
    public LimitLookupException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
