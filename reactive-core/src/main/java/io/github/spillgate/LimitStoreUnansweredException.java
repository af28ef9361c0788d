package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/** The failure of a store to answer a request that was sent to it. The request was executed once, or not at all. */
public class LimitStoreUnansweredException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreUnansweredException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    @Override
    public Kind kind() {
        return Kind.UNANSWERED;
    }
}
