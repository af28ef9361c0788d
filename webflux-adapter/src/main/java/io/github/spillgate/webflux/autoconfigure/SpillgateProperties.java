package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.RuleSettings;
import io.github.spillgate.webflux.RateLimitWebFilter;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings of the limiter.
 *
 * @param enabled whether requests are limited at all; if not, all beans are there, let everything pass, and connect to nothing
 * @param name what the limiter is called; instances of one name share their counts. The name of the application by default
 * @param store where counts are kept
 * @param redis that Redis
 * @param deadline how long a decision takes at most; when Redis has not answered by then, the fallback decides
 * @param cacheDenials how long a denial is remembered without asking Redis again, at most; 0 switches that off
 * @param fallback what decides when Redis does not
 * @param local the store in this process, which decides when Redis does not, or where there is none
 * @param clientAddress how the address of a client is found
 * @param secret for keys that are hashed; at least 16 characters, the same in all instances
 * @param headers which header fields tell of limits
 * @param filters where the filters stand
 * @param health what health says
 * @param observations what traces are told
 * @param rules what is limited; all rules that match a request are decided together
 */
@ConfigurationProperties("spillgate")
public record SpillgateProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String name,
        @DefaultValue("auto") StoreType store,
        @DefaultValue Redis redis,
        @DefaultValue("100ms") Duration deadline,
        @DefaultValue("1s") Duration cacheDenials,
        @DefaultValue("local") FallbackType fallback,
        @DefaultValue Local local,
        @DefaultValue Client clientAddress,
        @Nullable String secret,
        @DefaultValue Headers headers,
        @DefaultValue Filters filters,
        @DefaultValue Health health,
        @DefaultValue Observations observations,
        @DefaultValue List<RuleProperties> rules) {

    /** Where counts are kept. */
    public enum StoreType {
        /** In Redis if one is set up, by {@code spillgate.redis} or {@code spring.data.redis}; else in this process. */
        AUTO,

        /** In this process, whatever is set up: for tests, and for a service of one instance. */
        LOCAL
    }

    /** What decides when Redis does not. */
    public enum FallbackType {
        /** The store in this process, which settles with Redis afterwards. */
        LOCAL,

        /** Everybody is let through. */
        ALLOW,

        /** Everybody is denied, with 503. */
        DENY,

        /** Each rule decides for itself, by its {@code when-undecided}. */
        ERROR
    }

    /** What the limiter says of its health while the fallback decides; with details in either case. */
    public enum FallbackStatus {
        /** It goes on. */
        UP,

        /** {@code DEGRADED}, which has to be put in its place among the others by {@code management.endpoint.health.status.order}. */
        DEGRADED
    }

    /** Which header tells of the client behind proxies. */
    public enum ForwardingHeader {
        /** None: the peer is the client. */
        NONE,

        /** {@code X-Forwarded-For}. */
        X_FORWARDED_FOR,

        /** {@code Forwarded}, as in RFC 7239. */
        FORWARDED
    }

    /**
     * Where counts are kept. Without a URI that is the Redis of {@code spring.data.redis}, if there is one; else this process.
     *
     * @param uri a Redis for the limiter alone, such as redis://localhost:6379
     * @param cluster whether that is a cluster, of which the URI names some nodes, such as redis://node-1:6379,node-2:6379
     * @param namespace what its keys begin with
     */
    public record Redis(
            @Nullable String uri,
            @DefaultValue("false") boolean cluster,
            @DefaultValue("spillgate") String namespace) {}

    /**
     * The store in this process.
     *
     * @param counts how many counts it remembers
     * @param share what part of each limit this instance may grant by itself, such as 0.25 where four instances run
     */
    public record Local(
            @DefaultValue("100000") int counts,
            @DefaultValue("1") double share) {}

    /**
     * How the address of a client is found.
     *
     * @param header which header is read, if trusted proxies have written it
     * @param trustedProxies the addresses and networks of those proxies
     * @param ipv6Prefix how many bits of an IPv6 address count
     * @param maxHops how many elements of the header are read at most
     */
    public record Client(
            @DefaultValue("none") ForwardingHeader header,
            @DefaultValue List<String> trustedProxies,
            @DefaultValue("64") int ipv6Prefix,
            @DefaultValue("16") int maxHops) {}

    /**
     * Which header fields tell of limits.
     *
     * @param rateLimit whether RateLimit and RateLimit-Policy are written
     * @param xRateLimit whether X-RateLimit-Limit, -Remaining and -Reset are written
     * @param retryAfter whether Retry-After is written
     */
    public record Headers(
            @DefaultValue("true") boolean rateLimit,
            @DefaultValue("true") boolean xRateLimit,
            @DefaultValue("true") boolean retryAfter) {}

    /**
     * Where the filters stand.
     *
     * @param orderBeforeAuthentication the place of the one that comes before Spring Security
     * @param orderAfterAuthentication the place of the one that comes after it
     * @param preflights whether CORS preflights are limited as all requests are
     */
    public record Filters(
            @DefaultValue("" + RateLimitWebFilter.ORDER_BEFORE_AUTHENTICATION)
            int orderBeforeAuthentication,

            @DefaultValue("" + RateLimitWebFilter.ORDER_AFTER_AUTHENTICATION)
            int orderAfterAuthentication,

            @DefaultValue("false") boolean preflights) {}

    /**
     * What health says.
     *
     * @param duringFallback what it says while the fallback decides
     */
    public record Health(@DefaultValue("up") FallbackStatus duringFallback) {}

    /**
     * What traces are told.
     *
     * @param enabled whether each decision is an observation, where there is a registry of them
     */
    public record Observations(@DefaultValue("false") boolean enabled) {}

    /**
     * One rule.
     *
     * @param name what it is called, such as login
     * @param paths patterns of the paths that are meant, such as /users/{id}; all by default
     * @param excludePaths patterns of paths that are not meant, such as /static/**
     * @param methods the methods that are meant; all by default
     * @param key who is charged: address, principal, header:X-Api-Key, path:id, bean:tenantKey and so on
     * @param limits such as 120/1m; several must all agree
     * @param limitsFrom the name of a bean of type Rule.LimitSource that finds the limits of a key
     * @param cost how many permits a request takes
     * @param costFrom the name of a bean of type Rule.CostSource that finds the cost of a request
     * @param phase when it is decided; after authentication by default if its key needs to know who asks
     * @param whenMissing what holds for a request without a key; share by default, but skip for requests that are not authenticated if
     *     the key contains principal
     * @param whenUndecided what holds where nothing can be decided
     * @param whenLookupFails what holds if limits-from or cost-from fails or is late: use-rule, the rule's own limits and cost; or
     *     undecided, and when-undecided decides
     * @param refundWhen statuses with which a request gives back what it has taken, such as 2xx
     * @param unless the name of a bean of type Predicate that excepts requests
     * @param shadow whether it decides and reports only, and lets everybody pass
     * @param timeout for how long key, limits and cost may be looked up
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
            @DefaultValue("allow") WhenUndecided whenUndecided,
            @DefaultValue("use-rule") WhenLookupFails whenLookupFails,
            @DefaultValue List<String> refundWhen,
            @Nullable String unless,
            @DefaultValue("false") boolean shadow,
            @DefaultValue("50ms") Duration timeout)
            implements RuleSettings {}
}
