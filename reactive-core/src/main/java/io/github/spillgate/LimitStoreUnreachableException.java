package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The failure to reach a store, for example because no server listens at its address or because it rejects this user.
 * Nothing was charged or refunded.
 */
public class LimitStoreUnreachableException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreUnreachableException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    @Override
    public Kind kind() {
        return Kind.UNREACHABLE;
    }
}
