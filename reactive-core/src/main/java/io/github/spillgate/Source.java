package io.github.spillgate;

/** Where a {@link Decision} was made. */
public enum Source {
    /** In Redis, on its clock. */
    REDIS,

    /** In this process, by the local store. */
    LOCAL,

    /** In the limiter itself, which asked no store: more was asked for than a limit ever holds. */
    LIMITER,

    /** In a store of the user's own. */
    OTHER
}
