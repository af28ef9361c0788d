package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.syntax.HttpTokens;
import io.github.spillgate.internal.syntax.StatusSet;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A rule: which requests are limited, by which key, and to what.
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
 * <p>All rules of one {@link Phase phase} that match a request are one atomic decision: either all of them allow the
 * request and are charged, or none is charged.
 *
 * <p>The name of a limit in a rule consists of both names: {@code 30/1m} in the rule {@code validate} is {@code
 * validate-1m}, in header fields as well as in the store. Equal limits of two rules therefore have separate counts. A
 * count is kept as long as the rule keeps its name and the limit keeps its name and everything but its permits.
 *
 * <p>Immutable.
 */
public final class Rule {

    private static final Duration LONGEST_TIMEOUT = Duration.ofMinutes(1);

    /** The time at which a rule is decided. */
    public enum Phase {
        /** Before authentication: protects the password check, by address. */
        BEFORE_AUTHENTICATION,

        /** After authentication, when the user is known. */
        AFTER_AUTHENTICATION
    }

    /** The handling of a request that has no key. */
    public enum WhenMissing {
        /** All requests without a key share one. */
        SHARE,

        /** The rule does not apply. */
        SKIP,

        /** The request is denied with 429 and without a retry time. */
        DENY
    }

    /** The handling of a request that has several different values where its key has one. */
    public enum WhenAmbiguous {
        /** The request is denied with 400. */
        DENY,

        /** The value counts as missing: {@link WhenMissing}, or the next alternative of the key, decides. */
        MISSING
    }

    /** The handling of a request on which no decision is possible. */
    public enum WhenUndecided {
        /** The request is allowed. */
        ALLOW,

        /** The request is denied with 503. */
        DENY
    }

    /** The handling of a request if the lookup of its limits or its cost fails. */
    public enum WhenLookupFails {
        /** The limits or the fixed cost of the rule apply; the request is counted under its key. */
        USE_RULE,

        /** No decision is made, and {@link WhenUndecided} selects whether the request is allowed. */
        UNDECIDED
    }

    /**
     * A lookup of the cost of a request. If it fails or is late, the fixed cost of the rule applies, unless {@link
     * Builder#whenLookupFails(WhenLookupFails)} says otherwise.
     */
    @FunctionalInterface
    public interface CostSource {

        /**
         * Looks up the cost; must not block.
         *
         * @param match the request and the rule
         * @return the number of permits, 0 or more; empty for the fixed cost of the rule
         */
        Mono<Long> find(RuleMatch match);
    }

    /**
     * A lookup of the limits of a key, for example those of its plan. If it fails or is late, the limits of the rule
     * apply, unless {@link Builder#whenLookupFails(WhenLookupFails)} says otherwise. A limit found and a limit of the
     * rule share a count if they have the same name, window and kind; otherwise they have separate counts.
     */
    @FunctionalInterface
    public interface LimitSource {

        /**
         * Looks up the limits; must not block.
         *
         * @param match the request and the rule
         * @param key the key
         * @return the limits; empty for those of the rule
         */
        Mono<? extends Collection<Limit>> find(RuleMatch match, String key);
    }

    private final String name;
    private final List<String> paths;
    private final List<String> excludePaths;
    private final Set<String> methods;
    private final Phase phase;

    /** The phase that was set; null for the default, which depends on the key. */
    private final @Nullable Phase setPhase;

    private final KeySource key;
    private final String keyText;
    private final List<Limit> limits;

    /** The limits with the names that they were added with. */
    private final List<Limit> addedLimits;

    private final @Nullable LimitSource limitSource;
    private final @Nullable String limitsFrom;
    private final long cost;
    private final @Nullable CostSource costSource;
    private final @Nullable String costFrom;
    private final Predicate<? super RuleMatch> unless;
    private final @Nullable WhenMissing whenMissing;
    private final WhenAmbiguous whenAmbiguous;
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
        this.keyText = builder.keyText == null ? key.toString() : builder.keyText;
        this.phase = phase;
        this.setPhase = builder.phase;
        this.limits = named(builder.limits);
        this.addedLimits = List.copyOf(builder.limits);
        this.limitSource = builder.limitSource;
        this.limitsFrom = builder.limitsFrom;
        this.cost = builder.cost;
        this.costSource = builder.costSource;
        this.costFrom = builder.costFrom;
        this.unless = builder.unless;
        this.whenMissing = builder.whenMissing;
        this.whenAmbiguous = builder.whenAmbiguous;
        this.isOnlyForUsers = KeySources.traits(key).isOnlyForUsers();
        this.whenUndecided = builder.whenUndecided;
        this.whenLookupFails = builder.whenLookupFails;
        this.refundWhen = builder.refundWhen;
        this.shadow = builder.shadow;
        this.timeout = builder.timeout;
    }

    /**
     * Returns a builder of a rule.
     *
     * @param name the name, of the characters {@code A-Z a-z 0-9 . _ -}; together with the name of a limit it has 1 to
     *     64 of them
     * @return the builder
     * @throws IllegalArgumentException if the name has other characters, or too many
     */
    public static Builder named(String name) {
        Checks.present(name, "rule name", "\"login\"");
        // The name of a rule is part of the names of its limits, so the same check applies.
        Limit.perMinute(1).named(name);
        return new Builder(name);
    }

    /**
     * Returns a builder with the properties of this rule, for a changed copy of it. {@link Builder#limits(Collection)
     * limits(…)} replaces its limits; {@link Builder#limit(Limit) limit(…)}, paths and methods are added to its own.
     *
     * @return a new builder
     */
    public Builder toBuilder() {
        return new Builder(this);
    }

    /** Returns these limits with the names that they have in this rule. */
    List<Limit> named(Collection<Limit> some) {
        return some.stream()
                .map(limit -> limit.named(name + "-" + limit.name()))
                .toList();
    }

    /**
     * Returns the name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns the patterns of the paths that the rule applies to.
     *
     * @return the patterns, as written; empty for all paths
     */
    public List<String> paths() {
        return paths;
    }

    /**
     * Returns the patterns of the paths that the rule does not apply to.
     *
     * @return the patterns, as written; empty for none
     */
    public List<String> excludePaths() {
        return excludePaths;
    }

    /**
     * Returns the methods that the rule applies to.
     *
     * @return the methods, in upper case; empty for all
     */
    public Set<String> methods() {
        return methods;
    }

    /**
     * Returns the phase in which the rule is decided.
     *
     * @return the phase
     */
    public Phase phase() {
        return phase;
    }

    /**
     * Returns the limits of the rule, with the names that they have in it.
     *
     * @return the limits, at least one
     */
    public List<Limit> limits() {
        return limits;
    }

    /**
     * Returns whether a limit in a decision belongs to this rule. A decision covers all rules that apply to the same
     * request.
     *
     * @param limit a limit, with the name that it has in its rule
     * @return whether it is a limit of the rule or, if limits are looked up, whether its name starts with that of the
     *     rule
     */
    public boolean isLimitedBy(Limit limit) {
        return limits.contains(limit) || (limitSource != null && limit.name().startsWith(name + "-"));
    }

    /**
     * Returns whether the rule only decides and reports, and denies no request.
     *
     * @return true for a shadow rule
     */
    public boolean isShadow() {
        return shadow;
    }

    /**
     * Returns whether the key contains the authenticated user, also as an alternative.
     *
     * @return true for a key with {@link KeySource#principal()}
     */
    public boolean needsPrincipal() {
        return KeySources.traits(key).needsPrincipal();
    }

    /**
     * Returns the path variables that the key reads.
     *
     * @return the names; empty for a key without {@link KeySource#pathVariable(String)}
     */
    public Set<String> pathVariables() {
        return KeySources.traits(key).pathVariables();
    }

    /**
     * Returns the name and the limits, for a log message.
     *
     * @return text such as {@code login: 5/15m}
     */
    public String summary() {
        return name + (shadow ? " (shadow)" : "") + ": "
                + limits.stream()
                        .map(limit -> limit.toString().replace(" name=" + limit.name(), ""))
                        .collect(Collectors.joining(", "));
    }

    /**
     * Returns the key source as text.
     *
     * @return the text of the settings, such as {@code bean:tenant}, or else the {@code toString()} of the source
     */
    public String keyText() {
        return keyText;
    }

    /**
     * Returns the name of the lookup of limits.
     *
     * @return its name in the settings, or {@code function}; empty if the limits of the rule apply to all keys
     */
    public Optional<String> limitsFrom() {
        return name(limitSource, limitsFrom);
    }

    /**
     * Returns the fixed number of permits that a request takes.
     *
     * @return 0 or more
     */
    public long cost() {
        return cost;
    }

    /**
     * Returns the name of the lookup of costs.
     *
     * @return its name in the settings, or {@code function}; empty if the fixed cost applies to all requests
     */
    public Optional<String> costFrom() {
        return name(costSource, costFrom);
    }

    private static Optional<String> name(@Nullable Object source, @Nullable String name) {
        return source == null ? Optional.empty() : Optional.of(name == null ? "function" : name);
    }

    KeySource key() {
        return key;
    }

    Optional<LimitSource> limitSource() {
        return Optional.ofNullable(limitSource);
    }

    Optional<CostSource> costSource() {
        return Optional.ofNullable(costSource);
    }

    /** Returns the configured handling; null for the default, which depends on the key and the request. */
    @Nullable
    WhenMissing whenMissing() {
        return whenMissing;
    }

    WhenAmbiguous whenAmbiguous() {
        return whenAmbiguous;
    }

    boolean isOnlyForUsers() {
        return isOnlyForUsers;
    }

    /** Returns whether requests that are not authenticated, or that leave out the key, share one count. */
    boolean mayShareOneKey() {
        boolean isShared = whenMissing == null ? !isOnlyForUsers : whenMissing == WhenMissing.SHARE;
        return isShared && KeySources.traits(key).mayBeMissing();
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

    /** Returns whether the rule applies to a method. GET includes HEAD, because a handler of GET also handles HEAD. */
    boolean appliesTo(String method) {
        return methods.isEmpty() || methods.contains(method) || (method.equals("HEAD") && methods.contains("GET"));
    }

    boolean isExempt(RuleMatch match) {
        return unless.test(match);
    }

    /** Returns the rule for log messages. */
    @Override
    public String toString() {
        return "Rule[" + name + ", paths=" + paths
                + (excludePaths.isEmpty() ? "" : ", excludePaths=" + excludePaths) + ", methods=" + methods + ", "
                + phase + ", key=" + keyText
                + ", limits=" + limits + (shadow ? ", shadow" : "") + "]";
    }

    /** Builder of a {@link Rule}. Not thread-safe. */
    public static final class Builder {

        private final String name;
        private final List<String> paths = new ArrayList<>();
        private final List<String> excludePaths = new ArrayList<>();
        private final Set<String> methods = new LinkedHashSet<>();
        private final List<Limit> limits = new ArrayList<>();
        private @Nullable Phase phase;
        private @Nullable KeySource key;
        private @Nullable String keyText;
        private @Nullable LimitSource limitSource;
        private @Nullable String limitsFrom;
        private long cost = 1;
        private @Nullable CostSource costSource;
        private @Nullable String costFrom;
        private Predicate<? super RuleMatch> unless = match -> false;
        private @Nullable WhenMissing whenMissing;
        private WhenAmbiguous whenAmbiguous = WhenAmbiguous.DENY;
        private WhenUndecided whenUndecided = WhenUndecided.ALLOW;
        private WhenLookupFails whenLookupFails = WhenLookupFails.USE_RULE;
        private @Nullable IntPredicate refundWhen;
        private boolean shadow;
        private Duration timeout = Duration.ofMillis(50);

        private Builder(String name) {
            this.name = name;
        }

        private Builder(Rule rule) {
            this(rule.name);
            paths.addAll(rule.paths);
            excludePaths.addAll(rule.excludePaths);
            methods.addAll(rule.methods);
            limits.addAll(rule.addedLimits);
            phase = rule.setPhase;
            key = rule.key;
            keyText = rule.keyText;
            limitSource = rule.limitSource;
            limitsFrom = rule.limitsFrom;
            cost = rule.cost;
            costSource = rule.costSource;
            costFrom = rule.costFrom;
            unless = rule.unless;
            whenMissing = rule.whenMissing;
            whenAmbiguous = rule.whenAmbiguous;
            whenUndecided = rule.whenUndecided;
            whenLookupFails = rule.whenLookupFails;
            refundWhen = rule.refundWhen;
            shadow = rule.shadow;
            timeout = rule.timeout;
        }

        /**
         * Adds paths that the rule applies to. Without any, it applies to all paths.
         *
         * @param patterns patterns in the syntax of the adapter's framework
         * @return this builder
         */
        public Builder paths(String... patterns) {
            paths.addAll(Arrays.asList(patterns));
            return this;
        }

        /**
         * Adds paths that the rule does not apply to, even if a pattern in {@link #paths} matches them.
         *
         * @param patterns patterns in the syntax of the adapter's framework
         * @return this builder
         */
        public Builder excludePaths(String... patterns) {
            excludePaths.addAll(Arrays.asList(patterns));
            return this;
        }

        /**
         * Adds methods that the rule applies to. Without any, it applies to all methods. GET includes HEAD. Custom
         * methods, such as {@code PURGE}, are allowed here; settings accept only the methods of the IANA registry, so
         * that a typo is reported.
         *
         * @param names methods such as {@code POST}, in any case
         * @return this builder
         */
        public Builder methods(String... names) {
            for (String method : names) {
                if (!HttpTokens.isToken(method)) {
                    throw refused("method " + Text.quote(method)
                            + " is not an HTTP method: expected one, for example \"POST\"");
                }
                methods.add(method.toUpperCase(Locale.ROOT));
            }
            return this;
        }

        /**
         * Sets when the rule is decided. The default is after authentication if the key needs the authenticated user,
         * else before.
         *
         * @param phase the phase
         * @return this builder
         */
        public Builder phase(Phase phase) {
            this.phase = phase;
            return this;
        }

        /**
         * Sets the key that is charged. Required.
         *
         * @param key the key source
         * @return this builder
         */
        public Builder key(KeySource key) {
            this.key = key;
            this.keyText = null;
            return this;
        }

        /**
         * Adds a limit. All limits must allow a request.
         *
         * @param limit the limit
         * @return this builder
         */
        public Builder limit(Limit limit) {
            limits.add(Checks.present(limit, "limit", "Limit.perMinute(120)"));
            return this;
        }

        /**
         * Replaces the limits.
         *
         * @param limits the limits, at least one; all of them must allow a request
         * @return this builder
         */
        public Builder limits(Collection<Limit> limits) {
            this.limits.clear();
            limits.forEach(this::limit);
            return this;
        }

        /**
         * Looks up the limits of each key. The limits of the rule apply to requests without a key, and if the lookup
         * finds nothing, fails or is late; see {@link #whenLookupFails(WhenLookupFails)}.
         *
         * @param limitSource the lookup
         * @return this builder
         */
        public Builder limits(LimitSource limitSource) {
            this.limitSource = limitSource;
            this.limitsFrom = null;
            return this;
        }

        /**
         * Sets the number of permits that a request takes, 1 by default.
         *
         * @param permits 0 or more
         * @return this builder
         * @throws IllegalArgumentException if the number is negative
         */
        public Builder cost(long permits) {
            if (permits < 0) {
                throw refused("cost " + permits + " is negative: expected 0 or more, for example 5");
            }
            this.cost = permits;
            return this;
        }

        /**
         * Looks up the number of permits that each request takes. The fixed cost of the rule applies if the lookup
         * finds nothing, fails or is late; see {@link #whenLookupFails(WhenLookupFails)}.
         *
         * @param costSource the lookup
         * @return this builder
         */
        public Builder cost(CostSource costSource) {
            this.costSource = costSource;
            this.costFrom = null;
            return this;
        }

        /**
         * Exempts requests from the rule. By default none is exempt.
         *
         * @param exempted the condition, true if the rule does not apply; must not block
         * @return this builder
         */
        public Builder unless(Predicate<? super RuleMatch> exempted) {
            this.unless = Checks.present(exempted, "exempted", "match -> false");
            return this;
        }

        /**
         * Sets the handling of requests without a key. By default all such requests share one key. If the key requires
         * a {@linkplain KeySource#principal() principal}, the rule does not apply to requests that are not
         * authenticated.
         *
         * @param whenMissing the handling
         * @return this builder
         */
        public Builder whenMissing(WhenMissing whenMissing) {
            this.whenMissing = Checks.present(whenMissing, "whenMissing", "SHARE");
            return this;
        }

        /**
         * Sets the handling of requests with several different values of the header field, query parameter or cookie
         * that is their key. By default they are denied with 400: otherwise the client could be authenticated by one
         * value, and limited by another or by none.
         *
         * @param whenAmbiguous the handling
         * @return this builder
         */
        public Builder whenAmbiguous(WhenAmbiguous whenAmbiguous) {
            this.whenAmbiguous = Checks.present(whenAmbiguous, "whenAmbiguous", "DENY");
            return this;
        }

        /**
         * Sets the handling of requests on which no decision is possible: the key lookup fails or times out, or no
         * store decides and there is no fallback. With {@link WhenLookupFails#UNDECIDED} this includes a failed lookup
         * of the cost or the limits. By default such requests are allowed.
         *
         * @param whenUndecided whether they are allowed or denied
         * @return this builder
         */
        public Builder whenUndecided(WhenUndecided whenUndecided) {
            this.whenUndecided = Checks.present(whenUndecided, "whenUndecided", "DENY");
            return this;
        }

        /**
         * Sets the handling of requests if the lookup of limits or cost fails: the lookup throws, fails, is late, or
         * finds something invalid. By default the limits and the fixed cost of the rule apply.
         *
         * @param whenLookupFails the handling
         * @return this builder
         */
        public Builder whenLookupFails(WhenLookupFails whenLookupFails) {
            this.whenLookupFails = Checks.present(whenLookupFails, "whenLookupFails", "USE_RULE");
            return this;
        }

        /**
         * Refunds the permits of a request if the response has one of these statuses, for example to count only failed
         * logins. By default nothing is refunded.
         *
         * @param status the condition on the status
         * @return this builder
         */
        public Builder refundWhen(IntPredicate status) {
            this.refundWhen = status;
            return this;
        }

        /**
         * Refunds the permits of a request if the response has one of these statuses.
         *
         * @param statuses statuses such as {@code 401} and {@code 2xx}
         * @return this builder
         * @throws IllegalArgumentException if one of them is neither a status nor a class of statuses
         */
        public Builder refundWhen(String... statuses) {
            return statuses.length == 0 ? this : refundWhen(StatusSet.parse(statuses));
        }

        /**
         * Sets whether this is a shadow rule, which only decides and reports, and denies no request. Clients neither
         * see it nor wait for it. Its key, cost and limits are looked up together with those of the other rules; it is
         * charged if the other rules allow the request.
         *
         * @param shadow true for a shadow rule
         * @return this builder
         */
        public Builder shadow(boolean shadow) {
            this.shadow = shadow;
            return this;
        }

        /**
         * Sets the timeout of the lookups of key, cost and limits together, 50 ms by default. The limiter's deadline
         * begins after them. A lookup in {@code CachedLimits} continues after the timeout, for later requests.
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
         * Sets the texts from which the key and the lookups were read, for displays of the rule.
         *
         * @param key the text of the key; null for that of the source
         * @param limits the name of the lookup of limits; null for {@code function}
         * @param cost the name of the lookup of costs; null for {@code function}
         * @return this builder
         */
        public Builder texts(@Nullable String key, @Nullable String limits, @Nullable String cost) {
            this.keyText = key;
            this.limitsFrom = limits;
            this.costFrom = cost;
            return this;
        }

        /**
         * Returns the rule.
         *
         * @return the rule
         * @throws IllegalStateException if it has no key or no limit, or is decided before authentication although its
         *     key needs the authenticated user
         * @throws IllegalArgumentException if the name of the rule and that of a limit do not fit together, if two
         *     limits would be the same, or if the cost exceeds a limit and nothing is looked up, so that every request
         *     would be denied
         */
        public Rule build() {
            KeySource source = key;
            if (source == null) {
                throw new IllegalStateException("rule " + name
                        + " has no key: expected one, for example "
                        + ".key(KeySource.clientAddress(ClientAddress.ofPeer()))");
            }
            if (limits.isEmpty()) {
                throw new IllegalStateException("rule " + name + " has no limit"
                        + (limitSource == null ? "" : " for keys that the lookup does not find")
                        + ": expected one, for example .limit(Limit.perMinute(120))");
            }
            checkCost();
            boolean needsPrincipal = KeySources.traits(source).needsPrincipal();
            if (needsPrincipal && phase == Phase.BEFORE_AUTHENTICATION) {
                throw new IllegalStateException("rule " + name + " is decided before authentication, and its key "
                        + source + " is not known then: expected .phase(Phase.AFTER_AUTHENTICATION), or another key");
            }
            Phase chosen =
                    phase != null ? phase : needsPrincipal ? Phase.AFTER_AUTHENTICATION : Phase.BEFORE_AUTHENTICATION;
            Rule rule = new Rule(this, source, chosen);
            // Checks that the limits fit together, now rather than on the first request.
            Charge.of(name, rule.limits);
            return rule;
        }

        /** If limits or costs are looked up, only the requests are denied for which the lookup finds nothing. */
        private void checkCost() {
            for (Limit limit : limits) {
                if (limit.takesPermits() && cost > limit.capacity() && limitSource == null && costSource == null) {
                    throw refused("cost " + cost + " exceeds limit " + limit
                            + ", so every request would be denied: expected at most " + limit.capacity()
                            + ", or this limit in a rule of its own");
                }
            }
        }

        private IllegalArgumentException refused(String why) {
            return new IllegalArgumentException("rule " + name + ": " + why);
        }
    }
}
