package io.github.spillgate.failover;

import io.github.spillgate.local.CountTables;

/** Looks into local fallbacks, for tests in other packages. */
public final class LocalFallbacks {

    private LocalFallbacks() {}

    /** Returns how many counts a fallback holds. */
    public static int counts(LocalFallback fallback) {
        return CountTables.unprotected(fallback.ledgers()).size() + CountTables.protectedCounts(fallback.ledgers());
    }
}
