package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The failure of a store to decide. The subclasses show whether a retry can help: after a {@link
 * LimitStoreUnavailableException} it can, after a {@link LimitStoreRefusedException} or a {@link ForeignValueException}
 * only when the cause is removed.
 */
public class LimitStoreException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
