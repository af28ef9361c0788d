package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** A question has left for the store, and no answer has come back: what it asked for may have been done, once, or not at all. */
public class LimitStoreUnansweredException extends LimitStoreUnavailableException {

    private static final long serialVersionUID = 1L;

    /**
     * Says what went wrong.
     *
     * @param message what was tried, and what stood in the way
     * @param cause what the store's client said, if it said anything
     */
    public LimitStoreUnansweredException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
