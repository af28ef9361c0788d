package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenAmbiguous;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.settings.ClientAddressSettings;
import io.github.spillgate.http.settings.RuleSettings;
import io.github.spillgate.webflux.RateLimitWebFilter;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.ConfigurationPropertiesBinding;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.core.convert.converter.Converter;

/**
 * The settings of the limiter.
 *
 * @param enabled whether requests are limited; if not, all beans exist, every request passes, and Redis is not used
 * @param name name of the limiter, by default that of the application; instances of one name share their counts
 * @param store where counts are kept
 * @param redis the Redis that keeps the counts
 * @param postgres the PostgreSQL that keeps the counts
 * @param deadline longest time for a decision; if Redis has not answered by then, the fallback decides
 * @param readyTimeout how long the application waits for Redis when it starts, at most; 0 does not wait
 * @param cacheDenials longest time for which a denial is cached; 0 disables the cache
 * @param debt how far real costs may exceed a limit, as a multiple of it, from 0 to 10
 * @param longestHold longest time for which a request renews its permits of a concurrency limit
 * @param fallback fallback for the time in which Redis does not decide
 * @param local the in-memory store, which decides if Redis does not, or if there is no Redis
 * @param clientAddress how the address of a client is determined
 * @param secret secret for hashed keys, at least 16 bytes, the same in all instances
 * @param headers which rate limit header fields responses have
 * @param filters order of the web filters, and whether they limit CORS preflights
 * @param health status that the health indicator reports
 * @param observations whether decisions appear in traces
 * @param outgoing limits of requests to other services
 * @param limiters limiters for code, by the names by which they are injected
 * @param rules the rules; all rules of a phase that match a request are decided together
 */
@ConfigurationProperties("spillgate")
public record SpillgateProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String name,
        @DefaultValue("auto") StoreType store,
        @DefaultValue Redis redis,
        @DefaultValue Postgres postgres,
        @DefaultValue("100ms") Duration deadline,
        @DefaultValue("2s") Duration readyTimeout,
        @DefaultValue("1s") Duration cacheDenials,
        @DefaultValue("1") double debt,
        @DefaultValue("1h") Duration longestHold,
        @DefaultValue("local") FallbackType fallback,
        @DefaultValue Local local,
        @DefaultValue Client clientAddress,
        @Nullable String secret,
        @DefaultValue Headers headers,
        @DefaultValue Filters filters,
        @DefaultValue Health health,
        @DefaultValue Observations observations,
        @DefaultValue Outgoing outgoing,
        @DefaultValue Map<String, Limiter> limiters,
        @DefaultValue List<RuleProperties> rules) {

    /** Where counts are kept. */
    public enum StoreType {
        /**
         * In Redis if {@code spillgate.redis} configures one, or in PostgreSQL if {@code spillgate.postgres} does; else
         * in the Redis of {@code spring.data.redis}, if there is one; else in the memory of this process.
         */
        AUTO,

        /** In PostgreSQL: that of {@code spillgate.postgres}, or that of {@code spring.r2dbc}. */
        POSTGRES,

        /** In the memory of this process, whatever is configured: for tests, and for services with one instance. */
        LOCAL
    }

    /** The fallback for the time in which Redis does not decide. */
    public enum FallbackType {
        /** The in-memory store; what it grants is reconciled with Redis after the outage. */
        LOCAL,

        /** Fail open: all requests are allowed. */
        ALLOW,

        /** Fail closed: all requests are denied with 503. */
        DENY,

        /** Each rule's {@code when-undecided} decides. */
        ERROR
    }

    /** The health status of the limiter while the fallback decides. The details are reported in either case. */
    public enum FallbackStatus {
        /** Healthy, because the service goes on. */
        UP,

        /**
         * {@code DEGRADED}. To rank it among the other statuses, add it to {@code
         * management.endpoint.health.status.order}.
         */
        DEGRADED,

        /** Down. A readiness probe then takes all instances out of service when Redis fails. */
        DOWN
    }

    /** What requests to other services are charged to. */
    public enum OutgoingKey {
        /** Their scheme, host and port. */
        ORIGIN,

        /** All share one key. */
        ALL
    }

    /** Which refused requests are sent again. */
    public enum OutgoingRetry {
        /** GET, HEAD, OPTIONS, TRACE and DELETE without a body. */
        REPEATABLE,

        /** All, so the service may get a body twice. */
        ALL,

        /** None. */
        NONE
    }

    /**
     * Requests of the WebClient to other services, which may refuse them with 429 or 503.
     *
     * @param limits limits of the requests, such as 10/s burst=1; without any, requests are not limited
     * @param key what requests are charged to, and what a refused request pauses
     * @param longestWait how long a request waits for its permits, with all of its attempts
     * @param longestPause how long one response can pause a key
     * @param retry which refused requests are sent again
     */
    public record Outgoing(
            @DefaultValue List<Limit> limits,
            @DefaultValue("origin") OutgoingKey key,
            @DefaultValue("10s") Duration longestWait,
            @DefaultValue("10m") Duration longestPause,
            @DefaultValue("repeatable") OutgoingRetry retry) {}

    /**
     * The Redis that keeps the counts. Without a URI it is the Redis of {@code spring.data.redis}, if one is
     * configured; else counts are kept in the memory of this process.
     *
     * @param uri URI of a Redis for the limiter alone, such as redis://localhost:6379
     * @param cluster whether it is a cluster; the URI then names some nodes, as in redis://node-1:6379,node-2:6379
     * @param namespace prefix of the Redis keys
     */
    public record Redis(
            @Nullable String uri,
            @DefaultValue("false") boolean cluster,
            @DefaultValue("spillgate") String namespace) {}

    /**
     * The PostgreSQL that keeps the counts.
     *
     * @param uri URI of a PostgreSQL, such as r2dbc:postgresql://user:password@localhost/orders; by default that of
     *     spring.r2dbc, if the store is postgres
     * @param namespace prefix of the keys in the table
     * @param table name of the table, with or without its schema
     * @param createTable whether the table is created if it does not exist
     * @param logged whether the table that is created survives a crash of the server
     * @param connections number of connections, 1 to 8
     */
    public record Postgres(
            @Nullable String uri,
            @DefaultValue("spillgate") String namespace,
            @DefaultValue("spillgate_counts") String table,
            @DefaultValue("true") boolean createTable,
            @DefaultValue("false") boolean logged,
            @DefaultValue("3") int connections) {}

    /**
     * The in-memory store.
     *
     * @param counts maximum number of counts in memory
     * @param share part of each limit that this instance may grant alone, such as 0.25 if there are four instances; by
     *     default everything without a Redis, and during an outage about the part that this instance has used
     */
    public record Local(
            @DefaultValue("100000") int counts, @Nullable Double share) {}

    /**
     * How the address of a client is determined.
     *
     * @param header header that is read if trusted proxies have written it
     * @param trustedProxies addresses and networks of the trusted proxies
     * @param ipv6Prefix number of bits of an IPv6 address that identify a client
     * @param maxHops maximum number of elements of the header that are read
     */
    public record Client(
            @DefaultValue("none") Header header,
            @DefaultValue List<String> trustedProxies,
            @DefaultValue("64") int ipv6Prefix,
            @DefaultValue("16") int maxHops)
            implements ClientAddressSettings {}

    /**
     * The rate limit header fields of responses.
     *
     * @param rateLimit whether RateLimit and RateLimit-Policy are written
     * @param xRateLimit whether X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset are written
     * @param retryAfter whether Retry-After is written
     */
    public record Headers(
            @DefaultValue("true") boolean rateLimit,
            @DefaultValue("true") boolean xRateLimit,
            @DefaultValue("true") boolean retryAfter) {}

    /**
     * The web filters.
     *
     * @param orderBeforeAuthentication order of the filter that runs before Spring Security
     * @param orderAfterAuthentication order of the filter that runs after Spring Security
     * @param preflights whether CORS preflights are limited like all other requests
     */
    public record Filters(
            @DefaultValue("" + RateLimitWebFilter.ORDER_BEFORE_AUTHENTICATION)
            int orderBeforeAuthentication,

            @DefaultValue("" + RateLimitWebFilter.ORDER_AFTER_AUTHENTICATION)
            int orderAfterAuthentication,

            @DefaultValue("false") boolean preflights) {}

    /**
     * The health indicator.
     *
     * @param duringFallback status while the fallback decides
     */
    public record Health(@DefaultValue("degraded") FallbackStatus duringFallback) {}

    /**
     * Observations of decisions.
     *
     * @param enabled whether each decision is an observation, if there is an observation registry
     */
    public record Observations(@DefaultValue("false") boolean enabled) {}

    /**
     * A limiter for code.
     *
     * @param limits limits such as 10/s; all of them must allow a call
     */
    public record Limiter(@DefaultValue List<Limit> limits) {}

    /**
     * A rule.
     *
     * @param name name of the rule, such as login
     * @param paths patterns of the paths that the rule applies to, such as /users/{id}; all paths by default
     * @param excludePaths patterns of the paths that the rule does not apply to, such as /static/**
     * @param methods methods that the rule applies to; all methods by default
     * @param key key that is charged, such as address, principal, header:X-Api-Key or bean:tenantKey; see KeySyntax
     * @param limits limits such as 120/1m; all of them must allow a request
     * @param limitsFrom name of a bean of type Rule.LimitSource that looks up the limits of a key
     * @param cost number of permits that a request takes
     * @param costFrom name of a bean of type Rule.CostSource that looks up the cost of a request
     * @param phase when the rule is decided; after authentication by default if its key contains principal
     * @param whenMissing handling of requests without a key; share, or skip if principal is required and absent
     * @param whenAmbiguous deny (with 400) or missing, if a request has several different values of its key
     * @param whenUndecided handling of requests on which no decision is possible
     * @param whenLookupFails use-rule (its limits and cost) or undecided, if limits-from or cost-from fails or is late
     * @param refundWhen response statuses for which the permits of a request are refunded, such as 2xx
     * @param unless name of a bean of type Predicate that exempts requests from the rule
     * @param shadow whether the rule only decides and reports, and denies no request
     * @param timeout longest time to look up key, limits and cost
     */
    public record RuleProperties(
            @Nullable String name,
            @DefaultValue List<String> paths,
            @DefaultValue List<String> excludePaths,
            @DefaultValue List<String> methods,
            @DefaultValue("address") String key,
            @DefaultValue List<Limit> limits,
            @Nullable String limitsFrom,
            @DefaultValue("1") long cost,
            @Nullable String costFrom,
            @Nullable Phase phase,
            @Nullable WhenMissing whenMissing,
            @DefaultValue("deny") WhenAmbiguous whenAmbiguous,
            @DefaultValue("allow") WhenUndecided whenUndecided,
            @DefaultValue("use-rule") WhenLookupFails whenLookupFails,
            @DefaultValue List<String> refundWhen,
            @Nullable String unless,
            @DefaultValue("false") boolean shadow,
            @DefaultValue("50ms") Duration timeout)
            implements RuleSettings {}

    /** A converter from text to limits. */
    @ConfigurationPropertiesBinding
    static final class LimitConverter implements Converter<String, Limit> {

        @Override
        public Limit convert(String text) {
            return Limit.parse(text);
        }
    }
}
