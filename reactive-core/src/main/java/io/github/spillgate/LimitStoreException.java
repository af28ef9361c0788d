package io.github.spillgate;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** The failure of a store. Its {@link #kind()} says what that means for the request, and for later ones. */
public class LimitStoreException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /** {@return what the failure means} */
    public Kind kind() {
        return Kind.REJECTED;
    }

    /** The kinds of failures, each with its exception. */
    public enum Kind {
        /** {@link LimitStoreUnavailableException}. */
        UNAVAILABLE(Trait.OUTAGE),

        /** {@link LimitStoreUnreachableException}. */
        UNREACHABLE(Trait.OUTAGE, Trait.LASTING),

        /** {@link LimitStoreUnansweredException}. */
        UNANSWERED(Trait.OUTAGE, Trait.EXECUTED, Trait.UNEXPLAINED),

        /** {@link LimitStoreDeadlineException}. */
        LATE(Trait.OUTAGE, Trait.UNEXPLAINED),

        /** {@link LimitStoreRefusedException}. */
        REFUSED(Trait.EXECUTED, Trait.LASTING),

        /** {@link ForeignValueException}. */
        FOREIGN_VALUE(Trait.EXECUTED, Trait.FINAL),

        /** Another {@link LimitStoreException}: the store cannot execute such a request. */
        REJECTED(Trait.EXECUTED, Trait.FINAL),

        /** An error of another type. */
        UNKNOWN(Trait.EXECUTED);

        private final boolean executed;
        private final boolean outage;
        private final boolean lasting;
        private final boolean last;
        private final boolean unexplained;

        Kind(Trait... traits) {
            List<Trait> all = List.of(traits);
            executed = all.contains(Trait.EXECUTED);
            outage = all.contains(Trait.OUTAGE);
            lasting = all.contains(Trait.LASTING);
            last = all.contains(Trait.FINAL);
            unexplained = all.contains(Trait.UNEXPLAINED);
        }

        /**
         * Returns the kind of an error.
         *
         * @param error any error
         * @return its kind
         */
        public static Kind of(Throwable error) {
            return error instanceof LimitStoreException ours ? ours.kind() : UNKNOWN;
        }

        /** {@return whether the store may have executed the request, or of several requests some} */
        public boolean mayBeExecuted() {
            return executed;
        }

        /** {@return whether the store can execute no request now, and a retry may succeed} */
        public boolean isOutage() {
            return outage;
        }

        /** {@return whether the next request fails as well, until a reason outside of the store is removed} */
        public boolean isLasting() {
            return lasting;
        }

        /** {@return whether this request fails each time that it is sent} */
        public boolean isFinal() {
            return last;
        }

        /** {@return whether the error is a symptom, such as a missing reply, that another error may explain} */
        public boolean isUnexplained() {
            return unexplained;
        }

        private enum Trait {
            EXECUTED,
            OUTAGE,
            LASTING,
            FINAL,
            UNEXPLAINED
        }
    }
}
