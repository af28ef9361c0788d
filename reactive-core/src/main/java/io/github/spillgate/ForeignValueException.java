package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * Under the name of a count lies something that is none of ours. It has not been touched, nothing has been charged, and no
 * further try helps until somebody has taken it away.
 */
public class ForeignValueException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Says where the foreign value lies.
     *
     * @param message the name it lies under, and what was expected there
     * @param cause what the store's client said, if it said anything
     */
    public ForeignValueException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
