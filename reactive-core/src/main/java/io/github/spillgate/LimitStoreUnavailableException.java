package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The store is out of reach, or not able to answer now; the same question may be answered later. Unless it is a
 * {@link LimitStoreUnansweredException}, nothing was charged and nothing given back.
 */
public class LimitStoreUnavailableException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Says what went wrong.
     *
     * @param message what was tried, and what stood in the way
     * @param cause what the store's client said, if it said anything
     */
    public LimitStoreUnavailableException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
