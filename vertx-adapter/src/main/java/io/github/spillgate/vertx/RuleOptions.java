package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.vertx.Settings.Schema;
import io.github.spillgate.vertx.Settings.Setting;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The settings of a rule, for {@link RateLimitOptions#addRule}. A null restores the default. */
public final class RuleOptions {

    static final String EXAMPLE = "{\"name\": \"address\", \"limits\": \"120/1m\"}";

    private static final Schema ALL = new Schema(Map.of());
    private static final Setting<String> NAME = ALL.optionalText("name", "login");
    private static final Setting<List<String>> PATHS = ALL.texts("paths", "/users/:id");
    private static final Setting<List<String>> EXCLUDE_PATHS = ALL.texts("exclude-paths", "/health/*");
    private static final Setting<List<String>> METHODS = ALL.texts("methods", "POST");
    private static final Setting<String> KEY = ALL.text("key", "address");
    private static final Setting<List<Limit>> LIMITS = ALL.list("limits", "120/1m", Limit::parse);
    private static final Setting<String> LIMITS_FROM = ALL.optionalText("limits-from", "plans");
    private static final Setting<Long> COST = ALL.number("cost", 1);
    private static final Setting<String> COST_FROM = ALL.optionalText("cost-from", "size");
    private static final Setting<Phase> PHASE = ALL.choice("phase", Phase.class, null);
    private static final Setting<WhenMissing> WHEN_MISSING = ALL.choice("when-missing", WhenMissing.class, null);
    private static final Setting<WhenAmbiguous> WHEN_AMBIGUOUS =
            ALL.choice("when-ambiguous", WhenAmbiguous.class, WhenAmbiguous.DENY);
    private static final Setting<WhenUndecided> WHEN_UNDECIDED =
            ALL.choice("when-undecided", WhenUndecided.class, WhenUndecided.ALLOW);
    private static final Setting<WhenLookupFails> WHEN_LOOKUP_FAILS =
            ALL.choice("when-lookup-fails", WhenLookupFails.class, WhenLookupFails.USE_RULE);
    private static final Setting<List<String>> REFUND_WHEN = ALL.texts("refund-when", "2xx");
    private static final Setting<String> UNLESS = ALL.optionalText("unless", "internal");
    private static final Setting<Boolean> SHADOW = ALL.flag("shadow", false);
    private static final Setting<Duration> TIMEOUT = ALL.duration("timeout", Duration.ofMillis(50));

    private final Settings settings;

    /** Creates a rule with the defaults. It needs a name and a limit. */
    public RuleOptions() {
        this(new JsonObject());
    }

    /**
     * Copies a rule.
     *
     * @param other the rule to copy
     */
    public RuleOptions(RuleOptions other) {
        settings = new Settings(Checks.some(other, "options", "new RuleOptions()").settings);
    }

    /**
     * Reads a rule from JSON.
     *
     * @param json the settings
     * @throws io.github.spillgate.http.settings.WrongSettingException if a setting does not exist or has the wrong
     *     type; the message names it and what was expected
     */
    public RuleOptions(JsonObject json) {
        this("", Checks.present(json, "json", EXAMPLE));
    }

    RuleOptions(String where, JsonObject json) {
        settings = new Settings(ALL, where, json);
    }

    /**
     * Returns the settings as JSON.
     *
     * @return a copy of those that were set
     */
    public JsonObject toJson() {
        return settings.toJson();
    }

    /**
     * Sets the name. Required. It is part of the names of the limits, such as {@code login-15m}.
     *
     * @param name a name such as {@code login}
     * @return this
     */
    public RuleOptions setName(@Nullable String name) {
        return set(NAME, name);
    }

    /** {@return the name; null if it is not set} */
    public @Nullable String getName() {
        return settings.find(NAME);
    }

    /**
     * Sets the paths that the rule applies to, all by default.
     *
     * @param paths patterns such as {@code /users/:id} and {@code /static/*}
     * @return this
     */
    public RuleOptions setPaths(String... paths) {
        return set(PATHS, paths);
    }

    /** {@return the paths that the rule applies to; empty for all} */
    public List<String> getPaths() {
        return settings.get(PATHS);
    }

    /**
     * Sets the paths that the rule does not apply to, none by default.
     *
     * @param excludePaths patterns such as {@code /health/*}
     * @return this
     */
    public RuleOptions setExcludePaths(String... excludePaths) {
        return set(EXCLUDE_PATHS, excludePaths);
    }

    /** {@return the paths that the rule does not apply to} */
    public List<String> getExcludePaths() {
        return settings.get(EXCLUDE_PATHS);
    }

    /**
     * Sets the methods that the rule applies to, all by default.
     *
     * @param methods methods such as {@code POST}
     * @return this
     */
    public RuleOptions setMethods(String... methods) {
        return set(METHODS, methods);
    }

    /** {@return the methods that the rule applies to; empty for all} */
    public List<String> getMethods() {
        return settings.get(METHODS);
    }

    /**
     * Sets the key that is charged, the client's address by default.
     *
     * @param key a key in the format of {@link io.github.spillgate.http.settings.KeySyntax}
     * @return this
     */
    public RuleOptions setKey(@Nullable String key) {
        return set(KEY, key);
    }

    /** {@return the key that is charged} */
    public String getKey() {
        return settings.get(KEY);
    }

    /**
     * Sets the limits, all of which must allow a request. At least one is required.
     *
     * @param limits limits such as {@code Limit.perMinute(120)}
     * @return this
     */
    public RuleOptions setLimits(Limit... limits) {
        return set(LIMITS, limits);
    }

    /** {@return the limits} */
    public List<Limit> getLimits() {
        return settings.get(LIMITS);
    }

    /**
     * Sets the lookup of a key's limits, none by default.
     *
     * @param limitsFrom a name for {@link RateLimiting.Builder#limits}
     * @return this
     */
    public RuleOptions setLimitsFrom(@Nullable String limitsFrom) {
        return set(LIMITS_FROM, limitsFrom);
    }

    /** {@return the lookup of a key's limits; null for none} */
    public @Nullable String getLimitsFrom() {
        return settings.find(LIMITS_FROM);
    }

    /**
     * Sets the number of permits that a request takes.
     *
     * @param cost 0 or more; 1 by default
     * @return this
     */
    public RuleOptions setCost(long cost) {
        return set(COST, cost);
    }

    /** {@return the number of permits that a request takes} */
    public long getCost() {
        return settings.get(COST);
    }

    /**
     * Sets the lookup of a request's cost, none by default.
     *
     * @param costFrom a name for {@link RateLimiting.Builder#cost}
     * @return this
     */
    public RuleOptions setCostFrom(@Nullable String costFrom) {
        return set(COST_FROM, costFrom);
    }

    /** {@return the lookup of a request's cost; null for none} */
    public @Nullable String getCostFrom() {
        return settings.find(COST_FROM);
    }

    /**
     * Sets when the rule is decided.
     *
     * @param phase the phase; by default after authentication if the key needs the user, else before
     * @return this
     */
    public RuleOptions setPhase(@Nullable Phase phase) {
        return set(PHASE, phase);
    }

    /** {@return when the rule is decided; null for the default of the key} */
    public @Nullable Phase getPhase() {
        return settings.find(PHASE);
    }

    /**
     * Sets the handling of requests without a key.
     *
     * @param whenMissing the handling; by default it depends on the key
     * @return this
     */
    public RuleOptions setWhenMissing(@Nullable WhenMissing whenMissing) {
        return set(WHEN_MISSING, whenMissing);
    }

    /** {@return the handling of requests without a key; null for the default of the key} */
    public @Nullable WhenMissing getWhenMissing() {
        return settings.find(WHEN_MISSING);
    }

    /**
     * Sets the handling of requests with several different values where the key has one.
     *
     * @param whenAmbiguous the handling; a denial with 400 by default
     * @return this
     */
    public RuleOptions setWhenAmbiguous(@Nullable WhenAmbiguous whenAmbiguous) {
        return set(WHEN_AMBIGUOUS, whenAmbiguous);
    }

    /** {@return the handling of requests with several different values of the key} */
    public WhenAmbiguous getWhenAmbiguous() {
        return settings.get(WHEN_AMBIGUOUS);
    }

    /**
     * Sets the handling of requests on which no decision is possible.
     *
     * @param whenUndecided the handling; they are allowed by default
     * @return this
     */
    public RuleOptions setWhenUndecided(@Nullable WhenUndecided whenUndecided) {
        return set(WHEN_UNDECIDED, whenUndecided);
    }

    /** {@return the handling of requests on which no decision is possible} */
    public WhenUndecided getWhenUndecided() {
        return settings.get(WHEN_UNDECIDED);
    }

    /**
     * Sets the handling of requests if the lookup of their limits or cost fails.
     *
     * @param whenLookupFails the handling; the rule's own limits and cost apply by default
     * @return this
     */
    public RuleOptions setWhenLookupFails(@Nullable WhenLookupFails whenLookupFails) {
        return set(WHEN_LOOKUP_FAILS, whenLookupFails);
    }

    /** {@return the handling of requests if a lookup fails} */
    public WhenLookupFails getWhenLookupFails() {
        return settings.get(WHEN_LOOKUP_FAILS);
    }

    /**
     * Sets the response statuses for which the permits of a request are refunded, none by default.
     *
     * @param refundWhen statuses such as {@code 2xx}
     * @return this
     */
    public RuleOptions setRefundWhen(String... refundWhen) {
        return set(REFUND_WHEN, refundWhen);
    }

    /** {@return the response statuses for which permits are refunded} */
    public List<String> getRefundWhen() {
        return settings.get(REFUND_WHEN);
    }

    /**
     * Sets the condition that exempts requests, none by default.
     *
     * @param unless a name for {@link RateLimiting.Builder#unless}
     * @return this
     */
    public RuleOptions setUnless(@Nullable String unless) {
        return set(UNLESS, unless);
    }

    /** {@return the condition that exempts requests; null for none} */
    public @Nullable String getUnless() {
        return settings.find(UNLESS);
    }

    /**
     * Sets whether the rule only decides and reports, and denies no request.
     *
     * @param shadow true for a shadow rule; false by default
     * @return this
     */
    public RuleOptions setShadow(boolean shadow) {
        return set(SHADOW, shadow);
    }

    /** {@return whether the rule denies no request} */
    public boolean isShadow() {
        return settings.get(SHADOW);
    }

    /**
     * Sets the timeout of the lookups of key, limits and cost together.
     *
     * @param timeout more than zero, and at most a minute; 50 ms by default
     * @return this
     */
    public RuleOptions setTimeout(@Nullable Duration timeout) {
        return set(TIMEOUT, timeout);
    }

    /** {@return the timeout of the lookups} */
    public Duration getTimeout() {
        return settings.get(TIMEOUT);
    }

    private RuleOptions set(Setting<?> setting, @Nullable Object value) {
        settings.put(setting, value);
        return this;
    }

    /** Returns the settings as a reader of rules takes them. */
    RuleSettings settings() {
        return new Values(
                getName(),
                getPaths(),
                getExcludePaths(),
                getMethods(),
                getKey(),
                getLimits(),
                getLimitsFrom(),
                getCost(),
                getCostFrom(),
                getPhase(),
                getWhenMissing(),
                getWhenAmbiguous(),
                getWhenUndecided(),
                getWhenLookupFails(),
                getRefundWhen(),
                getUnless(),
                isShadow(),
                getTimeout());
    }

    private record Values(
            @Nullable String name,
            List<String> paths,
            List<String> excludePaths,
            List<String> methods,
            String key,
            List<Limit> limits,
            @Nullable String limitsFrom,
            long cost,
            @Nullable String costFrom,
            @Nullable Phase phase,
            @Nullable WhenMissing whenMissing,
            WhenAmbiguous whenAmbiguous,
            WhenUndecided whenUndecided,
            WhenLookupFails whenLookupFails,
            List<String> refundWhen,
            @Nullable String unless,
            boolean shadow,
            Duration timeout)
            implements RuleSettings {}

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RuleOptions options && options.settings.equals(settings);
    }

    @Override
    public int hashCode() {
        return settings.hashCode();
    }

    @Override
    public String toString() {
        return "RuleOptions" + toJson().encode();
    }
}
