package io.github.spillgate.vertx;

import io.github.spillgate.Limit;
import io.github.spillgate.http.settings.ClientAddressSettings;
import io.github.spillgate.http.settings.ClientAddressSettings.Header;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.vertx.Settings.Schema;
import io.github.spillgate.vertx.Settings.Setting;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The settings of a limiter and its rules, in Java or as JSON:
 *
 * <pre>{@code
 * new RateLimitOptions()
 *         .setName("orders")
 *         .setRedisUri("redis://localhost:6379")
 *         .addRule(new RuleOptions().setName("address").setPaths("/v1/*").setLimits(Limit.perMinute(120)));
 * }</pre>
 *
 * <p>The names in JSON are those of the properties below {@code spillgate} in Spring Boot:
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
 * <p>Names may also be written in camel case. Instead of an array of strings, a string with commas is accepted. A null
 * restores the default. Setters have the checks of JSON, and options with the same settings are equal. {@link
 * RateLimiting} copies the options, and checks their ranges when it starts.
 */
public final class RateLimitOptions {

    /** Where permits are counted. */
    public enum StoreType {
        /** In Redis or PostgreSQL, if one of them has a URI; else in this process. */
        AUTO,
        /** In this process. */
        LOCAL
    }

    /** The fallback, which decides if Redis does not. */
    public enum FallbackType {
        /** This process decides, from what it knows of the counts. */
        LOCAL,
        /** All requests are allowed. */
        ALLOW,
        /** All requests are denied, with 503. */
        DENY,
        /** Each rule decides, by {@link RuleOptions#setWhenUndecided}. */
        ERROR
    }

    /** The handling of denied requests. */
    public enum Denials {
        /** They get 429 and a problem as JSON. */
        RESPOND,
        /** They fail with 429 and a {@link DeniedException}, for a failure handler. */
        FAIL
    }

    private static final Schema ALL = new Schema(Map.of(
            "redis", "{\"uri\": \"redis://localhost:6379\"}",
            "postgres", "{\"uri\": \"r2dbc:postgresql://localhost/orders\"}",
            "local", "{\"counts\": 100000}",
            "client-address", "{\"ipv6-prefix\": 56}",
            "headers", "{\"retry-after\": false}"));
    private static final Setting<String> NAME = ALL.optionalText("name", "orders");
    private static final Setting<StoreType> STORE = ALL.choice("store", StoreType.class, StoreType.AUTO);
    private static final Setting<String> REDIS_URI = ALL.secret("redis.uri", "redis://localhost:6379");
    private static final Setting<Boolean> REDIS_CLUSTER = ALL.flag("redis.cluster", false);
    private static final Setting<String> REDIS_NAMESPACE = ALL.text("redis.namespace", "spillgate");
    private static final Setting<String> POSTGRES_URI =
            ALL.secret("postgres.uri", "r2dbc:postgresql://localhost/orders");
    private static final Setting<String> POSTGRES_NAMESPACE = ALL.text("postgres.namespace", "spillgate");
    private static final Setting<String> POSTGRES_TABLE = ALL.text("postgres.table", "spillgate_counts");
    private static final Setting<Boolean> POSTGRES_CREATE_TABLE = ALL.flag("postgres.create-table", true);
    private static final Setting<Boolean> POSTGRES_LOGGED = ALL.flag("postgres.logged", false);
    private static final Setting<Integer> POSTGRES_CONNECTIONS = ALL.integer("postgres.connections", 3);
    private static final Setting<Duration> DEADLINE = ALL.duration("deadline", Duration.ofMillis(100));
    private static final Setting<Duration> READY_TIMEOUT = ALL.duration("ready-timeout", Duration.ofSeconds(2));
    private static final Setting<Duration> CACHE_DENIALS = ALL.duration("cache-denials", Duration.ofSeconds(1));
    private static final Setting<Double> DEBT = ALL.decimal("debt", 1.0, 1.5);
    private static final Setting<Duration> LONGEST_HOLD = ALL.duration("longest-hold", Duration.ofHours(1));
    private static final Setting<FallbackType> FALLBACK =
            ALL.choice("fallback", FallbackType.class, FallbackType.LOCAL);
    private static final Setting<Integer> LOCAL_COUNTS = ALL.integer("local.counts", 100_000);
    private static final Setting<Double> LOCAL_SHARE = ALL.decimal("local.share", null, 0.25);
    private static final Setting<Header> CLIENT_ADDRESS_HEADER =
            ALL.choice("client-address.header", Header.class, Header.NONE);
    private static final Setting<List<String>> TRUSTED_PROXIES =
            ALL.texts("client-address.trusted-proxies", "10.0.0.0/8");
    private static final Setting<Integer> IPV6_PREFIX = ALL.integer("client-address.ipv6-prefix", 64);
    private static final Setting<Integer> MAX_HOPS = ALL.integer("client-address.max-hops", 16);
    private static final Setting<String> SECRET = ALL.secret("secret", "a text of at least 16 bytes");
    private static final Setting<Boolean> RATE_LIMIT = ALL.flag("headers.rate-limit", true);
    private static final Setting<Boolean> X_RATE_LIMIT = ALL.flag("headers.x-rate-limit", true);
    private static final Setting<Boolean> RETRY_AFTER = ALL.flag("headers.retry-after", true);
    private static final Setting<Boolean> PREFLIGHTS = ALL.flag("preflights", true);
    private static final Setting<Denials> DENIALS = ALL.choice("denials", Denials.class, Denials.RESPOND);
    private static final Setting<Boolean> ENABLED = ALL.flag("enabled", true);
    private static final Schema LIMITER = new Schema(Map.of());
    private static final Setting<List<Limit>> LIMITER_LIMITS = LIMITER.list("limits", "10/s", Limit::parse);
    private static final Setting<Map<String, Settings>> LIMITERS =
            ALL.named("limiters", "partner", "{\"limits\": \"10/s\"}", LIMITER);
    private static final Setting<List<RuleOptions>> RULES = ALL.objects("rules", RuleOptions.EXAMPLE, RuleOptions::new);

    private final Settings settings;

    /** Creates options with the defaults. */
    public RateLimitOptions() {
        this(new JsonObject());
    }

    /**
     * Copies options.
     *
     * @param other the options to copy
     */
    public RateLimitOptions(RateLimitOptions other) {
        settings = new Settings(Checks.some(other, "options", "new RateLimitOptions()").settings);
    }

    /**
     * Reads options from JSON.
     *
     * @param json the settings
     * @throws WrongSettingException if a setting does not exist or has the wrong type; the message names it and what
     *     was expected
     */
    public RateLimitOptions(JsonObject json) {
        settings = new Settings(ALL, "", Checks.present(json, "json", "{\"name\": \"orders\"}"));
    }

    /**
     * Returns the settings as JSON.
     *
     * @return a copy of those that were set, including the secret
     */
    public JsonObject toJson() {
        return settings.toJson();
    }

    /**
     * Sets the name of the limiter. Required. Instances with the same name share their counts.
     *
     * @param name a name such as {@code orders}
     * @return this
     */
    public RateLimitOptions setName(@Nullable String name) {
        return set(NAME, name);
    }

    /** {@return the name; null if it is not set} */
    public @Nullable String getName() {
        return settings.find(NAME);
    }

    /**
     * Sets where permits are counted.
     *
     * @param store the store; by default Redis or PostgreSQL, if one of them has a URI
     * @return this
     */
    public RateLimitOptions setStore(@Nullable StoreType store) {
        return set(STORE, store);
    }

    /** {@return where permits are counted} */
    public StoreType getStore() {
        return settings.get(STORE);
    }

    /**
     * Sets the address of Redis.
     *
     * @param redisUri a URI such as {@code redis://localhost:6379}; in a cluster some nodes, separated by commas
     * @return this
     */
    public RateLimitOptions setRedisUri(@Nullable String redisUri) {
        return set(REDIS_URI, redisUri);
    }

    /** {@return the address of Redis; null if it is not set} */
    public @Nullable String getRedisUri() {
        return settings.find(REDIS_URI);
    }

    /**
     * Sets whether Redis is a cluster.
     *
     * @param redisCluster true for a cluster; false by default
     * @return this
     */
    public RateLimitOptions setRedisCluster(boolean redisCluster) {
        return set(REDIS_CLUSTER, redisCluster);
    }

    /** {@return whether Redis is a cluster} */
    public boolean isRedisCluster() {
        return settings.get(REDIS_CLUSTER);
    }

    /**
     * Sets the first part of all keys in Redis.
     *
     * @param redisNamespace the namespace, {@code spillgate} by default
     * @return this
     */
    public RateLimitOptions setRedisNamespace(@Nullable String redisNamespace) {
        return set(REDIS_NAMESPACE, redisNamespace);
    }

    /** {@return the first part of all keys in Redis} */
    public String getRedisNamespace() {
        return settings.get(REDIS_NAMESPACE);
    }

    /**
     * Sets the address of PostgreSQL.
     *
     * @param postgresUri a URI such as {@code r2dbc:postgresql://user:password@localhost/orders}
     * @return this
     */
    public RateLimitOptions setPostgresUri(@Nullable String postgresUri) {
        return set(POSTGRES_URI, postgresUri);
    }

    /** {@return the address of PostgreSQL; null if it is not set} */
    public @Nullable String getPostgresUri() {
        return settings.find(POSTGRES_URI);
    }

    /**
     * Sets the first part of all keys in PostgreSQL.
     *
     * @param postgresNamespace the namespace, {@code spillgate} by default
     * @return this
     */
    public RateLimitOptions setPostgresNamespace(@Nullable String postgresNamespace) {
        return set(POSTGRES_NAMESPACE, postgresNamespace);
    }

    /** {@return the first part of all keys in PostgreSQL} */
    public String getPostgresNamespace() {
        return settings.get(POSTGRES_NAMESPACE);
    }

    /**
     * Sets the table in PostgreSQL.
     *
     * @param postgresTable the name of the table, with or without its schema, {@code spillgate_counts} by default
     * @return this
     */
    public RateLimitOptions setPostgresTable(@Nullable String postgresTable) {
        return set(POSTGRES_TABLE, postgresTable);
    }

    /** {@return the table in PostgreSQL} */
    public String getPostgresTable() {
        return settings.get(POSTGRES_TABLE);
    }

    /**
     * Sets whether the table is created if it does not exist.
     *
     * @param postgresCreateTable false if it must exist; true by default
     * @return this
     */
    public RateLimitOptions setPostgresCreateTable(boolean postgresCreateTable) {
        return set(POSTGRES_CREATE_TABLE, postgresCreateTable);
    }

    /** {@return whether the table is created if it does not exist} */
    public boolean isPostgresCreateTable() {
        return settings.get(POSTGRES_CREATE_TABLE);
    }

    /**
     * Sets whether the table that is created survives a crash of the server.
     *
     * @param postgresLogged true for a table with a write-ahead log; false by default
     * @return this
     */
    public RateLimitOptions setPostgresLogged(boolean postgresLogged) {
        return set(POSTGRES_LOGGED, postgresLogged);
    }

    /** {@return whether the table that is created survives a crash of the server} */
    public boolean isPostgresLogged() {
        return settings.get(POSTGRES_LOGGED);
    }

    /**
     * Sets the number of connections to PostgreSQL.
     *
     * @param postgresConnections the number, 1 to 8, 3 by default
     * @return this
     */
    public RateLimitOptions setPostgresConnections(int postgresConnections) {
        return set(POSTGRES_CONNECTIONS, postgresConnections);
    }

    /** {@return the number of connections to PostgreSQL} */
    public int getPostgresConnections() {
        return settings.get(POSTGRES_CONNECTIONS);
    }

    /**
     * Sets the longest time for a decision, after its lookups. The fallback decides if Redis has not.
     *
     * @param deadline 1 ms to 1 minute; 100 ms by default
     * @return this
     */
    public RateLimitOptions setDeadline(@Nullable Duration deadline) {
        return set(DEADLINE, deadline);
    }

    /** {@return the longest time for a decision} */
    public Duration getDeadline() {
        return settings.get(DEADLINE);
    }

    /**
     * Sets the longest time that {@link RateLimiting#ready()} waits for Redis.
     *
     * @param readyTimeout the time, 2 s by default
     * @return this
     */
    public RateLimitOptions setReadyTimeout(@Nullable Duration readyTimeout) {
        return set(READY_TIMEOUT, readyTimeout);
    }

    /** {@return the longest time to wait for Redis} */
    public Duration getReadyTimeout() {
        return settings.get(READY_TIMEOUT);
    }

    /**
     * Sets the longest time that a denial is cached.
     *
     * @param cacheDenials 0 to 1 minute; 1 s by default
     * @return this
     */
    public RateLimitOptions setCacheDenials(@Nullable Duration cacheDenials) {
        return set(CACHE_DENIALS, cacheDenials);
    }

    /** {@return the longest time that a denial is cached} */
    public Duration getCacheDenials() {
        return settings.get(CACHE_DENIALS);
    }

    /**
     * Sets the bound of real costs that exceed a limit, as a multiple of the limit.
     *
     * @param debt 0 to 10; 1 by default
     * @return this
     */
    public RateLimitOptions setDebt(double debt) {
        return set(DEBT, debt);
    }

    /** {@return the bound of real costs, as a multiple of the limit} */
    public double getDebt() {
        return settings.get(DEBT);
    }

    /**
     * Sets the longest time that a request holds permits of a concurrency limit.
     *
     * @param longestHold up to 366 days; 1 h by default
     * @return this
     */
    public RateLimitOptions setLongestHold(@Nullable Duration longestHold) {
        return set(LONGEST_HOLD, longestHold);
    }

    /** {@return the longest time that a request holds permits} */
    public Duration getLongestHold() {
        return settings.get(LONGEST_HOLD);
    }

    /**
     * Sets the fallback, which decides if Redis does not.
     *
     * @param fallback the fallback; by default this process decides
     * @return this
     */
    public RateLimitOptions setFallback(@Nullable FallbackType fallback) {
        return set(FALLBACK, fallback);
    }

    /** {@return the fallback} */
    public FallbackType getFallback() {
        return settings.get(FALLBACK);
    }

    /**
     * Sets the maximum number of counts in this process.
     *
     * @param localCounts the number, 100,000 by default
     * @return this
     */
    public RateLimitOptions setLocalCounts(int localCounts) {
        return set(LOCAL_COUNTS, localCounts);
    }

    /** {@return the maximum number of counts in this process} */
    public int getLocalCounts() {
        return settings.get(LOCAL_COUNTS);
    }

    /**
     * Sets this instance's share of each limit during an outage of Redis.
     *
     * @param localShare more than 0, and at most 1; null, the default, to derive it from the use
     * @return this
     */
    public RateLimitOptions setLocalShare(@Nullable Double localShare) {
        return set(LOCAL_SHARE, localShare);
    }

    /** {@return the share of this instance; null if it follows from the use} */
    public @Nullable Double getLocalShare() {
        return settings.find(LOCAL_SHARE);
    }

    /**
     * Sets the header with the address of the client, which trusted proxies write.
     *
     * @param clientAddressHeader the header; none by default
     * @return this
     */
    public RateLimitOptions setClientAddressHeader(@Nullable Header clientAddressHeader) {
        return set(CLIENT_ADDRESS_HEADER, clientAddressHeader);
    }

    /** {@return the header with the address of the client} */
    public Header getClientAddressHeader() {
        return settings.get(CLIENT_ADDRESS_HEADER);
    }

    /**
     * Sets the proxies with a header that is trusted.
     *
     * @param trustedProxies addresses and networks such as {@code 10.0.0.0/8}; none by default
     * @return this
     */
    public RateLimitOptions setTrustedProxies(String... trustedProxies) {
        return set(TRUSTED_PROXIES, trustedProxies);
    }

    /** {@return the proxies with a header that is trusted} */
    public List<String> getTrustedProxies() {
        return settings.get(TRUSTED_PROXIES);
    }

    /**
     * Sets how many bits of an IPv6 address identify a client.
     *
     * @param ipv6Prefix the number, 64 by default
     * @return this
     */
    public RateLimitOptions setIpv6Prefix(int ipv6Prefix) {
        return set(IPV6_PREFIX, ipv6Prefix);
    }

    /** {@return how many bits of an IPv6 address identify a client} */
    public int getIpv6Prefix() {
        return settings.get(IPV6_PREFIX);
    }

    /**
     * Sets how many addresses of the header are read.
     *
     * @param maxHops the number, 16 by default
     * @return this
     */
    public RateLimitOptions setMaxHops(int maxHops) {
        return set(MAX_HOPS, maxHops);
    }

    /** {@return how many addresses of the header are read} */
    public int getMaxHops() {
        return settings.get(MAX_HOPS);
    }

    /**
     * Sets the secret of hashed keys, the same in all instances.
     *
     * @param secret at least 16 bytes in UTF-8; none by default
     * @return this
     */
    public RateLimitOptions setSecret(@Nullable String secret) {
        return set(SECRET, secret);
    }

    /** {@return the secret of hashed keys; null if it is not set} */
    public @Nullable String getSecret() {
        return settings.find(SECRET);
    }

    /**
     * Sets whether responses have {@code RateLimit} and {@code RateLimit-Policy}.
     *
     * @param rateLimitFields true by default
     * @return this
     */
    public RateLimitOptions setRateLimitFields(boolean rateLimitFields) {
        return set(RATE_LIMIT, rateLimitFields);
    }

    /** {@return whether responses have {@code RateLimit} and {@code RateLimit-Policy}} */
    public boolean isRateLimitFields() {
        return settings.get(RATE_LIMIT);
    }

    /**
     * Sets whether responses have {@code X-RateLimit-Limit}, {@code -Remaining} and {@code -Reset}.
     *
     * @param xRateLimitFields true by default
     * @return this
     */
    public RateLimitOptions setXRateLimitFields(boolean xRateLimitFields) {
        return set(X_RATE_LIMIT, xRateLimitFields);
    }

    /** {@return whether responses have {@code X-RateLimit-Limit} and the like} */
    public boolean isXRateLimitFields() {
        return settings.get(X_RATE_LIMIT);
    }

    /**
     * Sets whether denials have {@code Retry-After}.
     *
     * @param retryAfterField true by default
     * @return this
     */
    public RateLimitOptions setRetryAfterField(boolean retryAfterField) {
        return set(RETRY_AFTER, retryAfterField);
    }

    /** {@return whether denials have {@code Retry-After}} */
    public boolean isRetryAfterField() {
        return settings.get(RETRY_AFTER);
    }

    /**
     * Sets whether CORS preflights are limited.
     *
     * @param preflights true by default
     * @return this
     */
    public RateLimitOptions setPreflights(boolean preflights) {
        return set(PREFLIGHTS, preflights);
    }

    /** {@return whether CORS preflights are limited} */
    public boolean isPreflights() {
        return settings.get(PREFLIGHTS);
    }

    /**
     * Sets the handling of denied requests.
     *
     * @param denials the handling; a response by default
     * @return this
     */
    public RateLimitOptions setDenials(@Nullable Denials denials) {
        return set(DENIALS, denials);
    }

    /** {@return the handling of denied requests} */
    public Denials getDenials() {
        return settings.get(DENIALS);
    }

    /**
     * Sets whether requests are limited. If not, nothing connects to Redis.
     *
     * @param enabled true by default
     * @return this
     */
    public RateLimitOptions setEnabled(boolean enabled) {
        return set(ENABLED, enabled);
    }

    /** {@return whether requests are limited} */
    public boolean isEnabled() {
        return settings.get(ENABLED);
    }

    /**
     * Adds a limiter for code, which {@link RateLimiting#limiter(String)} returns.
     *
     * @param name a name such as {@code partner}; replaces one of that name
     * @param limits one or more limits, all of which must allow a call
     * @return this
     */
    public RateLimitOptions addLimiter(String name, Limit... limits) {
        Map<String, Object> limiters = new LinkedHashMap<>(settings.get(LIMITERS));
        limiters.put(Checks.present(name, "name", "\"partner\""), Collections.singletonMap("limits", limits));
        return set(LIMITERS, limiters);
    }

    /**
     * Sets the limiters for code.
     *
     * @param limiters the limits of each limiter, by its name
     * @return this
     */
    public RateLimitOptions setLimiters(@Nullable Map<String, List<Limit>> limiters) {
        set(LIMITERS, null);
        if (limiters != null) {
            limiters.forEach((name, limits) -> addLimiter(name, limits.toArray(Limit[]::new)));
        }
        return this;
    }

    /** {@return the limits of each limiter for code, by its name} */
    public Map<String, List<Limit>> getLimiters() {
        Map<String, List<Limit>> limits = new LinkedHashMap<>();
        settings.get(LIMITERS).forEach((name, limiter) -> limits.put(name, limiter.get(LIMITER_LIMITS)));
        return limits;
    }

    /**
     * Adds a rule.
     *
     * @param rule the rule, which is copied
     * @return this
     */
    public RateLimitOptions addRule(RuleOptions rule) {
        List<RuleOptions> rules = new ArrayList<>(settings.get(RULES));
        rules.add(rule);
        return set(RULES, rules);
    }

    /**
     * Sets the rules.
     *
     * @param rules the rules, which are copied
     * @return this
     */
    public RateLimitOptions setRules(@Nullable List<RuleOptions> rules) {
        return set(RULES, rules);
    }

    /** {@return a copy of the rules} */
    public List<RuleOptions> getRules() {
        return settings.get(RULES).stream().map(RuleOptions::new).toList();
    }

    private RateLimitOptions set(Setting<?> setting, @Nullable Object value) {
        settings.put(setting, value);
        return this;
    }

    /** Fails if these options have no rules for a running limiter, or another setting of theirs needs a restart. */
    void checkReplace(RateLimitOptions running) {
        if (!settings.isSet(RULES)) {
            throw new WrongSettingException(
                    RULES.name(),
                    null,
                    "there are none: expected those that replace the current ones, for example [" + RuleOptions.EXAMPLE
                            + "], or [] to limit nothing",
                    null);
        }
        settings.rejectChanges(running.settings, RULES);
    }

    ClientAddressSettings clientAddress() {
        return new ClientAddressOptions(getClientAddressHeader(), getTrustedProxies(), getIpv6Prefix(), getMaxHops());
    }

    private record ClientAddressOptions(Header header, List<String> trustedProxies, int ipv6Prefix, int maxHops)
            implements ClientAddressSettings {}

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RateLimitOptions options && options.settings.equals(settings);
    }

    @Override
    public int hashCode() {
        return settings.hashCode();
    }

    /** Returns the options for log messages, without secrets. */
    @Override
    public String toString() {
        return "RateLimitOptions[name=" + getName() + ", rules="
                + getRules().stream().map(RuleOptions::getName).toList() + "]";
    }
}
