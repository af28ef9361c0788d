package io.github.spillgate;

/** Where a {@link Decision} was made. */
public enum Source {
    /** In Redis, on its clock. */
    REDIS,

    /** In this process, by the local store. */
    LOCAL,

    /**
     * In this process, because the store has just denied as much or less, and has said for how long. The decision tells of those
     * counts of which something is known, as they were then; its {@link Decision#retryAfter()} is the shortest wait that may be
     * enough, and for what was denied by the store it is that wait.
     */
    CACHED_DENIAL,

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
