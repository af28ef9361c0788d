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
 * The answer to a {@link Charge}: allowed or not, what is left of every limit that was asked, and when to come back.
 *
 * <p>All times are of the clock of the store that decided.
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

    /** What each of several servers has decided, by its own clock; empty if one has decided on everything. */
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
     * A decision that a store has made; it is allowed if no usage is violated. For stores.
     *
     * @param source where it was made
     * @param at when, in milliseconds of the store's clock
     * @param limits a usage for each claim, as it is after the decision
     * @return the decision
     */
    public static Decision ofTake(Source source, long at, List<Usage> limits) {
        return ofTake(source, at, NO_STAMP, limits);
    }

    /**
     * A decision that a store has made, as {@link #ofTake(Source, long, List)}, that is to be told from a reset at the same time. For
     * stores.
     *
     * @param source where it was made
     * @param at when, in milliseconds of the store's clock
     * @param stamp what the store finds again in {@link #stamp()}
     * @param limits a usage for each claim, as it is after the decision
     * @return the decision
     */
    public static Decision ofTake(Source source, long at, long stamp, List<Usage> limits) {
        return ofStore(source, at, stamp, asksForAny(limits), limits);
    }

    /**
     * A decision that a store would make; it is allowed if no usage is violated, and nothing was charged. For stores.
     *
     * @param source where it was made
     * @param at when, in milliseconds of the store's clock
     * @param limits a usage for each claim
     * @return the decision
     */
    public static Decision ofPeek(Source source, long at, List<Usage> limits) {
        return ofStore(source, at, NO_STAMP, false, limits);
    }

    /**
     * One decision over what several servers have decided, each for itself and by its own clock. It is allowed if all of them are.
     * If one denied, the store gives back what the others have taken, and this tells of it as given back; but for limits that
     * {@linkplain Limit#isCountingDenied() count denied} requests, of which the store leaves it. For stores.
     *
     * @param claims what was asked
     * @param parts what each server has said, at least one, no two about the same claim
     * @return the decision, with a usage for each claim that a part tells of, in the order of the claims; its times are those of the
     *     parts, brought to one clock
     */
    public static Decision ofParts(List<Claim> claims, List<Decision> parts) {
        boolean allowed = parts.stream().allMatch(Decision::isAllowed);
        boolean charged = allowed && parts.stream().anyMatch(Decision::isCharged);
        long at = parts.stream().mapToLong(part -> part.at).max().orElseThrow();
        long fitsAt = at;
        Map<Object, Usage> known = new HashMap<>();
        for (Decision part : parts) {
            for (Usage usage : part.limits) {
                Usage told = usage.later(at - part.at, !allowed && part.charged);
                known.put(usage.claim.handle(), told);
                fitsAt = Math.max(fitsAt, told.fitsAtMillis);
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
                        : parts.stream().map(Decision::givenBack).toList());
    }

    /** The same after what it took was given back. */
    private Decision givenBack() {
        List<Usage> left = limits.stream().map(usage -> usage.later(0, charged)).toList();
        return new Decision(source, at, stamp, allowed, false, fitsAt, left, violated, List.of());
    }

    /**
     * A decision by a setting, for the time when no store can be asked. For stores.
     *
     * @param allowed what the setting says
     * @param at when, in milliseconds of the clock of whoever decides
     * @param askAgainAt after a denial, when it may be worth while to ask again
     * @return the decision, which has charged nothing
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

    /** A denial that needs no store: these limits never hold so many permits. */
    static Decision neverFits(long at, List<Limit> tooSmall) {
        return new Decision(Source.LIMITER, at, false, false, NEVER, List.of(), List.copyOf(tooSmall));
    }

    /** What is allowed because no limit applies to it. */
    static Decision unlimited(long at) {
        return new Decision(Source.LIMITER, at, true, false, at, List.of(), List.of());
    }

    /** A denial by a setting, for want of limits to ask about. */
    static Decision refused(long at) {
        return new Decision(Source.LIMITER, at, false, false, NEVER, List.of(), List.of());
    }

    /**
     * A denial of one who would have to wait for longer than he wants to, or for whom there is no place to wait.
     *
     * @param at when, in milliseconds of the clock of {@code before}, or of the limiter's if there is none
     * @param fitsAt before when he cannot be served
     * @param claims what he asked for
     * @param before what the store has last said about the same counts, if it has
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
     * Returns whether the permits were granted; after a peek, whether they would be.
     *
     * @return true if every limit agreed
     */
    public boolean isAllowed() {
        return allowed;
    }

    /**
     * Returns whether this decision has taken permits, which a refund can give back.
     *
     * @return true if it is allowed, asked for at least one permit and was not a peek
     */
    public boolean isCharged() {
        return charged;
    }

    /**
     * Returns how long to wait before the same charge fits, if nobody else takes anything meanwhile. Asked any earlier, it is
     * denied.
     *
     * @return the wait; empty if the charge is allowed, or if no wait helps: it is more than a limit ever holds, or its limits
     *     could not be looked up
     */
    public Optional<Duration> retryAfter() {
        return allowed || fitsAt == NEVER ? Optional.empty() : Optional.of(Duration.ofMillis(fitsAt - at));
    }

    /**
     * Returns how many more permits every limit would grant now.
     *
     * @return the smallest of what remains; if no limit was asked, 0 after a denial and {@link Long#MAX_VALUE} otherwise
     */
    public long remaining() {
        long remaining = allowed || !limits.isEmpty() ? Long.MAX_VALUE : 0;
        for (Usage usage : limits) {
            remaining = Math.min(remaining, usage.remaining());
        }
        return remaining;
    }

    /**
     * Returns the state of every limit that was asked, after the decision.
     *
     * @return a usage for each limit of each key, in the order of the charges; empty if no store was asked
     */
    public List<Usage> limits() {
        return limits;
    }

    /**
     * Returns the limits that denied.
     *
     * @return those that were violated; empty if the decision is allowed
     */
    public List<Limit> violated() {
        return violated;
    }

    /**
     * Returns when the decision was made.
     *
     * @return the instant, of the clock of the store that decided
     */
    public Instant at() {
        return Instant.ofEpochMilli(at);
    }

    /**
     * Returns what the store has given to this decision, so as to tell it from a reset at the same time. For stores.
     *
     * @return the stamp; 0 if there is none
     */
    public long stamp() {
        return stamp;
    }

    /**
     * Returns where the decision was made.
     *
     * @return the source
     */
    public Source source() {
        return source;
    }

    /**
     * Returns what each of the servers has decided that were asked, by its own clock: what each has said of its counts, and what is to
     * be given back to it. For stores.
     *
     * @return the parts that it was put together from, without what has been given back already; or nothing but itself
     */
    public List<Decision> parts() {
        return parts.isEmpty() ? List.of(this) : parts;
    }

    /** Returns what it says of some of its limits, to be given back by itself. */
    Decision only(Predicate<? super Usage> wanted) {
        List<Usage> some = limits.stream().filter(wanted).toList();
        List<Decision> someParts = parts.stream()
                .map(part -> part.only(wanted))
                .filter(part -> !part.limits.isEmpty())
                .toList();
        return new Decision(source, at, stamp, allowed, charged, fitsAt, some, violated, someParts);
    }

    /** Returns true to one caller only: what a decision took is given back at most once. */
    boolean redeem() {
        return charged && redeemed == 0 && REDEEMED.compareAndSet(this, 0, 1);
    }

    /** Returns the decision for a log: without keys. */
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

    /** How much of one limit is used by one key, as a {@link Decision} found or left it. */
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
         * The usage after a decision. For stores.
         *
         * @param claim what was asked
         * @param used how many permits count as used after it
         * @param violated whether the claim did not fit
         * @param fitsAtMillis when the claim fits, in milliseconds of the store's clock; looked at where the decision is denied
         * @param wholeAtMillis when nothing is used any more, in milliseconds of the store's clock
         * @return the usage
         */
        public static Usage of(Claim claim, long used, boolean violated, long fitsAtMillis, long wholeAtMillis) {
            return new Usage(claim, used, violated, fitsAtMillis, wholeAtMillis);
        }

        /**
         * The usage of a counter after a decision. For stores.
         *
         * @param claim what was asked
         * @param state the counter after the decision, in the window that holds now
         * @param violated whether the claim did not fit
         * @param denied whether the decision is a denial, be it for this claim or for another
         * @param now when the decision was made, in milliseconds of the store's clock
         * @return the usage
         */
        public static Usage ofCounter(Claim claim, CounterState state, boolean violated, boolean denied, long now) {
            Limit limit = claim.limit();
            long fitsAt = denied ? state.fitsAt(limit, claim.permits(), now) : now;
            return new Usage(claim, state.used(limit, now), violated, fitsAt, state.wholeAt(limit, now));
        }

        /** The same by a clock that shows so much more, with what was asked given back or not. */
        private Usage later(long millis, boolean givenBack) {
            long left = givenBack && !claim.limit().isCountingDenied() ? Math.max(0, used - claim.permits()) : used;
            return new Usage(claim, left, violated, fitsAtMillis + millis, wholeAtMillis + millis);
        }

        /**
         * Returns who is charged.
         *
         * @return the key as the caller gave it; it is not encoded
         */
        public String key() {
            return claim.key();
        }

        /**
         * Returns which limit this is about.
         *
         * @return the limit
         */
        public Limit limit() {
            return claim.limit();
        }

        /**
         * Returns what was asked of the limit. For stores.
         *
         * @return the claim
         */
        public Claim claim() {
            return claim;
        }

        /**
         * Returns how many permits count as used.
         *
         * @return the permits; more than the limit has, if they were lowered
         */
        public long used() {
            return used;
        }

        /**
         * Returns how many more permits the limit would grant now.
         *
         * @return the permits, not negative
         */
        public long remaining() {
            return Math.max(0, claim.limit().permits() - used);
        }

        /**
         * Returns whether this limit denied.
         *
         * @return true if what was asked did not fit
         */
        public boolean isViolated() {
            return violated;
        }

        /**
         * Returns when what was asked fits this limit, if nothing more is taken.
         *
         * @return the instant after a denial; that of the decision otherwise
         */
        public Instant fitsAt() {
            return Instant.ofEpochMilli(fitsAtMillis);
        }

        /**
         * Returns when the limit is whole again, if nothing more is taken.
         *
         * @return the instant at which nothing counts as used any more
         */
        public Instant wholeAt() {
            return Instant.ofEpochMilli(wholeAtMillis);
        }

        /** Returns the usage for a log: without the key. */
        @Override
        public String toString() {
            return "Usage[" + claim.limit() + ", used=" + used + ", wholeAt=" + wholeAt() + "]";
        }
    }
}
