package io.github.spillgate;

import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.Fuseable;
import reactor.core.publisher.Mono;

/**
 * Where the limits of a key come from, when they are not the same for all: from a plan, a tenant, a contract.
 *
 * <pre>{@code
 * RateLimiter limiter = RateLimiter.builder("api")
 *         .store(RedisStore.create(redisClient))
 *         .limit(Limit.perMinute(60))
 *         .lookup(LimitLookup.of(key -> plans.of(key).map(Plan::limits))
 *                 .timeout(Duration.ofMillis(20))
 *                 .whenFailed(Otherwise.deny()))
 *         .build();
 * }</pre>
 *
 * A charge that has limits of its own is not looked up. For any other, each decision looks up its key once, before the store is
 * asked, on the thread that subscribes, and with the Reactor Context of the subscriber. If that takes a trip, put a
 * {@code CachedLimits} of the local package in between.
 *
 * <p>What happens when nothing is found, when the lookup fails, and when it hangs, are three settings; at first all of them
 * are {@link Otherwise#limitsOfLimiter()}. Whoever wants to know about failures sees them in his own function, for example
 * with {@code doOnError}.
 *
 * <p>Immutable: each method returns another lookup.
 */
public final class LimitLookup {

    private static final Duration DEFAULT_TIMEOUT = Duration.ofMillis(50);
    private static final Duration LONGEST_TIMEOUT = Duration.ofDays(366); // a timer counts in nanoseconds

    private final Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf;
    private final Duration timeout;
    private final Otherwise whenEmpty;
    private final Otherwise whenFailed;
    private final Otherwise whenTimedOut;

    private LimitLookup(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            Duration timeout,
            Otherwise whenEmpty,
            Otherwise whenFailed,
            Otherwise whenTimedOut) {
        this.limitsOf = limitsOf;
        this.timeout = timeout;
        this.whenEmpty = whenEmpty;
        this.whenFailed = whenFailed;
        this.whenTimedOut = whenTimedOut;
    }

    /**
     * Looks up with this function, for up to 50 milliseconds.
     *
     * @param limitsOf returns the limits of a key; must not block. Nothing is found where it completes empty or with no limits
     * @return a lookup
     */
    public static LimitLookup of(Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf) {
        return new LimitLookup(
                Checks.present(limitsOf, "limitsOf", "key -> plans.of(key).map(Plan::limits)"),
                DEFAULT_TIMEOUT,
                Otherwise.limitsOfLimiter(),
                Otherwise.limitsOfLimiter(),
                Otherwise.limitsOfLimiter());
    }

    /**
     * Sets for how long a lookup may take; then it is cancelled, and counts as hanging. 50 milliseconds by default. It is a part
     * of the limiter's deadline: what the lookup takes, the store does not get.
     *
     * @param timeout more than zero
     * @return another lookup
     * @throws IllegalArgumentException if it is zero or less
     */
    public LimitLookup timeout(Duration timeout) {
        Duration given = Checks.present(timeout, "timeout", "Duration.ofMillis(20)");
        if (given.isNegative() || given.isZero()) {
            throw new IllegalArgumentException(
                    "timeout " + given + " leaves no time: expected more than zero, for example Duration.ofMillis(20)");
        }
        Duration held = given.compareTo(LONGEST_TIMEOUT) > 0 ? LONGEST_TIMEOUT : given;
        return new LimitLookup(limitsOf, held, whenEmpty, whenFailed, whenTimedOut);
    }

    /**
     * Sets what holds for a key of which nothing is found.
     *
     * @param otherwise the limiter's own limits by default
     * @return another lookup
     */
    public LimitLookup whenEmpty(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, check(otherwise), whenFailed, whenTimedOut);
    }

    /**
     * Sets what holds for a key whose lookup fails, or answers with limits that cannot be used together.
     *
     * @param otherwise the limiter's own limits by default
     * @return another lookup
     */
    public LimitLookup whenFailed(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, whenEmpty, check(otherwise), whenTimedOut);
    }

    /**
     * Sets what holds for a key whose lookup has not answered in time.
     *
     * @param otherwise the limiter's own limits by default
     * @return another lookup
     */
    public LimitLookup whenTimedOut(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, whenEmpty, whenFailed, check(otherwise));
    }

    private static Otherwise check(Otherwise otherwise) {
        return Checks.present(otherwise, "otherwise", "Otherwise.deny()");
    }

    /** Returns for how long a lookup may take. */
    Duration timeout() {
        return timeout;
    }

    /** Returns whether it may be that the limiter's own limits are needed. */
    boolean needsLimitsOfLimiter() {
        return whenEmpty.kind == Kind.LIMITER || whenFailed.kind == Kind.LIMITER || whenTimedOut.kind == Kind.LIMITER;
    }

    /** Finds what holds for the key: other limits, or that it is to be let through or denied without any. */
    Mono<Found> find(String key, List<Limit> limitsOfLimiter) {
        return Mono.defer(() -> {
            Mono<? extends Collection<Limit>> answer;
            try {
                answer = Objects.requireNonNull(
                        limitsOf.apply(key), "the lookup has returned null: expected a Mono, for example Mono.empty()");
            } catch (Throwable e) {
                // Also what is checked: a function in Kotlin may throw it.
                Exceptions.throwIfFatal(e);
                answer = Mono.error(e);
            }
            Mono<Found> found = answer.map(Charge::distinct)
                    .map(Found::new)
                    .filter(some -> !some.limits.isEmpty())
                    .onErrorResume(e -> whenFailed.find("failed", e, limitsOfLimiter))
                    .switchIfEmpty(Mono.defer(() -> whenEmpty.find("found nothing", null, limitsOfLimiter)));
            // What is at hand needs no timer.
            return answer instanceof Fuseable.ScalarCallable
                    ? found
                    : found.timeout(
                            timeout,
                            Mono.defer(() -> whenTimedOut.find("took more than " + timeout, null, limitsOfLimiter)));
        });
    }

    /** Returns the lookup for a log. */
    @Override
    public String toString() {
        return "LimitLookup[timeout=" + timeout + ", whenEmpty=" + whenEmpty + ", whenFailed=" + whenFailed
                + ", whenTimedOut=" + whenTimedOut + "]";
    }

    /** What was found: limits; or none, and a verdict without them. */
    static final class Found {

        private static final Found ALLOWED = new Found(List.of());
        private static final Found DENIED = new Found(List.of());

        private final List<Limit> limits;

        private Found(List<Limit> limits) {
            this.limits = limits;
        }

        List<Limit> limits() {
            return limits;
        }

        boolean isDenied() {
            return this == DENIED;
        }
    }

    private enum Kind {
        LIMITER,
        LIMITS,
        ALLOW,
        DENY,
        FAIL
    }

    /** What holds for a key whose limits could not be looked up. */
    public static final class Otherwise {

        private final Kind kind;
        private final List<Limit> limits;

        private Otherwise(Kind kind, List<Limit> limits) {
            this.kind = kind;
            this.limits = limits;
        }

        /**
         * The limits that the limiter was built with.
         *
         * @return the default
         */
        public static Otherwise limitsOfLimiter() {
            return new Otherwise(Kind.LIMITER, List.of());
        }

        /**
         * These limits.
         *
         * @param limits at least one
         * @return what holds
         * @throws IllegalArgumentException if there are none, or two of them would share a count
         */
        public static Otherwise limits(Limit... limits) {
            List<Limit> distinct =
                    Charge.distinct(Arrays.asList(Checks.present(limits, "limits", "Limit.perMinute(60)")));
            if (distinct.isEmpty()) {
                throw new IllegalArgumentException(
                        "no limit was given: expected at least one, for example Limit.perMinute(60), or Otherwise.allow()");
            }
            return new Otherwise(Kind.LIMITS, distinct);
        }

        /**
         * No limit: the key is let through, and nothing is counted.
         *
         * @return what holds
         */
        public static Otherwise allow() {
            return new Otherwise(Kind.ALLOW, List.of());
        }

        /**
         * A denial, without a wait that would help.
         *
         * @return what holds
         */
        public static Otherwise deny() {
            return new Otherwise(Kind.DENY, List.of());
        }

        /**
         * An error: a {@link LimitLookupException}.
         *
         * @return what holds
         */
        public static Otherwise fail() {
            return new Otherwise(Kind.FAIL, List.of());
        }

        private Mono<Found> find(String what, @Nullable Throwable cause, List<Limit> limitsOfLimiter) {
            return switch (kind) {
                case LIMITER -> Mono.just(new Found(limitsOfLimiter));
                case LIMITS -> Mono.just(new Found(limits));
                case ALLOW -> Mono.just(Found.ALLOWED);
                case DENY -> Mono.just(Found.DENIED);
                case FAIL ->
                    Mono.error(new LimitLookupException(
                            "the lookup of a key's limits " + what
                                    + ": expected limits, or a setting for that case, for"
                                    + " example Otherwise.limits(Limit.perMinute(60))",
                            cause));
            };
        }

        /** Returns it for a log. */
        @Override
        public String toString() {
            return kind == Kind.LIMITS ? limits.toString() : kind.toString();
        }
    }
}
