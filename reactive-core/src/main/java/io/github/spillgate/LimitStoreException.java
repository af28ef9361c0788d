package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * A store could not decide. The subclasses say whether another try can help: {@link LimitStoreUnavailableException} and
 * {@link ForeignValueException}.
 */
public class LimitStoreException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Says what went wrong.
     *
     * @param message what was tried, and what stood in the way
     * @param cause what the store's client said, if it said anything
     */
    public LimitStoreException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
