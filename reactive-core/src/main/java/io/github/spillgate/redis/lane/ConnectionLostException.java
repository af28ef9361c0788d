package io.github.spillgate.redis.lane;

import io.github.spillgate.internal.SharedFailure;
import io.lettuce.core.RedisException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The loss of a connection, as the cause of the failure of each of its commands and waiting decisions. */
final class ConnectionLostException extends RedisException implements SharedFailure {

    private static final long serialVersionUID = 1L;

    private final transient Set<Object> observers;

    /**
     * Creates the exception.
     *
     * @param cause what Lettuce reported for the command, if it was sent
     * @param observers those that know of the loss; the same for all failures by it
     */
    ConnectionLostException(String message, @Nullable Throwable cause, Set<Object> observers) {
        super(message, cause);
        this.observers = observers;
    }

    @Override
    public boolean isFirstFor(Object observer) {
        return observers.add(observer);
    }
}
