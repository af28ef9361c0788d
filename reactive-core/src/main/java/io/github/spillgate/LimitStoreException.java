package io.github.spillgate;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** The failure of a store. Its {@link #kind()} says what that means for the request, and for later ones. */
public class LimitStoreException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /** What the failure means. */
    private final Kind kind;

    /**
     * Creates the exception without a cause.
     *
     * @param kind what the failure means
     * @param message what was attempted, and what failed
     */
    public LimitStoreException(Kind kind, String message) {
        this(kind, message, null);
    }

    /**
     * Creates the exception.
     *
     * @param kind what the failure means
     * @param message what was attempted, and what failed
     * @param cause the error that the store's client reported, if any
     */
    public LimitStoreException(Kind kind, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** {@return what the failure means} */
    public Kind kind() {
        return kind;
    }

    /** The kinds of failures. */
    public enum Kind {
        /** The store cannot answer now; a later retry may succeed. The request was not executed. */
        UNAVAILABLE(Trait.OUTAGE),

        /**
         * The store was not reached, for example because no server listens at its address or because it rejects this
         * user. The request was not executed.
         */
        UNREACHABLE(Trait.OUTAGE, Trait.LASTING),

        /** The store did not answer a request that was sent to it. It was executed once, or not at all. */
        UNANSWERED(Trait.OUTAGE, Trait.EXECUTED, Trait.UNEXPLAINED),

        /**
         * The request did not reach the store by its deadline: it arrived later, or was still queued and was not sent.
         * It was not executed.
         */
        LATE(Trait.OUTAGE, Trait.UNEXPLAINED),

        /**
         * The store answers, but does not allow this operation to this user, for example because a permission is
         * missing. A retry fails until that is granted. If an operation on several counts is refused, some of them may
         * already be changed. Other operations may be allowed, so a refused refund or reset is no outage: its caller
         * gets this error, and decisions continue.
         */
        REFUSED(Trait.EXECUTED, Trait.LASTING),

        /**
         * Under the name of a count, the store has a value that this library did not write. It is unchanged, and
         * nothing was charged. A retry fails until the value is removed.
         */
        FOREIGN_VALUE(Trait.EXECUTED, Trait.FINAL),

        /** The store cannot execute such a request. */
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

        /**
         * Returns whether an error is of this kind: {@code onErrorResume(Kind.UNREACHABLE::isOf, …)}.
         *
         * @param error any error
         * @return whether it is of this kind
         */
        public boolean isOf(Throwable error) {
            return of(error) == this;
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
