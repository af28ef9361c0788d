package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** The store cannot be reached: nothing listens there, or it refuses this user. Nothing was charged and nothing given back. */
public class LimitStoreUnreachableException extends LimitStoreUnavailableException {

    private static final long serialVersionUID = 1L;

    /**
     * Says what went wrong.
     *
     * @param message what was tried, and what stood in the way
     * @param cause what the store's client said, if it said anything
     */
    public LimitStoreUnreachableException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
