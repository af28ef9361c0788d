package io.github.spillgate;

import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.LookupTimeout;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.Fuseable;
import reactor.core.publisher.Mono;

/**
 * A lookup of the limits of a key, for limits that differ by plan, tenant or contract.
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
 * A charge with limits of its own is not looked up. For other charges, each decision looks up the key once before it
 * asks the store, on the subscribing thread and with the subscriber's Reactor Context. If your function needs a
 * network call, wrap it in {@code CachedLimits} of the local package.
 *
 * <p>Three settings define what happens if the lookup finds nothing, fails, or times out. Their default is {@link
 * Otherwise#limitsOfLimiter()}. To observe failures, add {@code doOnError} or a similar operator to your function.
 *
 * <p>Immutable: methods that change a setting return a new lookup.
 */
public final class LimitLookup {

    private static final Duration DEFAULT_TIMEOUT = Duration.ofMillis(50);

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
     * Returns a lookup that calls this function, with a timeout of 50 ms.
     *
     * @param limitsOf a function that returns the limits of a key, and must not block; an empty result or an empty
     *     collection means that nothing was found
     * @return the lookup
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
     * Sets the timeout of a lookup, 50 ms by default. After that the lookup is cancelled, and {@link
     * #whenTimedOut(Otherwise)} applies. A lookup in {@code CachedLimits} continues, for later decisions. The limiter's
     * deadline begins after the lookup.
     *
     * @param timeout the timeout, more than zero
     * @return a new lookup
     * @throws IllegalArgumentException if the timeout is zero or less
     */
    public LimitLookup timeout(Duration timeout) {
        Duration given = Checks.present(timeout, "timeout", "Duration.ofMillis(20)");
        if (given.isNegative() || given.isZero()) {
            throw new IllegalArgumentException(
                    "timeout " + given + " leaves no time: expected more than zero, for example Duration.ofMillis(20)");
        }
        return new LimitLookup(limitsOf, given, whenEmpty, whenFailed, whenTimedOut);
    }

    /**
     * Sets what applies to a key for which the lookup finds nothing.
     *
     * @param otherwise the setting, {@link Otherwise#limitsOfLimiter()} by default
     * @return a new lookup
     */
    public LimitLookup whenEmpty(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, check(otherwise), whenFailed, whenTimedOut);
    }

    /**
     * Sets what applies to a key if its lookup fails, or returns limits that cannot be combined.
     *
     * @param otherwise the setting, {@link Otherwise#limitsOfLimiter()} by default
     * @return a new lookup
     */
    public LimitLookup whenFailed(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, whenEmpty, check(otherwise), whenTimedOut);
    }

    /**
     * Sets what applies to a key if its lookup times out.
     *
     * @param otherwise the setting, {@link Otherwise#limitsOfLimiter()} by default
     * @return a new lookup
     */
    public LimitLookup whenTimedOut(Otherwise otherwise) {
        return new LimitLookup(limitsOf, timeout, whenEmpty, whenFailed, check(otherwise));
    }

    private static Otherwise check(Otherwise otherwise) {
        return Checks.present(otherwise, "otherwise", "Otherwise.deny()");
    }

    /** Returns whether the limiter's own limits may be needed. */
    boolean needsLimitsOfLimiter() {
        return whenEmpty.kind == OtherwiseKind.LIMITER
                || whenFailed.kind == OtherwiseKind.LIMITER
                || whenTimedOut.kind == OtherwiseKind.LIMITER;
    }

    /** Looks up the key: emits its limits, or that it is allowed or denied without any. */
    Mono<FoundLimits> find(String key, Supplier<List<Limit>> limitsOfLimiter) {
        return Mono.defer(() -> {
            Mono<? extends Collection<Limit>> answer;
            try {
                answer = Objects.requireNonNull(
                        limitsOf.apply(key), "the lookup has returned null: expected a Mono, for example Mono.empty()");
            } catch (Throwable e) {
                // Includes checked exceptions, which a function in Kotlin may throw.
                Exceptions.throwIfFatal(e);
                answer = Mono.error(e);
            }
            Mono<FoundLimits> found = answer.map(Charge::distinct)
                    .map(FoundLimits::of)
                    .filter(some -> !some.limits.isEmpty())
                    .onErrorResume(e -> whenFailed.find("failed", e, limitsOfLimiter))
                    .switchIfEmpty(Mono.defer(() -> whenEmpty.find("found nothing", null, limitsOfLimiter)));
            // A result that is already known needs no timer.
            return answer instanceof Fuseable.ScalarCallable
                    ? found
                    : LookupTimeout.apply(
                            found,
                            timeout,
                            Mono.defer(() -> whenTimedOut.find("took more than " + timeout, null, limitsOfLimiter)));
        });
    }

    /** Returns the lookup for log messages. */
    @Override
    public String toString() {
        return "LimitLookup[timeout=" + timeout + ", whenEmpty=" + whenEmpty + ", whenFailed=" + whenFailed
                + ", whenTimedOut=" + whenTimedOut + "]";
    }

    /** The result of a lookup: limits, or a verdict without limits. */
    record FoundLimits(List<Limit> limits, boolean isDenied) {

        static FoundLimits of(List<Limit> limits) {
            return new FoundLimits(limits, false);
        }
    }

    private enum OtherwiseKind {
        LIMITER,
        LIMITS,
        ALLOW,
        DENY,
        FAIL
    }

    /** A setting: what applies to a key if its limits could not be looked up. */
    public static final class Otherwise {

        private final OtherwiseKind kind;
        private final List<Limit> limits;

        private Otherwise(OtherwiseKind kind, List<Limit> limits) {
            this.kind = kind;
            this.limits = limits;
        }

        /**
         * Returns the setting that applies the limits of the limiter.
         *
         * @return the default setting
         */
        public static Otherwise limitsOfLimiter() {
            return new Otherwise(OtherwiseKind.LIMITER, List.of());
        }

        /**
         * Returns the setting that applies these limits.
         *
         * @param limits at least one limit
         * @return the setting
         * @throws IllegalArgumentException if there are none, or two of them would share a count
         */
        public static Otherwise limits(Limit... limits) {
            List<Limit> distinct = Charge.distinct(Arrays.asList(Checks.some(limits, "limits", "Limit.perMinute(60)")));
            if (distinct.isEmpty()) {
                throw new IllegalArgumentException(
                        "no limit was given: expected at least one, for example Limit.perMinute(60), or "
                                + "Otherwise.allow()");
            }
            return new Otherwise(OtherwiseKind.LIMITS, distinct);
        }

        /**
         * Returns the setting that allows the key without a limit; nothing is counted.
         *
         * @return the setting
         */
        public static Otherwise allow() {
            return new Otherwise(OtherwiseKind.ALLOW, List.of());
        }

        /**
         * Returns the setting that denies the key, without a retry time.
         *
         * @return the setting
         */
        public static Otherwise deny() {
            return new Otherwise(OtherwiseKind.DENY, List.of());
        }

        /**
         * Returns the setting that signals a {@link LimitLookupException}.
         *
         * @return the setting
         */
        public static Otherwise fail() {
            return new Otherwise(OtherwiseKind.FAIL, List.of());
        }

        private Mono<FoundLimits> find(String what, @Nullable Throwable cause, Supplier<List<Limit>> limitsOfLimiter) {
            return switch (kind) {
                case LIMITER -> Mono.just(FoundLimits.of(limitsOfLimiter.get()));
                case LIMITS -> Mono.just(FoundLimits.of(limits));
                case ALLOW -> Mono.just(FoundLimits.of(List.of()));
                case DENY -> Mono.just(new FoundLimits(List.of(), true));
                case FAIL ->
                    Mono.error(new LimitLookupException(
                            "the lookup of a key's limits " + what
                                    + ": expected limits, or a setting for that case, for"
                                    + " example Otherwise.limits(Limit.perMinute(60))",
                            cause));
            };
        }

        /** Returns the setting for log messages. */
        @Override
        public String toString() {
            return kind == OtherwiseKind.LIMITS ? limits.toString() : kind.toString();
        }
    }
}
