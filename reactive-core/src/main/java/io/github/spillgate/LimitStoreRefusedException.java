package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * The store answers, and refuses this operation to this user, for example for want of a right. Other operations may be allowed, so a
 * refused refund or reset is no outage: its caller gets this exception, and decisions go on. An operation on several counts may be
 * refused when some of them are changed.
 */
public class LimitStoreRefusedException extends LimitStoreUnreachableException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was refused, and what would be needed
     * @param cause what the store's client reported, if anything
     */
    public LimitStoreRefusedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
