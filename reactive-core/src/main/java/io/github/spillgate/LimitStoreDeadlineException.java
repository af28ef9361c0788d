package io.github.spillgate;

/**
 * The refusal of a request that did not reach the store by its deadline: it arrived later, or was still queued at the
 * deadline and was not sent. The request was not executed.
 */
public class LimitStoreDeadlineException extends LimitStoreException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     */
    public LimitStoreDeadlineException(String message) {
        super(message, null);
    }

    @Override
    public Kind kind() {
        return Kind.LATE;
    }
}
