package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.ClientAddressSettings;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.RuleSettings;
import io.github.spillgate.internal.Checks;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The settings of a limiter and its rules, as JSON. The names are those of the properties below {@code spillgate} in
 * Spring Boot:
 *
 * <pre>{@code
 * {
 *   "name": "orders",
 *   "redis": {"uri": "redis://localhost:6379"},
 *   "client-address": {"header": "x-forwarded-for", "trusted-proxies": ["10.0.0.0/8"]},
 *   "rules": [
 *     {"name": "address", "paths": "/v1/*", "limits": "120/1m"},
 *     {"name": "login", "paths": "/login", "methods": "POST", "limits": "5/15m", "refund-when": "2xx"}
 *   ]
 * }
 * }</pre>
 *
 * <p>Names may also be written in camel case. Instead of an array of strings, a string with commas is accepted.
 * Immutable.
 */
public final class RateLimitOptions {

    /** The store of the counts. */
    enum StoreType {
        AUTO,
        LOCAL
    }

    /** The fallback, which decides if Redis does not. */
    enum FallbackType {
        LOCAL,
        ALLOW,
        DENY,
        ERROR
    }

    /** The handling of denied requests. */
    enum Denials {
        RESPOND,
        FAIL
    }

    private final JsonObject json;
    private final ParsedOptions read;

    /**
     * Reads options from JSON.
     *
     * @param json the settings
     * @throws io.github.spillgate.http.WrongSettingException if a setting does not exist or has the wrong type; the
     *     message names it and what was expected
     */
    public RateLimitOptions(JsonObject json) {
        Checks.present(json, "json", "{\"name\": \"orders\"}");
        this.json = json.copy();
        this.read = ParsedOptions.of(new Settings("", this.json));
    }

    /**
     * Returns the settings as JSON.
     *
     * @return a copy, including the secret if one is set
     */
    public JsonObject toJson() {
        return json.copy();
    }

    ParsedOptions read() {
        return read;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RateLimitOptions options && options.json.equals(json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    /** Returns the options for log messages, without secrets. */
    @Override
    public String toString() {
        return "RateLimitOptions[name=" + read.name + ", rules="
                + read.rules.stream().map(RuleSettings::name).toList() + "]";
    }

    /** The parsed settings. */
    record ParsedOptions(
            @Nullable String name,
            StoreType store,
            RedisOptions redis,
            Duration deadline,
            Duration readyTimeout,
            Duration cacheDenials,
            double debt,
            Duration longestHold,
            FallbackType fallback,
            LocalOptions local,
            AddressOptions clientAddress,
            @Nullable String secret,
            HeaderOptions headers,
            boolean preflights,
            Denials denials,
            boolean enabled,
            List<RuleOptions> rules) {

        static ParsedOptions of(Settings all) {
            ParsedOptions read = new ParsedOptions(
                    all.text("name"),
                    all.choice("store", StoreType.class, StoreType.AUTO),
                    RedisOptions.of(all.below("redis")),
                    all.duration("deadline", Duration.ofMillis(100)),
                    all.duration("ready-timeout", Duration.ofSeconds(2)),
                    all.duration("cache-denials", Duration.ofSeconds(1)),
                    all.decimal("debt", 1),
                    all.duration("longest-hold", Duration.ofHours(1)),
                    all.choice("fallback", FallbackType.class, FallbackType.LOCAL),
                    LocalOptions.of(all.below("local")),
                    AddressOptions.of(all.below("client-address")),
                    all.text("secret"),
                    HeaderOptions.of(all.below("headers")),
                    all.flag("preflights", true),
                    all.choice("denials", Denials.class, Denials.RESPOND),
                    all.flag("enabled", true),
                    all.each("rules").stream().map(RuleOptions::of).toList());
            all.rejectUnknown();
            return read;
        }
    }

    /** The settings of Redis. */
    record RedisOptions(@Nullable String uri, boolean isCluster, String namespace) {

        static RedisOptions of(Settings redis) {
            RedisOptions read = new RedisOptions(
                    redis.text("uri"), redis.flag("cluster", false), redis.text("namespace", "spillgate"));
            redis.rejectUnknown();
            return read;
        }
    }

    /** The settings of the store in this process. */
    record LocalOptions(int counts, @Nullable Double share) {

        static LocalOptions of(Settings local) {
            LocalOptions read = new LocalOptions(local.integer("counts", 100_000), local.fraction("share"));
            local.rejectUnknown();
            return read;
        }
    }

    /** The settings of the client's address. */
    record AddressOptions(Header header, List<String> trustedProxies, int ipv6Prefix, int maxHops)
            implements ClientAddressSettings {

        static AddressOptions of(Settings client) {
            AddressOptions read = new AddressOptions(
                    client.choice("header", Header.class, Header.NONE),
                    client.texts("trusted-proxies"),
                    client.integer("ipv6-prefix", 64),
                    client.integer("max-hops", 16));
            client.rejectUnknown();
            return read;
        }
    }

    /** The settings of the header fields. */
    record HeaderOptions(boolean rateLimit, boolean xRateLimit, boolean retryAfter) {

        static HeaderOptions of(Settings headers) {
            HeaderOptions read = new HeaderOptions(
                    headers.flag("rate-limit", true),
                    headers.flag("x-rate-limit", true),
                    headers.flag("retry-after", true));
            headers.rejectUnknown();
            return read;
        }
    }

    /** The settings of a rule. */
    record RuleOptions(
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
            implements RuleSettings {

        static RuleOptions of(Settings rule) {
            RuleOptions options = new RuleOptions(
                    rule.text("name"),
                    rule.texts("paths"),
                    rule.texts("exclude-paths"),
                    rule.texts("methods"),
                    rule.text("key", "address"),
                    rule.list("limits", Limit::parse),
                    rule.text("limits-from"),
                    rule.number("cost", 1),
                    rule.text("cost-from"),
                    rule.choice("phase", Phase.class),
                    rule.choice("when-missing", WhenMissing.class),
                    rule.choice("when-ambiguous", WhenAmbiguous.class, WhenAmbiguous.DENY),
                    rule.choice("when-undecided", WhenUndecided.class, WhenUndecided.ALLOW),
                    rule.choice("when-lookup-fails", WhenLookupFails.class, WhenLookupFails.USE_RULE),
                    rule.texts("refund-when"),
                    rule.text("unless"),
                    rule.flag("shadow", false),
                    rule.duration("timeout", Duration.ofMillis(50)));
            rule.rejectUnknown();
            return options;
        }
    }
}
