package io.github.spillgate;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The answer to a {@link Charge}: whether it is allowed, the usage of its limits, and the time to wait before a retry.
 *
 * <p>All times are times of the clock of the store that decided.
 */
public final class Decision {

    private static final AtomicIntegerFieldUpdater<Decision> REDEEMED =
            AtomicIntegerFieldUpdater.newUpdater(Decision.class, "redeemed");

    private static final long NEVER = Long.MAX_VALUE;
    private static final long NO_STAMP = 0;

    private final Source source;
    private final long at;
    private final long stamp;
    private final boolean allowed;
    private final boolean charged;
    private final long fitsAt;
    private final List<Usage> limits;
    private final List<Limit> violated;

    /** The decisions of several servers, each by its own clock; empty if one server decided everything. */
    private final List<Decision> parts;

    private volatile int redeemed;

    private Decision(
            Source source,
            long at,
            long stamp,
            boolean allowed,
            boolean charged,
            long fitsAt,
            List<Usage> limits,
            List<Limit> violated,
            List<Decision> parts) {
        this.source = source;
        this.at = at;
        this.stamp = stamp;
        this.allowed = allowed;
        this.charged = charged;
        this.fitsAt = fitsAt;
        this.limits = limits;
        this.violated = violated;
        this.parts = parts;
    }

    private Decision(
            Source source,
            long at,
            boolean allowed,
            boolean charged,
            long fitsAt,
            List<Usage> limits,
            List<Limit> violated) {
        this(source, at, NO_STAMP, allowed, charged, fitsAt, limits, violated, List.of());
    }

    /**
     * Returns a decision that a store has made. It is allowed if no usage is violated. For store implementations.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param limits the usage of each claim after the decision
     * @return the decision
     */
    public static Decision ofTake(Source source, long at, List<Usage> limits) {
        return ofTake(source, at, NO_STAMP, limits);
    }

    /**
     * Returns a decision like {@link #ofTake(Source, long, List)}, with a stamp that distinguishes it from a reset at
     * the same time. For store implementations.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param stamp the stamp, which {@link #stamp()} returns to the store
     * @param limits the usage of each claim after the decision
     * @return the decision
     */
    public static Decision ofTake(Source source, long at, long stamp, List<Usage> limits) {
        return ofStore(source, at, stamp, asksForAny(limits), limits);
    }

    /**
     * Returns a decision that a store would make. It is allowed if no usage is violated; nothing was charged. For store
     * implementations.
     *
     * @param source the place where it was made
     * @param at the time of the decision, in milliseconds of the store's clock
     * @param limits the usage of each claim
     * @return the decision
     */
    public static Decision ofPeek(Source source, long at, List<Usage> limits) {
        return ofStore(source, at, NO_STAMP, false, limits);
    }

    /**
     * Combines the decisions of several servers, each made independently and by the server's own clock. The result is
     * allowed if all of them are. If one server denied, the store refunds what the others took, and the result shows it
     * as refunded. Limits that {@linkplain Limit#isCountingDenied() count denied} requests are not refunded. For store
     * implementations.
     *
     * @param claims the claims that were decided
     * @param parts the decisions of the servers, at least one, no two with the same claim
     * @return the decision, with a usage for each claim that a part has, in the order of the claims; its times are
     *     those of the parts, converted to one clock
     */
    public static Decision ofParts(List<Claim> claims, List<Decision> parts) {
        boolean allowed = parts.stream().allMatch(Decision::isAllowed);
        boolean charged = allowed && parts.stream().anyMatch(Decision::isCharged);
        long at = parts.stream().mapToLong(part -> part.at).max().orElseThrow();
        long fitsAt = at;
        Map<Object, Usage> known = new HashMap<>();
        for (Decision part : parts) {
            for (Usage usage : part.limits) {
                Usage shown = usage.later(at - part.at, !allowed && part.charged);
                known.put(usage.claim.handle(), shown);
                fitsAt = Math.max(fitsAt, shown.fitsAtMillis);
            }
        }
        List<Usage> limits = claims.stream()
                .map(claim -> known.get(claim.handle()))
                .filter(Objects::nonNull)
                .toList();
        Source source = parts.get(0).source;
        return new Decision(
                source,
                at,
                NO_STAMP,
                allowed,
                charged,
                fitsAt,
                limits,
                violatedIn(limits),
                allowed
                        ? List.copyOf(parts)
                        : parts.stream().map(Decision::refunded).toList());
    }

    /** Returns this decision as it is after a refund. */
    private Decision refunded() {
        List<Usage> left = limits.stream().map(usage -> usage.later(0, charged)).toList();
        return new Decision(source, at, stamp, allowed, false, fitsAt, left, violated, List.of());
    }

    /**
     * Returns a decision that a setting makes while no store can be asked. For store implementations.
     *
     * @param allowed whether the setting allows
     * @param at the time of the decision, in milliseconds of the clock of the store that applies the setting
     * @param askAgainAt after a denial, the time at which a retry may be useful
     * @return the decision; nothing was charged
     */
    public static Decision ofSetting(boolean allowed, long at, long askAgainAt) {
        return new Decision(Source.FALLBACK, at, allowed, false, allowed ? at : askAgainAt, List.of(), List.of());
    }

    private static Decision ofStore(Source source, long at, long stamp, boolean takes, List<Usage> limits) {
        List<Limit> violated = violatedIn(limits);
        boolean allowed = violated.isEmpty();
        long fitsAt = at;
        for (int i = 0; i < limits.size(); i++) {
            fitsAt = Math.max(fitsAt, limits.get(i).fitsAtMillis);
        }
        return new Decision(
                source, at, stamp, allowed, allowed && takes, fitsAt, List.copyOf(limits), violated, List.of());
    }

    /** A denial without asking a store: these limits are smaller than the cost. */
    static Decision neverFits(long at, List<Limit> tooSmall) {
        return new Decision(Source.LIMITER, at, false, false, NEVER, List.of(), List.copyOf(tooSmall));
    }

    /** A decision that allows because no limit applies. */
    static Decision unlimited(long at) {
        return new Decision(Source.LIMITER, at, true, false, at, List.of(), List.of());
    }

    /** A denial by a setting, because no limits were found. */
    static Decision refused(long at) {
        return new Decision(Source.LIMITER, at, false, false, NEVER, List.of(), List.of());
    }

    /**
     * A denial of a caller that would have to wait too long, or that finds the queue full.
     *
     * @param at the time, in milliseconds of the clock of {@code before}, or of the limiter's clock if there is none
     * @param fitsAt the time before which the caller cannot be served
     * @param claims the claims of the caller
     * @param before the last reply of the store about the same counts, if there is one
     */
    static Decision mustWait(long at, long fitsAt, List<Claim> claims, @Nullable Decision before) {
        if (before == null || before.limits.size() != claims.size()) {
            return new Decision(Source.LIMITER, at, false, false, fitsAt, List.of(), List.of());
        }
        List<Usage> usages = new ArrayList<>(claims.size());
        for (int i = 0; i < claims.size(); i++) {
            Claim claim = claims.get(i);
            Usage then = before.limits.get(i);
            boolean violated = then.used + claim.permits() > claim.limit().permits();
            usages.add(new Usage(claim, then.used, violated, fitsAt, then.wholeAtMillis));
        }
        return new Decision(Source.LIMITER, at, false, false, fitsAt, List.copyOf(usages), violatedIn(usages));
    }

    private static boolean asksForAny(List<Usage> limits) {
        for (int i = 0; i < limits.size(); i++) {
            if (limits.get(i).claim.permits() > 0) {
                return true;
            }
        }
        return false;
    }

    private static List<Limit> violatedIn(List<Usage> limits) {
        List<Limit> violated = List.of();
        for (int i = 0; i < limits.size(); i++) {
            Usage usage = limits.get(i);
            if (usage.isViolated()) {
                violated = violated.isEmpty() ? new ArrayList<>(limits.size()) : violated;
                violated.add(usage.limit());
            }
        }
        return violated.isEmpty() ? violated : List.copyOf(violated);
    }

    /**
     * Returns whether the permits were granted; after a peek, whether they would be granted.
     *
     * @return true if all limits allow it
     */
    public boolean isAllowed() {
        return allowed;
    }

    /**
     * Returns whether this decision took permits, which can be refunded.
     *
     * @return true if it is allowed, costs at least one permit and is not a peek
     */
    public boolean isCharged() {
        return charged;
    }

    /**
     * Returns the time until the same charge fits if no other request takes permits. An earlier retry is denied.
     *
     * @return the wait; empty if the charge is allowed or no wait helps, because the cost is above a limit or the
     *     limits could not be looked up
     */
    public Optional<Duration> retryAfter() {
        return allowed || fitsAt == NEVER ? Optional.empty() : Optional.of(Duration.ofMillis(fitsAt - at));
    }

    /**
     * Returns the number of further permits that all limits would grant now.
     *
     * @return the smallest remaining number of all usages; without usages, 0 after a denial and {@link Long#MAX_VALUE}
     *     otherwise
     */
    public long remaining() {
        long remaining = allowed || !limits.isEmpty() ? Long.MAX_VALUE : 0;
        for (Usage usage : limits) {
            remaining = Math.min(remaining, usage.remaining());
        }
        return remaining;
    }

    /**
     * Returns the usage of the limits after the decision.
     *
     * @return a usage for each limit of each key, in the order of the charges; a {@linkplain Source#CACHED_DENIAL
     *     cached denial} may omit some; empty if the decision is not based on a store's reply
     */
    public List<Usage> limits() {
        return limits;
    }

    /**
     * Returns the limits that denied.
     *
     * @return the violated limits; empty if the decision is allowed
     */
    public List<Limit> violated() {
        return violated;
    }

    /**
     * Returns the time of the decision.
     *
     * @return the time, by the clock of the store that decided
     */
    public Instant at() {
        return Instant.ofEpochMilli(at);
    }

    /**
     * Returns the stamp with which the store distinguishes this decision from a reset at the same time. For
     * store implementations.
     *
     * @return the stamp; 0 if there is none
     */
    public long stamp() {
        return stamp;
    }

    /**
     * Returns the place where the decision was made.
     *
     * @return the source
     */
    public Source source() {
        return source;
    }

    /**
     * Returns the decisions of the individual servers, each by its own clock, with the usage that the server reported
     * and the permits to refund to it. For store implementations.
     *
     * @return the decisions that were combined, without permits that are already refunded; this decision alone if
     *     nothing was combined
     */
    public List<Decision> parts() {
        return parts.isEmpty() ? List.of(this) : parts;
    }

    /** Returns the claims of all usages, in their order. */
    List<Claim> claims() {
        return limits.stream().map(Usage::claim).toList();
    }

    /** Returns a decision with the selected usages only, so that they can be refunded separately. */
    Decision only(Predicate<? super Usage> wanted) {
        List<Usage> some = limits.stream().filter(wanted).toList();
        List<Decision> someParts = parts.stream()
                .map(part -> part.only(wanted))
                .filter(part -> !part.limits.isEmpty())
                .toList();
        return new Decision(source, at, stamp, allowed, charged, fitsAt, some, violated, someParts);
    }

    /** Returns true to one caller only, so that a decision is refunded at most once. */
    boolean redeem() {
        return charged && redeemed == 0 && REDEEMED.compareAndSet(this, 0, 1);
    }

    /** Returns the decision for a log, without keys. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Decision[").append(allowed ? "allowed" : "denied");
        text.append(", source=").append(source).append(", at=").append(at());
        retryAfter().ifPresent(wait -> text.append(", retryAfter=").append(wait));
        if (!violated.isEmpty()) {
            text.append(", violated=").append(violated);
        }
        return text.append(", limits=").append(limits).append(']').toString();
    }

    /** The usage of one limit by one key, as of a {@link Decision}. */
    public static final class Usage {

        private final Claim claim;
        private final long used;
        private final boolean violated;
        private final long fitsAtMillis;
        private final long wholeAtMillis;

        private Usage(Claim claim, long used, boolean violated, long fitsAtMillis, long wholeAtMillis) {
            this.claim = claim;
            this.used = used;
            this.violated = violated;
            this.fitsAtMillis = fitsAtMillis;
            this.wholeAtMillis = wholeAtMillis;
        }

        /**
         * Returns the usage after a decision. For store implementations.
         *
         * @param claim the claim that was decided
         * @param used the used permits after the decision
         * @param violated whether the claim did not fit
         * @param fitsAtMillis the time at which the claim fits, in milliseconds of the store's clock; used only if the
         *     decision is a denial
         * @param wholeAtMillis the time at which no permit counts as used, in milliseconds of the store's clock
         * @return the usage
         */
        public static Usage of(Claim claim, long used, boolean violated, long fitsAtMillis, long wholeAtMillis) {
            return new Usage(claim, used, violated, fitsAtMillis, wholeAtMillis);
        }

        /**
         * Returns the usage of a counter after a decision. For store implementations.
         *
         * @param claim the claim that was decided
         * @param state the counter after the decision, in the current window
         * @param violated whether the claim did not fit
         * @param denied whether the decision is a denial, because of this claim or another one
         * @param now the time of the decision, in milliseconds of the store's clock
         * @return the usage
         */
        public static Usage ofCounter(Claim claim, CounterState state, boolean violated, boolean denied, long now) {
            Limit limit = claim.limit();
            long fitsAt = denied ? state.fitsAt(limit, claim.permits(), now) : now;
            return new Usage(claim, state.used(limit, now), violated, fitsAt, state.wholeAt(limit, now));
        }

        /** Returns this usage by a clock that is ahead by {@code millis}, with or without a refund. */
        private Usage later(long millis, boolean refunded) {
            long left = refunded && !claim.limit().isCountingDenied() ? Math.max(0, used - claim.permits()) : used;
            return new Usage(claim, left, violated, fitsAtMillis + millis, wholeAtMillis + millis);
        }

        /**
         * Returns the key that is charged.
         *
         * @return the key as the caller passed it, not encoded
         */
        public String key() {
            return claim.key();
        }

        /**
         * Returns the limit.
         *
         * @return the limit
         */
        public Limit limit() {
            return claim.limit();
        }

        /**
         * Returns the claim on the limit. For store implementations.
         *
         * @return the claim
         */
        public Claim claim() {
            return claim;
        }

        /**
         * Returns the number of used permits.
         *
         * @return the permits; more than the limit's permits, for example, if those were lowered
         */
        public long used() {
            return used;
        }

        /**
         * Returns the number of further permits that the limit would grant now.
         *
         * @return the permits, never negative
         */
        public long remaining() {
            return Math.max(0, claim.limit().permits() - used);
        }

        /**
         * Returns whether this limit denied.
         *
         * @return true if the claim did not fit
         */
        public boolean isViolated() {
            return violated;
        }

        /**
         * Returns the time at which the claim fits this limit if no other request takes permits.
         *
         * @return the time, after a denial; otherwise the time of the decision
         */
        public Instant fitsAt() {
            return Instant.ofEpochMilli(fitsAtMillis);
        }

        /**
         * Returns the time at which all permits are available again if no request takes permits.
         *
         * @return the time from which no permit counts as used
         */
        public Instant wholeAt() {
            return Instant.ofEpochMilli(wholeAtMillis);
        }

        /** Returns the usage for a log, without the key. */
        @Override
        public String toString() {
            return "Usage[" + claim.limit() + ", used=" + used + ", wholeAt=" + wholeAt() + "]";
        }
    }
}
