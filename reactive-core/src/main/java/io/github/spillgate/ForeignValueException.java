package io.github.spillgate;

import org.jspecify.annotations.Nullable;

/**
 * A foreign value in place of a count: the store has a value under the name of the count that this library did not
 * write. The value is unchanged, and nothing was charged. A retry fails until the value is removed.
 */
public class ForeignValueException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message the name of the key, and the expected value
     * @param cause the error that the store's client reported, if any
     */
    public ForeignValueException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    @Override
    public Kind kind() {
        return Kind.FOREIGN_VALUE;
    }
}
