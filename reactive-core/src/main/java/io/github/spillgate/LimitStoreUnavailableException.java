package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** The failure of a store that cannot answer now; a later retry may succeed. The request was not executed. */
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

    @Override
    public Kind kind() {
        return Kind.UNAVAILABLE;
    }
}
