package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.internal.SharedFailure;

/** How much a failure says about the store. */
enum FailureKind {

    /** A reply is missing or a connection was lost, for an unknown reason. */
    SYMPTOM,

    /** The store could not decide, for example because Redis is out of memory, or denies this user the command. */
    REFUSAL,

    /** The store could not be reached, which also explains why it does not reply. */
    UNREACHABLE;

    static FailureKind of(Throwable error) {
        if (error instanceof LimitStoreUnreachableException) {
            return UNREACHABLE;
        }
        return error instanceof LimitStoreUnansweredException
                        || error instanceof LimitStoreDeadlineException
                        || error.getCause() instanceof SharedFailure
                ? SYMPTOM
                : REFUSAL;
    }
}
