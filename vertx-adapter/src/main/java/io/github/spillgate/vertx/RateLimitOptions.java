package io.github.spillgate.vertx;

import io.github.spillgate.http.settings.ClientAddressSettings;
import io.github.spillgate.internal.Checks;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
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
 * restores the default. {@link RateLimiting} copies the options, and checks their ranges when it starts.
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

    private final Settings all;
    private final Settings redis;
    private final Settings postgres;
    private final Settings local;
    private final Settings client;
    private final Settings headers;

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
        this(Checks.present(other, "other", "new RateLimitOptions()").toJson());
    }

    /**
     * Reads options from JSON.
     *
     * @param json the settings
     * @throws io.github.spillgate.http.settings.WrongSettingException if a setting does not exist or has the wrong
     *     type; the message names it and what was expected
     */
    public RateLimitOptions(JsonObject json) {
        all = new Settings(
                "", Checks.present(json, "json", "{\"name\": \"orders\"}").copy());
        redis = all.below("redis");
        postgres = all.below("postgres");
        local = all.below("local");
        client = all.below("client-address");
        headers = all.below("headers");
        // Reads each once, so that a wrong value is reported here.
        Stream.<Runnable>of(
                        this::getName,
                        this::getStore,
                        this::getRedisUri,
                        this::isRedisCluster,
                        this::getRedisNamespace,
                        this::getPostgresUri,
                        this::getPostgresNamespace,
                        this::getPostgresTable,
                        this::isPostgresCreateTable,
                        this::isPostgresLogged,
                        this::getPostgresConnections,
                        this::getDeadline,
                        this::getReadyTimeout,
                        this::getCacheDenials,
                        this::getDebt,
                        this::getLongestHold,
                        this::getFallback,
                        this::getLocalCounts,
                        this::getLocalShare,
                        this::getClientAddressHeader,
                        this::getTrustedProxies,
                        this::getIpv6Prefix,
                        this::getMaxHops,
                        this::getSecret,
                        this::isRateLimitFields,
                        this::isXRateLimitFields,
                        this::isRetryAfterField,
                        this::isPreflights,
                        this::getDenials,
                        this::isEnabled,
                        this::getRules)
                .forEach(Runnable::run);
        Stream.of(redis, postgres, local, client, headers, all).forEach(Settings::rejectUnknown);
    }

    /**
     * Returns the settings as JSON.
     *
     * @return a copy of those that were set, including the secret
     */
    public JsonObject toJson() {
        return all.toJson();
    }

    /**
     * Sets the name of the limiter. Required. Instances with the same name share their counts.
     *
     * @param name a name such as {@code orders}
     * @return this
     */
    public RateLimitOptions setName(@Nullable String name) {
        all.put("name", name);
        return this;
    }

    /** {@return the name; null if it is not set} */
    public @Nullable String getName() {
        return all.text("name");
    }

    /**
     * Sets where permits are counted.
     *
     * @param store the store; by default Redis or PostgreSQL, if one of them has a URI
     * @return this
     */
    public RateLimitOptions setStore(@Nullable StoreType store) {
        all.put("store", store);
        return this;
    }

    /** {@return where permits are counted} */
    public StoreType getStore() {
        return all.choice("store", StoreType.class, StoreType.AUTO);
    }

    /**
     * Sets the address of Redis.
     *
     * @param redisUri a URI such as {@code redis://localhost:6379}; in a cluster some nodes, separated by commas
     * @return this
     */
    public RateLimitOptions setRedisUri(@Nullable String redisUri) {
        redis.put("uri", redisUri);
        return this;
    }

    /** {@return the address of Redis; null if it is not set} */
    public @Nullable String getRedisUri() {
        return redis.text("uri");
    }

    /**
     * Sets whether Redis is a cluster.
     *
     * @param redisCluster true for a cluster; false by default
     * @return this
     */
    public RateLimitOptions setRedisCluster(boolean redisCluster) {
        redis.put("cluster", redisCluster);
        return this;
    }

    /** {@return whether Redis is a cluster} */
    public boolean isRedisCluster() {
        return redis.flag("cluster", false);
    }

    /**
     * Sets the first part of all keys in Redis.
     *
     * @param redisNamespace the namespace, {@code spillgate} by default
     * @return this
     */
    public RateLimitOptions setRedisNamespace(@Nullable String redisNamespace) {
        redis.put("namespace", redisNamespace);
        return this;
    }

    /** {@return the first part of all keys in Redis} */
    public String getRedisNamespace() {
        return redis.text("namespace", "spillgate");
    }

    /**
     * Sets the address of PostgreSQL.
     *
     * @param postgresUri a URI such as {@code r2dbc:postgresql://user:password@localhost/orders}
     * @return this
     */
    public RateLimitOptions setPostgresUri(@Nullable String postgresUri) {
        postgres.put("uri", postgresUri);
        return this;
    }

    /** {@return the address of PostgreSQL; null if it is not set} */
    public @Nullable String getPostgresUri() {
        return postgres.text("uri");
    }

    /**
     * Sets the first part of all keys in PostgreSQL.
     *
     * @param postgresNamespace the namespace, {@code spillgate} by default
     * @return this
     */
    public RateLimitOptions setPostgresNamespace(@Nullable String postgresNamespace) {
        postgres.put("namespace", postgresNamespace);
        return this;
    }

    /** {@return the first part of all keys in PostgreSQL} */
    public String getPostgresNamespace() {
        return postgres.text("namespace", "spillgate");
    }

    /**
     * Sets the table in PostgreSQL.
     *
     * @param postgresTable the name of the table, with or without its schema, {@code spillgate_counts} by default
     * @return this
     */
    public RateLimitOptions setPostgresTable(@Nullable String postgresTable) {
        postgres.put("table", postgresTable);
        return this;
    }

    /** {@return the table in PostgreSQL} */
    public String getPostgresTable() {
        return postgres.text("table", "spillgate_counts");
    }

    /**
     * Sets whether the table is created if it does not exist.
     *
     * @param postgresCreateTable false if it must exist; true by default
     * @return this
     */
    public RateLimitOptions setPostgresCreateTable(boolean postgresCreateTable) {
        postgres.put("create-table", postgresCreateTable);
        return this;
    }

    /** {@return whether the table is created if it does not exist} */
    public boolean isPostgresCreateTable() {
        return postgres.flag("create-table", true);
    }

    /**
     * Sets whether the table that is created survives a crash of the server.
     *
     * @param postgresLogged true for a table with a write-ahead log; false by default
     * @return this
     */
    public RateLimitOptions setPostgresLogged(boolean postgresLogged) {
        postgres.put("logged", postgresLogged);
        return this;
    }

    /** {@return whether the table that is created survives a crash of the server} */
    public boolean isPostgresLogged() {
        return postgres.flag("logged", false);
    }

    /**
     * Sets the number of connections to PostgreSQL.
     *
     * @param postgresConnections the number, 1 to 8, 3 by default
     * @return this
     */
    public RateLimitOptions setPostgresConnections(int postgresConnections) {
        postgres.put("connections", postgresConnections);
        return this;
    }

    /** {@return the number of connections to PostgreSQL} */
    public int getPostgresConnections() {
        return postgres.integer("connections", 3);
    }

    /**
     * Sets the longest time for a decision, after its lookups. The fallback decides if Redis has not.
     *
     * @param deadline 1 ms to 1 minute; 100 ms by default
     * @return this
     */
    public RateLimitOptions setDeadline(@Nullable Duration deadline) {
        all.put("deadline", deadline);
        return this;
    }

    /** {@return the longest time for a decision} */
    public Duration getDeadline() {
        return all.duration("deadline", Duration.ofMillis(100));
    }

    /**
     * Sets the longest time that {@link RateLimiting#ready()} waits for Redis.
     *
     * @param readyTimeout the time, 2 s by default
     * @return this
     */
    public RateLimitOptions setReadyTimeout(@Nullable Duration readyTimeout) {
        all.put("ready-timeout", readyTimeout);
        return this;
    }

    /** {@return the longest time to wait for Redis} */
    public Duration getReadyTimeout() {
        return all.duration("ready-timeout", Duration.ofSeconds(2));
    }

    /**
     * Sets the longest time that a denial is cached.
     *
     * @param cacheDenials 0 to 1 minute; 1 s by default
     * @return this
     */
    public RateLimitOptions setCacheDenials(@Nullable Duration cacheDenials) {
        all.put("cache-denials", cacheDenials);
        return this;
    }

    /** {@return the longest time that a denial is cached} */
    public Duration getCacheDenials() {
        return all.duration("cache-denials", Duration.ofSeconds(1));
    }

    /**
     * Sets the bound of real costs that exceed a limit, as a multiple of the limit.
     *
     * @param debt 0 to 10; 1 by default
     * @return this
     */
    public RateLimitOptions setDebt(double debt) {
        all.put("debt", debt);
        return this;
    }

    /** {@return the bound of real costs, as a multiple of the limit} */
    public double getDebt() {
        return all.decimal("debt", 1);
    }

    /**
     * Sets the longest time that a request holds permits of a concurrency limit.
     *
     * @param longestHold up to 366 days; 1 h by default
     * @return this
     */
    public RateLimitOptions setLongestHold(@Nullable Duration longestHold) {
        all.put("longest-hold", longestHold);
        return this;
    }

    /** {@return the longest time that a request holds permits} */
    public Duration getLongestHold() {
        return all.duration("longest-hold", Duration.ofHours(1));
    }

    /**
     * Sets the fallback, which decides if Redis does not.
     *
     * @param fallback the fallback; by default this process decides
     * @return this
     */
    public RateLimitOptions setFallback(@Nullable FallbackType fallback) {
        all.put("fallback", fallback);
        return this;
    }

    /** {@return the fallback} */
    public FallbackType getFallback() {
        return all.choice("fallback", FallbackType.class, FallbackType.LOCAL);
    }

    /**
     * Sets the maximum number of counts in this process.
     *
     * @param localCounts the number, 100,000 by default
     * @return this
     */
    public RateLimitOptions setLocalCounts(int localCounts) {
        local.put("counts", localCounts);
        return this;
    }

    /** {@return the maximum number of counts in this process} */
    public int getLocalCounts() {
        return local.integer("counts", 100_000);
    }

    /**
     * Sets this instance's share of each limit during an outage of Redis.
     *
     * @param localShare more than 0, and at most 1; null, the default, to derive it from the use
     * @return this
     */
    public RateLimitOptions setLocalShare(@Nullable Double localShare) {
        local.put("share", localShare);
        return this;
    }

    /** {@return the share of this instance; null if it follows from the use} */
    public @Nullable Double getLocalShare() {
        return local.fraction("share");
    }

    /**
     * Sets the header with the address of the client, which trusted proxies write.
     *
     * @param clientAddressHeader the header; none by default
     * @return this
     */
    public RateLimitOptions setClientAddressHeader(ClientAddressSettings.@Nullable Header clientAddressHeader) {
        client.put("header", clientAddressHeader);
        return this;
    }

    /** {@return the header with the address of the client} */
    public ClientAddressSettings.Header getClientAddressHeader() {
        return client.choice("header", ClientAddressSettings.Header.class, ClientAddressSettings.Header.NONE);
    }

    /**
     * Sets the proxies with a header that is trusted.
     *
     * @param trustedProxies addresses and networks such as {@code 10.0.0.0/8}; none by default
     * @return this
     */
    public RateLimitOptions setTrustedProxies(String... trustedProxies) {
        client.put("trusted-proxies", List.of(trustedProxies));
        return this;
    }

    /** {@return the proxies with a header that is trusted} */
    public List<String> getTrustedProxies() {
        return client.texts("trusted-proxies");
    }

    /**
     * Sets how many bits of an IPv6 address identify a client.
     *
     * @param ipv6Prefix the number, 64 by default
     * @return this
     */
    public RateLimitOptions setIpv6Prefix(int ipv6Prefix) {
        client.put("ipv6-prefix", ipv6Prefix);
        return this;
    }

    /** {@return how many bits of an IPv6 address identify a client} */
    public int getIpv6Prefix() {
        return client.integer("ipv6-prefix", 64);
    }

    /**
     * Sets how many addresses of the header are read.
     *
     * @param maxHops the number, 16 by default
     * @return this
     */
    public RateLimitOptions setMaxHops(int maxHops) {
        client.put("max-hops", maxHops);
        return this;
    }

    /** {@return how many addresses of the header are read} */
    public int getMaxHops() {
        return client.integer("max-hops", 16);
    }

    /**
     * Sets the secret of hashed keys, the same in all instances.
     *
     * @param secret at least 16 bytes in UTF-8; none by default
     * @return this
     */
    public RateLimitOptions setSecret(@Nullable String secret) {
        all.put("secret", secret);
        return this;
    }

    /** {@return the secret of hashed keys; null if it is not set} */
    public @Nullable String getSecret() {
        return all.text("secret");
    }

    /**
     * Sets whether responses have {@code RateLimit} and {@code RateLimit-Policy}.
     *
     * @param rateLimitFields true by default
     * @return this
     */
    public RateLimitOptions setRateLimitFields(boolean rateLimitFields) {
        headers.put("rate-limit", rateLimitFields);
        return this;
    }

    /** {@return whether responses have {@code RateLimit} and {@code RateLimit-Policy}} */
    public boolean isRateLimitFields() {
        return headers.flag("rate-limit", true);
    }

    /**
     * Sets whether responses have {@code X-RateLimit-Limit}, {@code -Remaining} and {@code -Reset}.
     *
     * @param xRateLimitFields true by default
     * @return this
     */
    public RateLimitOptions setXRateLimitFields(boolean xRateLimitFields) {
        headers.put("x-rate-limit", xRateLimitFields);
        return this;
    }

    /** {@return whether responses have {@code X-RateLimit-Limit} and the like} */
    public boolean isXRateLimitFields() {
        return headers.flag("x-rate-limit", true);
    }

    /**
     * Sets whether denials have {@code Retry-After}.
     *
     * @param retryAfterField true by default
     * @return this
     */
    public RateLimitOptions setRetryAfterField(boolean retryAfterField) {
        headers.put("retry-after", retryAfterField);
        return this;
    }

    /** {@return whether denials have {@code Retry-After}} */
    public boolean isRetryAfterField() {
        return headers.flag("retry-after", true);
    }

    /**
     * Sets whether CORS preflights are limited.
     *
     * @param preflights true by default
     * @return this
     */
    public RateLimitOptions setPreflights(boolean preflights) {
        all.put("preflights", preflights);
        return this;
    }

    /** {@return whether CORS preflights are limited} */
    public boolean isPreflights() {
        return all.flag("preflights", true);
    }

    /**
     * Sets the handling of denied requests.
     *
     * @param denials the handling; a response by default
     * @return this
     */
    public RateLimitOptions setDenials(@Nullable Denials denials) {
        all.put("denials", denials);
        return this;
    }

    /** {@return the handling of denied requests} */
    public Denials getDenials() {
        return all.choice("denials", Denials.class, Denials.RESPOND);
    }

    /**
     * Sets whether requests are limited. If not, nothing connects to Redis.
     *
     * @param enabled true by default
     * @return this
     */
    public RateLimitOptions setEnabled(boolean enabled) {
        all.put("enabled", enabled);
        return this;
    }

    /** {@return whether requests are limited} */
    public boolean isEnabled() {
        return all.flag("enabled", true);
    }

    /**
     * Adds a rule.
     *
     * @param rule the rule, which is copied
     * @return this
     */
    public RateLimitOptions addRule(RuleOptions rule) {
        return setRules(Stream.concat(getRules().stream(), Stream.of(rule)).toList());
    }

    /**
     * Sets the rules.
     *
     * @param rules the rules, which are copied
     * @return this
     */
    public RateLimitOptions setRules(List<RuleOptions> rules) {
        all.put("rules", new JsonArray(rules.stream().map(RuleOptions::toJson).toList()));
        return this;
    }

    /** {@return a copy of the rules} */
    public List<RuleOptions> getRules() {
        return all.each("rules").stream().map(RuleOptions::new).toList();
    }

    ClientAddressSettings clientAddress() {
        return new ClientAddressOptions(getClientAddressHeader(), getTrustedProxies(), getIpv6Prefix(), getMaxHops());
    }

    private record ClientAddressOptions(Header header, List<String> trustedProxies, int ipv6Prefix, int maxHops)
            implements ClientAddressSettings {}

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RateLimitOptions options && options.all.equals(all);
    }

    @Override
    public int hashCode() {
        return all.hashCode();
    }

    /** Returns the options for log messages, without secrets. */
    @Override
    public String toString() {
        return "RateLimitOptions[name=" + getName() + ", rules="
                + getRules().stream().map(RuleOptions::name).toList() + "]";
    }
}
