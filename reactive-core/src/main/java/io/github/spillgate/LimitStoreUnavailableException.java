package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The failure of a store that cannot be reached or cannot answer now; a later retry may succeed. Only a request that
 * ends with the subclass {@link LimitStoreUnansweredException} may have been executed.
 */
public class LimitStoreUnavailableException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreUnavailableException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
