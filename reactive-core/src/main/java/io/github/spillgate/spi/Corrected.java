package io.github.spillgate.spi;

import org.jspecify.annotations.Nullable;

/**
 * What a store has done with a {@link Correction}.
 *
 * @param outcome the outcome
 * @param usage the usage of the count afterwards; its cost is what a {@link Settlement} has certainly charged in
 *     addition now, and is ignored for other corrections. Null if the store does not report it, which it must for a
 *     {@link Reconciliation} of a rate limit
 */
public record Corrected(CorrectionOutcome outcome, @Nullable StoreUsage usage) {

    /** The outcome of a correction. */
    public enum CorrectionOutcome {
        /** The store has applied it now, as far as it still counts, or applies it later by itself. */
        APPLIED,

        /** It changed nothing: it was applied before, or no longer counts, or the count was reset since. */
        WITHOUT_EFFECT,

        /** The store cannot apply it now: another program has written the key of the count, or the deadline passed. */
        NOT_POSSIBLE,

        /** The store never applies corrections of this kind. */
        UNSUPPORTED
    }

    /**
     * {@return a result without a usage}
     *
     * @param outcome the outcome
     */
    public static Corrected of(CorrectionOutcome outcome) {
        return new Corrected(outcome, null);
    }
}
