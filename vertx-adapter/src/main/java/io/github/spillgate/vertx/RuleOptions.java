package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.internal.Checks;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The settings of a rule, for {@link RateLimitOptions#addRule}. A null restores the default. */
public final class RuleOptions implements RuleSettings {

    private final Settings rule;

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
        this(Checks.present(other, "other", "new RuleOptions()").toJson());
    }

    /**
     * Reads a rule from JSON.
     *
     * @param json the settings
     * @throws io.github.spillgate.http.settings.WrongSettingException if a setting does not exist or has the wrong
     *     type; the message names it and what was expected
     */
    public RuleOptions(JsonObject json) {
        this(new Settings(
                "",
                Checks.present(json, "json", "{\"name\": \"address\", \"limits\": \"120/1m\"}")
                        .copy()));
    }

    RuleOptions(Settings rule) {
        this.rule = rule;
        // Reads each once, so that a wrong value is reported here.
        Stream.<Runnable>of(
                        this::name,
                        this::paths,
                        this::excludePaths,
                        this::methods,
                        this::key,
                        this::limits,
                        this::limitsFrom,
                        this::cost,
                        this::costFrom,
                        this::phase,
                        this::whenMissing,
                        this::whenAmbiguous,
                        this::whenUndecided,
                        this::whenLookupFails,
                        this::refundWhen,
                        this::unless,
                        this::shadow,
                        this::timeout)
                .forEach(Runnable::run);
        rule.rejectUnknown();
    }

    /**
     * Returns the settings as JSON.
     *
     * @return a copy of those that were set
     */
    public JsonObject toJson() {
        return rule.toJson();
    }

    /**
     * Sets the name. Required. It is part of the names of the limits, such as {@code login-15m}.
     *
     * @param name a name such as {@code login}
     * @return this
     */
    public RuleOptions setName(@Nullable String name) {
        rule.put("name", name);
        return this;
    }

    @Override
    public @Nullable String name() {
        return rule.text("name");
    }

    /**
     * Sets the paths that the rule applies to, all by default.
     *
     * @param paths patterns such as {@code /users/:id} and {@code /static/*}
     * @return this
     */
    public RuleOptions setPaths(String... paths) {
        rule.put("paths", List.of(paths));
        return this;
    }

    @Override
    public List<String> paths() {
        return rule.texts("paths");
    }

    /**
     * Sets the paths that the rule does not apply to, none by default.
     *
     * @param excludePaths patterns such as {@code /health/*}
     * @return this
     */
    public RuleOptions setExcludePaths(String... excludePaths) {
        rule.put("exclude-paths", List.of(excludePaths));
        return this;
    }

    @Override
    public List<String> excludePaths() {
        return rule.texts("exclude-paths");
    }

    /**
     * Sets the methods that the rule applies to, all by default.
     *
     * @param methods methods such as {@code POST}
     * @return this
     */
    public RuleOptions setMethods(String... methods) {
        rule.put("methods", List.of(methods));
        return this;
    }

    @Override
    public List<String> methods() {
        return rule.texts("methods");
    }

    /**
     * Sets the key that is charged, the client's address by default.
     *
     * @param key a key in the format of {@link io.github.spillgate.http.settings.KeySyntax}
     * @return this
     */
    public RuleOptions setKey(@Nullable String key) {
        rule.put("key", key);
        return this;
    }

    @Override
    public String key() {
        return rule.text("key", "address");
    }

    /**
     * Sets the limits, all of which must allow a request. At least one is required.
     *
     * @param limits limits such as {@code Limit.perMinute(120)}
     * @return this
     */
    public RuleOptions setLimits(Limit... limits) {
        rule.put("limits", List.of(limits));
        return this;
    }

    @Override
    public List<Limit> limits() {
        return rule.list("limits", Limit::parse);
    }

    /**
     * Sets the lookup of a key's limits, none by default.
     *
     * @param limitsFrom a name for {@link RateLimiting.Builder#limits}
     * @return this
     */
    public RuleOptions setLimitsFrom(@Nullable String limitsFrom) {
        rule.put("limits-from", limitsFrom);
        return this;
    }

    @Override
    public @Nullable String limitsFrom() {
        return rule.text("limits-from");
    }

    /**
     * Sets the number of permits that a request takes.
     *
     * @param cost 0 or more; 1 by default
     * @return this
     */
    public RuleOptions setCost(long cost) {
        rule.put("cost", cost);
        return this;
    }

    @Override
    public long cost() {
        return rule.number("cost", 1);
    }

    /**
     * Sets the lookup of a request's cost, none by default.
     *
     * @param costFrom a name for {@link RateLimiting.Builder#cost}
     * @return this
     */
    public RuleOptions setCostFrom(@Nullable String costFrom) {
        rule.put("cost-from", costFrom);
        return this;
    }

    @Override
    public @Nullable String costFrom() {
        return rule.text("cost-from");
    }

    /**
     * Sets when the rule is decided.
     *
     * @param phase the phase; by default after authentication if the key needs the user, else before
     * @return this
     */
    public RuleOptions setPhase(@Nullable Phase phase) {
        rule.put("phase", phase);
        return this;
    }

    @Override
    public @Nullable Phase phase() {
        return rule.choice("phase", Phase.class);
    }

    /**
     * Sets the handling of requests without a key.
     *
     * @param whenMissing the handling; by default it depends on the key
     * @return this
     */
    public RuleOptions setWhenMissing(@Nullable WhenMissing whenMissing) {
        rule.put("when-missing", whenMissing);
        return this;
    }

    @Override
    public @Nullable WhenMissing whenMissing() {
        return rule.choice("when-missing", WhenMissing.class);
    }

    /**
     * Sets the handling of requests with several different values where the key has one.
     *
     * @param whenAmbiguous the handling; a denial with 400 by default
     * @return this
     */
    public RuleOptions setWhenAmbiguous(@Nullable WhenAmbiguous whenAmbiguous) {
        rule.put("when-ambiguous", whenAmbiguous);
        return this;
    }

    @Override
    public WhenAmbiguous whenAmbiguous() {
        return rule.choice("when-ambiguous", WhenAmbiguous.class, WhenAmbiguous.DENY);
    }

    /**
     * Sets the handling of requests on which no decision is possible.
     *
     * @param whenUndecided the handling; they are allowed by default
     * @return this
     */
    public RuleOptions setWhenUndecided(@Nullable WhenUndecided whenUndecided) {
        rule.put("when-undecided", whenUndecided);
        return this;
    }

    @Override
    public WhenUndecided whenUndecided() {
        return rule.choice("when-undecided", WhenUndecided.class, WhenUndecided.ALLOW);
    }

    /**
     * Sets the handling of requests if the lookup of their limits or cost fails.
     *
     * @param whenLookupFails the handling; the rule's own limits and cost apply by default
     * @return this
     */
    public RuleOptions setWhenLookupFails(@Nullable WhenLookupFails whenLookupFails) {
        rule.put("when-lookup-fails", whenLookupFails);
        return this;
    }

    @Override
    public WhenLookupFails whenLookupFails() {
        return rule.choice("when-lookup-fails", WhenLookupFails.class, WhenLookupFails.USE_RULE);
    }

    /**
     * Sets the response statuses for which the permits of a request are refunded, none by default.
     *
     * @param refundWhen statuses such as {@code 2xx}
     * @return this
     */
    public RuleOptions setRefundWhen(String... refundWhen) {
        rule.put("refund-when", List.of(refundWhen));
        return this;
    }

    @Override
    public List<String> refundWhen() {
        return rule.texts("refund-when");
    }

    /**
     * Sets the condition that exempts requests, none by default.
     *
     * @param unless a name for {@link RateLimiting.Builder#unless}
     * @return this
     */
    public RuleOptions setUnless(@Nullable String unless) {
        rule.put("unless", unless);
        return this;
    }

    @Override
    public @Nullable String unless() {
        return rule.text("unless");
    }

    /**
     * Sets whether the rule only decides and reports, and denies no request.
     *
     * @param shadow true for a shadow rule; false by default
     * @return this
     */
    public RuleOptions setShadow(boolean shadow) {
        rule.put("shadow", shadow);
        return this;
    }

    @Override
    public boolean shadow() {
        return rule.flag("shadow", false);
    }

    /**
     * Sets the timeout of the lookups of key, limits and cost together.
     *
     * @param timeout more than zero, and at most a minute; 50 ms by default
     * @return this
     */
    public RuleOptions setTimeout(@Nullable Duration timeout) {
        rule.put("timeout", timeout);
        return this;
    }

    @Override
    public Duration timeout() {
        return rule.duration("timeout", Duration.ofMillis(50));
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RuleOptions options && options.rule.equals(rule);
    }

    @Override
    public int hashCode() {
        return rule.hashCode();
    }

    @Override
    public String toString() {
        return "RuleOptions" + toJson().encode();
    }
}
