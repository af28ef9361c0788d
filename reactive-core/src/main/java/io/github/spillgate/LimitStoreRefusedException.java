package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The refusal of an operation: the store answers, but does not allow this operation to this user, for example because a
 * permission is missing. A retry fails until that is granted. If an operation on several counts is refused, some of
 * them may already be changed. Other operations may be allowed, so a refused refund or reset is no outage: its caller
 * gets this exception, and decisions continue.
 */
public class LimitStoreRefusedException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was refused, and which permission is needed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreRefusedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    @Override
    public Kind kind() {
        return Kind.REFUSED;
    }
}
