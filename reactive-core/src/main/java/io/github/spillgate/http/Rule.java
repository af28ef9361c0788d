package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * Which requests are limited, by whom, and to what.
 *
 * <pre>{@code
 * Rule.named("validate")
 *         .paths("/v1/validate")
 *         .methods("POST")
 *         .key(KeySource.header("X-Api-Key"))
 *         .limit(Limit.perMinute(30))
 *         .cost(5)
 *         .build();
 * }</pre>
 *
 * All rules that match a request, of one {@link Phase phase}, are one verdict: each of them agrees and is charged, or none is.
 *
 * <p>A limit of a rule is called by the names of both: {@code 30/1m} in the rule {@code validate} is {@code validate-1m}, in headers
 * as in the store. So equal limits of two rules have counts of their own, and what was counted stays as long as a rule keeps its
 * name, and its limits their names and everything but their permits. Immutable.
 */
public final class Rule {

    private static final Duration LONGEST_TIMEOUT = Duration.ofMinutes(1);

    /** When a rule is decided. */
    public enum Phase {
        /** Before anybody is authenticated: what protects the check of passwords, by address. */
        BEFORE_AUTHENTICATION,

        /** Once it is known who asks. */
        AFTER_AUTHENTICATION
    }

    /** What holds for a request that has no key. */
    public enum WhenMissing {
        /** All who have none share one. */
        SHARE,

        /** The rule does not apply. */
        SKIP,

        /** The request is denied, with 429 and no time to come back. */
        DENY
    }

    /** What holds for a request on which nothing can be decided. */
    public enum WhenUndecided {
        /** It is let through. */
        ALLOW,

        /** It is denied, with 503. */
        DENY
    }

    /** What holds for a request if its limits or cost cannot be looked up. */
    public enum WhenLookupFails {
        /** The rule's own limits, or its fixed cost: the request is counted under its key. */
        USE_RULE,

        /** Nothing is decided, and {@link WhenUndecided} says whether the request is let through. */
        UNDECIDED
    }

    /** Finds the cost of a request. If it fails or is late, the rule's fixed cost holds, unless the rule says otherwise. */
    @FunctionalInterface
    public interface CostSource {

        /**
         * Finds the cost; must not block.
         *
         * @param match the request, and the rule that it is wanted for
         * @return how many permits it takes, 0 or more; the rule's fixed cost if it is empty
         */
        Mono<Long> find(Match match);
    }

    /**
     * Finds the limits of a key, for example those of its plan. If it fails or is late, the rule's own limits hold, unless the rule says
     * otherwise. Both share a count if they have the same name, window and algorithm; otherwise each is a count of its own.
     */
    @FunctionalInterface
    public interface LimitSource {

        /**
         * Finds the limits; must not block.
         *
         * @param match the request, and the rule that they are wanted for
         * @param key the key
         * @return the limits; the rule's own if it is empty
         */
        Mono<? extends Collection<Limit>> find(Match match, String key);
    }

    private final String name;
    private final List<String> paths;
    private final List<String> excludePaths;
    private final Set<String> methods;
    private final Phase phase;
    private final KeySource key;
    private final List<Limit> limits;
    private final @Nullable LimitSource limitSource;
    private final long cost;
    private final @Nullable CostSource costSource;
    private final Predicate<? super Match> unless;
    private final @Nullable WhenMissing whenMissing;
    private final boolean isOnlyForUsers;
    private final WhenUndecided whenUndecided;
    private final WhenLookupFails whenLookupFails;
    private final @Nullable IntPredicate refundWhen;
    private final boolean shadow;
    private final Duration timeout;

    private Rule(Builder builder, KeySource key, Phase phase) {
        this.name = builder.name;
        this.paths = List.copyOf(builder.paths);
        this.excludePaths = List.copyOf(builder.excludePaths);
        this.methods = Collections.unmodifiableSet(new LinkedHashSet<>(builder.methods));
        this.key = key;
        this.phase = phase;
        this.limits = named(builder.limits);
        this.limitSource = builder.limitSource;
        this.cost = builder.cost;
        this.costSource = builder.costSource;
        this.unless = builder.unless;
        this.whenMissing = builder.whenMissing;
        this.isOnlyForUsers = Sources.isOnlyForUsers(key);
        this.whenUndecided = builder.whenUndecided;
        this.whenLookupFails = builder.whenLookupFails;
        this.refundWhen = builder.refundWhen;
        this.shadow = builder.shadow;
        this.timeout = builder.timeout;
    }

    /**
     * Starts a rule.
     *
     * @param name what it is called, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -} together with the names of its limits
     * @return its builder
     * @throws IllegalArgumentException if the name has other characters, or too many
     */
    public static Builder named(String name) {
        Objects.requireNonNull(name, "rule name is null: expected one, for example \"login\"");
        // A rule's name is a part of the names of its limits, and what those may be called is said there.
        Limit.perMinute(1).named(name);
        return new Builder(name);
    }

    /** Returns these limits under the names that they have in this rule. */
    List<Limit> named(Collection<Limit> some) {
        return some.stream()
                .map(limit -> limit.named(name + "-" + limit.name()))
                .toList();
    }

    /**
     * Returns what it is called.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns the patterns of the paths that are meant.
     *
     * @return the patterns, as they were written; empty for all paths
     */
    public List<String> paths() {
        return paths;
    }

    /**
     * Returns the patterns of the paths that are not meant.
     *
     * @return the patterns, as they were written; empty for none
     */
    public List<String> excludePaths() {
        return excludePaths;
    }

    /**
     * Returns the methods that are meant.
     *
     * @return the methods, in upper case; empty for all
     */
    public Set<String> methods() {
        return methods;
    }

    /**
     * Returns when it is decided.
     *
     * @return the phase
     */
    public Phase phase() {
        return phase;
    }

    /**
     * Returns its own limits, by the names that they have here.
     *
     * @return the limits, at least one
     */
    public List<Limit> limits() {
        return limits;
    }

    /**
     * Returns whether a limit that a decision tells of is this rule's: rules that hold for the same request are decided together.
     *
     * @param limit a limit, by the name that it has in its rule
     * @return whether it is one of the rule's own; or, where limits are looked up, whether it is called after the rule
     */
    public boolean isLimitedBy(Limit limit) {
        return limits.contains(limit) || (limitSource != null && limit.name().startsWith(name + "-"));
    }

    /**
     * Returns whether it decides and reports, and lets everybody pass.
     *
     * @return true if it is tried out only
     */
    public boolean isShadow() {
        return shadow;
    }

    KeySource key() {
        return key;
    }

    Optional<LimitSource> limitSource() {
        return Optional.ofNullable(limitSource);
    }

    long cost() {
        return cost;
    }

    Optional<CostSource> costSource() {
        return Optional.ofNullable(costSource);
    }

    /** Returns what the author has chosen; null for the default, which depends on the key and the request. */
    @Nullable
    WhenMissing whenMissing() {
        return whenMissing;
    }

    boolean isOnlyForUsers() {
        return isOnlyForUsers;
    }

    /** Returns whether requests that are not authenticated, or have left something out, share one count. */
    boolean mayShareOneKey() {
        boolean isShared = whenMissing == null ? !isOnlyForUsers : whenMissing == WhenMissing.SHARE;
        return isShared && Sources.mayBeMissing(key);
    }

    WhenUndecided whenUndecided() {
        return whenUndecided;
    }

    WhenLookupFails whenLookupFails() {
        return whenLookupFails;
    }

    Duration timeout() {
        return timeout;
    }

    boolean refundsSometimes() {
        return refundWhen != null;
    }

    boolean refundsWhen(int status) {
        return refundWhen != null && refundWhen.test(status);
    }

    /** HEAD is GET without a body: a handler of the one answers the other as well. */
    boolean isMeant(String method) {
        return methods.isEmpty() || methods.contains(method) || (method.equals("HEAD") && methods.contains("GET"));
    }

    boolean isExcepted(Match match) {
        return unless.test(match);
    }

    /** Returns the rule for a log. */
    @Override
    public String toString() {
        return "Rule[" + name + ", paths=" + paths
                + (excludePaths.isEmpty() ? "" : ", excludePaths=" + excludePaths) + ", methods=" + methods + ", "
                + phase + ", key=" + key
                + ", limits=" + limits + (shadow ? ", shadow" : "") + "]";
    }

    /** What a {@link Rule} is made of. */
    public static final class Builder {

        private final String name;
        private final List<String> paths = new ArrayList<>();
        private final List<String> excludePaths = new ArrayList<>();
        private final Set<String> methods = new LinkedHashSet<>();
        private final List<Limit> limits = new ArrayList<>();
        private @Nullable Phase phase;
        private @Nullable KeySource key;
        private @Nullable LimitSource limitSource;
        private long cost = 1;
        private @Nullable CostSource costSource;
        private Predicate<? super Match> unless = match -> false;
        private @Nullable WhenMissing whenMissing;
        private WhenUndecided whenUndecided = WhenUndecided.ALLOW;
        private WhenLookupFails whenLookupFails = WhenLookupFails.USE_RULE;
        private @Nullable IntPredicate refundWhen;
        private boolean shadow;
        private Duration timeout = Duration.ofMillis(50);

        private Builder(String name) {
            this.name = name;
        }

        /**
         * Adds paths that are meant; all are, unless some are named.
         *
         * @param patterns patterns, as the framework of the adapter writes them
         * @return this builder
         */
        public Builder paths(String... patterns) {
            paths.addAll(Arrays.asList(patterns));
            return this;
        }

        /**
         * Adds paths that are not meant, also where {@link #paths} has a pattern that matches them.
         *
         * @param patterns patterns, as the framework of the adapter writes them
         * @return this builder
         */
        public Builder excludePaths(String... patterns) {
            excludePaths.addAll(Arrays.asList(patterns));
            return this;
        }

        /**
         * Adds methods that are meant; all are, unless some are named. With GET, HEAD is meant too. A custom method, such as
         * {@code PURGE}, may be named here; settings accept the methods of the IANA registry only, so that a misspelt one is found.
         *
         * @param names such as {@code POST}, in any case
         * @return this builder
         */
        public Builder methods(String... names) {
            for (String method : names) {
                if (!Tokens.is(method)) {
                    throw refused("method " + Quoted.text(method) + " is none: expected one, for example \"POST\"");
                }
                methods.add(method.toUpperCase(Locale.ROOT));
            }
            return this;
        }

        /**
         * Sets when it is decided: after authentication by default if the key needs to know who asks, else before.
         *
         * @param phase when
         * @return this builder
         */
        public Builder phase(Phase phase) {
            this.phase = phase;
            return this;
        }

        /**
         * Sets who is charged. It has to be given.
         *
         * @param key where the key comes from
         * @return this builder
         */
        public Builder key(KeySource key) {
            this.key = key;
            return this;
        }

        /**
         * Adds a limit. Several must all agree.
         *
         * @param limit one more limit
         * @return this builder
         */
        public Builder limit(Limit limit) {
            limits.add(Objects.requireNonNull(limit, "limit is null: expected one, for example Limit.perMinute(120)"));
            return this;
        }

        /**
         * Looks up the limits of each key. The rule's own limits hold if nothing is found, if the lookup fails or is late, and for
         * requests without a key. See {@link #whenLookupFails(WhenLookupFails)}.
         *
         * @param limitSource finds them
         * @return this builder
         */
        public Builder limits(LimitSource limitSource) {
            this.limitSource = limitSource;
            return this;
        }

        /**
         * Sets how many permits a request takes. 1 by default.
         *
         * @param permits 0 or more
         * @return this builder
         * @throws IllegalArgumentException if they are negative
         */
        public Builder cost(long permits) {
            if (permits < 0) {
                throw refused("cost " + permits + " is negative: expected 0 or more, for example 5");
            }
            this.cost = permits;
            return this;
        }

        /**
         * Looks up how many permits each request takes. The rule's fixed cost holds if nothing is found, and if the lookup fails or is
         * late. See {@link #whenLookupFails(WhenLookupFails)}.
         *
         * @param costSource finds them
         * @return this builder
         */
        public Builder cost(CostSource costSource) {
            this.costSource = costSource;
            return this;
        }

        /**
         * Excepts requests from the rule. Nobody is excepted by default.
         *
         * @param excepted whether the rule does not apply; must not block
         * @return this builder
         */
        public Builder unless(Predicate<? super Match> excepted) {
            this.unless = Objects.requireNonNull(
                    excepted, "excepted is null: expected a condition, for example match -> false");
            return this;
        }

        /**
         * Sets what holds for a request without a key. By default all such requests share one key; but if the key contains a
         * {@linkplain KeySource#principal() principal}, the rule does not apply to requests that are not authenticated.
         *
         * @param whenMissing what holds
         * @return this builder
         */
        public Builder whenMissing(WhenMissing whenMissing) {
            this.whenMissing =
                    Objects.requireNonNull(whenMissing, "whenMissing is null: expected one, for example SHARE");
            return this;
        }

        /**
         * Sets what holds if the key cannot be found in time, or if no store decides and there is no fallback; and, with
         * {@link WhenLookupFails#UNDECIDED}, if the cost or the limits cannot be found in time. The request is let through by default.
         *
         * @param whenUndecided what holds
         * @return this builder
         */
        public Builder whenUndecided(WhenUndecided whenUndecided) {
            this.whenUndecided =
                    Objects.requireNonNull(whenUndecided, "whenUndecided is null: expected one, for example DENY");
            return this;
        }

        /**
         * Sets what holds if the limits or the cost of a request cannot be looked up: the lookup throws, fails, is late, or finds
         * something that cannot be used. By default the rule's own limits and its fixed cost.
         *
         * @param whenLookupFails what holds
         * @return this builder
         */
        public Builder whenLookupFails(WhenLookupFails whenLookupFails) {
            this.whenLookupFails = Objects.requireNonNull(
                    whenLookupFails, "whenLookupFails is null: expected one, for example USE_RULE");
            return this;
        }

        /**
         * Gives back what a request has taken, if it ends with one of these statuses: so that, for example, failed log-ins only
         * are counted. By default nothing is given back.
         *
         * @param status whether it is one of them
         * @return this builder
         */
        public Builder refundWhen(IntPredicate status) {
            this.refundWhen = status;
            return this;
        }

        /**
         * Gives back what a request has taken, if it ends with one of these statuses.
         *
         * @param statuses such as {@code 401} and {@code 2xx}
         * @return this builder
         * @throws IllegalArgumentException if one of them is neither a status nor a class of them
         */
        public Builder refundWhen(String... statuses) {
            return statuses.length == 0 ? this : refundWhen(Statuses.parse(statuses));
        }

        /**
         * Only tries the rule out: it decides and reports, and lets everybody pass. No client sees it, or waits for it. Key, cost and
         * limits are looked up together with those of the other rules, and are charged if these allow.
         *
         * @param shadow whether it does
         * @return this builder
         */
        public Builder shadow(boolean shadow) {
            this.shadow = shadow;
            return this;
        }

        /**
         * Sets for how long key, cost and limits may be looked up, all together. 50 milliseconds by default. It is a part of the
         * limiter's deadline: lookups end after half of that at the latest, so that the store has time to decide on all rules.
         *
         * @param timeout more than zero, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if it is out of that range
         */
        public Builder timeout(Duration timeout) {
            if (timeout.isNegative() || timeout.isZero() || timeout.compareTo(LONGEST_TIMEOUT) > 0) {
                throw refused("timeout " + timeout
                        + " is out of range: expected more than zero and at most a minute, for example 50 ms");
            }
            this.timeout = timeout;
            return this;
        }

        /**
         * Makes the rule.
         *
         * @return a rule
         * @throws IllegalStateException if it has no key, or no limits; or is to be decided before that is known which its key needs
         * @throws IllegalArgumentException if a limit cannot be called by both names, or two of them would be the same
         */
        public Rule build() {
            KeySource source = key;
            if (source == null) {
                throw new IllegalStateException(
                        "rule " + name
                                + " has no key: expected one, for example .key(KeySource.clientAddress(ClientAddress.ofPeer()))");
            }
            if (limits.isEmpty()) {
                throw new IllegalStateException("rule " + name + " has no limit"
                        + (limitSource == null ? "" : " for those whose limits are not found")
                        + ": expected one, for example .limit(Limit.perMinute(120))");
            }
            boolean needsPrincipal = Sources.needsPrincipal(source);
            if (needsPrincipal && phase == Phase.BEFORE_AUTHENTICATION) {
                throw new IllegalStateException("rule " + name + " is decided before authentication, and its key "
                        + source + " is not known then: expected .phase(Phase.AFTER_AUTHENTICATION), or another key");
            }
            Phase chosen =
                    phase != null ? phase : needsPrincipal ? Phase.AFTER_AUTHENTICATION : Phase.BEFORE_AUTHENTICATION;
            Rule rule = new Rule(this, source, chosen);
            // Whether its limits go together is said where they are charged; to hear it now is better than at the first
            // request.
            Charge.of(name, rule.limits);
            return rule;
        }

        private IllegalArgumentException refused(String why) {
            return new IllegalArgumentException("rule " + name + ": " + why);
        }
    }
}
