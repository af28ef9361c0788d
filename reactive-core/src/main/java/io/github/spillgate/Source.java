package io.github.spillgate;

/** Where a {@link Decision} was made. */
public enum Source {
    /** In Redis, on its clock. */
    REDIS,

    /** In this process, by the local store. */
    LOCAL,

    /**
     * In the limiter itself, which asked no store: more was asked for than a limit ever holds, the wait would have been too
     * long, or it is a setting for limits that could not be looked up.
     */
    LIMITER,

    /** By a setting, for the time when the store does not answer: everything is allowed then, or denied. */
    FALLBACK,

    /** In a store of the user's own. */
    OTHER
}
