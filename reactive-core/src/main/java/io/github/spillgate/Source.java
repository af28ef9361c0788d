package io.github.spillgate;

/** The place where a {@link Decision} was made. */
public enum Source {
    /** In Redis, by its clock. */
    REDIS,

    /** In PostgreSQL, by its clock. */
    POSTGRES,

    /** In this process, by the local store. */
    LOCAL,

    /**
     * In this process, from a cached denial: the store has recently denied a request for as many permits or fewer, and
     * has reported a wait that is not over. The decision shows the usages that are known, as of that denial. Its {@link
     * Decision#retryAfter()} is the shortest wait that may be enough; for the request that the store denied, it is the
     * rest of the reported wait.
     */
    CACHED_DENIAL,

    /** In this process, with permits of a {@linkplain Limit#leased() leased} limit that it charged in advance. */
    LEASE,

    /**
     * In the limiter, without asking a store: the cost is above a limit, the wait would be too long, or a setting for
     * failed lookups applies.
     */
    LIMITER,

    /** By a fallback that does not count: while the store does not answer, it allows or denies all requests. */
    FALLBACK,

    /** In a custom store. */
    OTHER
}
