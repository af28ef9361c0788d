package io.github.spillgate.spi;

/** What {@link LimitStore#hold} does with permits of concurrency limits. Both are idempotent. */
public enum HoldAction {
    /**
     * Holds the permits for another hold time. If the store does not know them, they are held again, even above the
     * limit. Each claim has at least one permit.
     */
    RENEW,

    /** Releases the permits. If a claim that took them arrives later than this, it takes nothing. */
    RELEASE
}
