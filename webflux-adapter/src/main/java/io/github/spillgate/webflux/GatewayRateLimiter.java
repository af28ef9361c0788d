package io.github.spillgate.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.cloud.gateway.event.FilterArgsEvent;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.route.RouteDefinitionRouteLocator;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.http.HttpHeaders;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * The rate limiter of Spring Cloud Gateway routes, for the gateway filter {@code RequestRateLimiter}. In Spring Boot it
 * is the bean {@code spillgateRateLimiter}.
 *
 * <pre>{@code
 * - name: RequestRateLimiter
 *   args:
 *     rate-limiter: "#{@spillgateRateLimiter}"
 *     spillgate-rate-limiter.limits: 10/s, 3000/10m
 * }</pre>
 *
 * <h2>Replacing the gateway's own limiter</h2>
 *
 * <p>It also reads the arguments of {@link RedisRateLimiter}, {@code redis-rate-limiter.replenishRate}, {@code
 * .burstCapacity} and {@code .requestedTokens}, unless the filter has arguments for this limiter. They become a token
 * bucket with the same rate and the same burst: 10 tokens per second with a burst of 20 are {@code 10/s burst=20}.
 *
 * <p>The gateway's own limiter counts whole seconds of Redis's clock, this one milliseconds. If the burst is smaller
 * than the tokens of a second, it is also the rate, because the gateway fills a bucket once a second.
 *
 * <h2>With any configuration</h2>
 *
 * <p>Each pair of route and key has its own counts, even if the concatenated texts of two pairs are equal. If no
 * decision is possible, a request is allowed, or denied if {@linkplain Config#setWhenUndecided(WhenUndecided)
 * configured} so. The gateway writes the response to a denied request, with the status of its filter. The response has
 * the fields of {@link RateLimitResponses} and those of the gateway's own limiter.
 */
public final class GatewayRateLimiter extends AbstractRateLimiter<GatewayRateLimiter.Config> {

    /** The prefix of the filter arguments for this limiter. */
    public static final String CONFIGURATION_PROPERTY_NAME = "spillgate-rate-limiter";

    private static final Logger LOG = Loggers.getLogger(GatewayRateLimiter.class);
    private static final List<String> PREFIXES =
            List.of(CONFIGURATION_PROPERTY_NAME, RedisRateLimiter.CONFIGURATION_PROPERTY_NAME);
    private static final long UNKNOWN = -1;
    private static final int LONGEST_ERROR = 200;

    private final RateLimiter limiter;
    private final RateLimitResponses responses;
    private final Fields fields;
    private final ConfigurationService configurations;
    private final Map<String, Config> configs = new ConcurrentHashMap<>();
    private final Map<String, GatewayPlan> plans = new ConcurrentHashMap<>();
    private final LoggedCauses loggedCauses = new LoggedCauses(Time::nanos);

    private GatewayRateLimiter(
            RateLimiter limiter, RateLimitResponses responses, Fields fields, ConfigurationService configurations) {
        super(Config.class, CONFIGURATION_PROPERTY_NAME, configurations);
        this.limiter = limiter;
        this.responses = responses;
        this.fields = fields;
        this.configurations = configurations;
    }

    /**
     * Returns a limiter for routes.
     *
     * @param limiter the limiter, which the caller closes
     * @param responses the rate limit header fields
     * @param fields the header fields of the gateway's own limiter
     * @param configurations the reader of filter arguments
     * @return the limiter
     */
    public static GatewayRateLimiter of(
            RateLimiter limiter, RateLimitResponses responses, Fields fields, ConfigurationService configurations) {
        return new GatewayRateLimiter(
                Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()"),
                Checks.some(responses, "responses", "RateLimitResponses.standard()"),
                Checks.some(fields, "fields", "Fields.standard()"),
                Objects.requireNonNull(configurations, "configurations are null: expected the gateway's"));
    }

    /**
     * Returns the configurations of routes, by route id. A configuration is read on the first request of its route; to
     * change it, put another object into the map.
     *
     * @return the configurations; may be changed at any time
     */
    @Override
    public Map<String, Config> getConfig() {
        return configs;
    }

    /**
     * Reads the filter arguments for this limiter, if there are any.
     *
     * @param event the arguments
     * @throws IllegalArgumentException if the arguments do not define valid limits
     */
    @Override
    public void onApplicationEvent(FilterArgsEvent event) {
        for (String prefix : PREFIXES) {
            if (event.getArgs().keySet().stream().anyMatch(key -> key.startsWith(prefix + "."))) {
                // Validate before it applies: if a refresh fails, the previous routes stay.
                Config config = read(prefix, event);
                plans.put(event.getRouteId(), GatewayPlan.of(event.getRouteId(), config));
                configs.put(event.getRouteId(), config);
                return;
            }
        }
    }

    /**
     * Applies configurations, all or none.
     *
     * @param routes the configurations, by route id
     * @throws IllegalArgumentException if a configuration does not define valid limits
     */
    public void configure(Map<String, Config> routes) {
        routes.forEach(GatewayPlan::of);
        configs.putAll(routes);
    }

    private Config read(String prefix, FilterArgsEvent event) {
        try {
            return configurations
                    .with(newConfig())
                    .name(prefix)
                    .normalizedProperties(event.getArgs())
                    .bind();
        } catch (BindException e) {
            // Without its cause: Boot would report only the cause, which does not name the route.
            throw GatewayPlan.refused(
                    event.getRouteId(),
                    e.getName() + " cannot be read as " + e.getTarget().getType() + ", but was "
                            + (e.getProperty() == null
                                    ? "missing"
                                    : "\"" + e.getProperty().getValue() + "\"")
                            + ": expected for example " + prefix + ".replenishRate: 10, or "
                            + CONFIGURATION_PROPERTY_NAME + ".limits: 10/s, 3000/10m");
        }
    }

    /**
     * Decides on a request.
     *
     * @param routeId the id of the route
     * @param id the key that is charged
     * @return whether the request is allowed, and its header fields; an error only if the route has no configuration,
     *     or an invalid one
     */
    @Override
    public Mono<Response> isAllowed(String routeId, String id) {
        return Mono.defer(() -> {
            GatewayPlan plan = plan(routeId);
            if (plan.limits().isEmpty()) {
                return Mono.just(response(plan, null, false, 0));
            }
            return limiter.tryAcquire(charge(routeId, id, plan))
                    .map(decision -> response(plan, decision, decision.isAllowed(), remaining(decision)))
                    .onErrorResume(why -> Mono.just(undecided(routeId, plan, why)));
        });
    }

    /** The length prefix separates route and key, whatever characters the two contain. */
    private static Charge charge(String route, String id, GatewayPlan plan) {
        return Charge.of(route.length() + ":" + route + ":" + id, plan.limits()).permits(plan.config().requestedTokens);
    }

    private GatewayPlan plan(String route) {
        Config config = configs.get(route);
        if (config == null) {
            config = configs.get(RouteDefinitionRouteLocator.DEFAULT_FILTERS);
        }
        if (config == null) {
            throw GatewayPlan.refused(
                    route,
                    "there is no configuration for it: expected arguments of its filter RequestRateLimiter,"
                            + " for example " + CONFIGURATION_PROPERTY_NAME + ".limits: 10/s, 3000/10m");
        }
        GatewayPlan known = plans.get(route);
        if (known != null && known.config() == config) {
            return known;
        }
        GatewayPlan plan = GatewayPlan.of(route, config);
        plans.put(route, plan);
        return plan;
    }

    private static long remaining(Decision decision) {
        return decision.limits().isEmpty() ? UNKNOWN : decision.remaining();
    }

    private Response undecided(String route, GatewayPlan plan, Throwable why) {
        boolean isAllowed = plan.config().whenUndecided == WhenUndecided.ALLOW;
        if (loggedCauses.add(route + " " + isAllowed, why)) {
            // Quoted: the error of a custom store may contain input of a client.
            LOG.warn(
                    "route {} could not be decided: {}; {}",
                    Text.line(route),
                    Text.quote(why.toString(), LONGEST_ERROR),
                    isAllowed
                            ? "it lets such requests through (when-undecided: allow)"
                            : "such requests are denied (when-undecided: deny)");
        }
        return response(plan, null, isAllowed, UNKNOWN);
    }

    private Response response(GatewayPlan plan, @Nullable Decision decision, boolean isAllowed, long remaining) {
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        if (fields.included) {
            headers.put(fields.remaining, Long.toString(remaining));
            headers.put(fields.requestedTokens, Integer.toString(plan.config().requestedTokens));
            if (plan.config().limits == null) {
                headers.put(fields.replenishRate, Integer.toString(plan.config().replenishRate));
                headers.put(fields.burstCapacity, Long.toString(plan.config().burstCapacity));
            }
        }
        if (decision != null) {
            responses.headers().write(List.of(decision), headers::putIfAbsent);
        }
        if (!isAllowed) {
            headers.put(HttpHeaders.CACHE_CONTROL, "no-store");
        }
        return new Response(isAllowed, headers);
    }

    /**
     * The header fields of the gateway's own limiter.
     *
     * @param included whether the fields are written
     * @param remaining name of the field for the number of tokens left, -1 if unknown
     * @param replenishRate name of the field for the number of tokens replenished per second
     * @param burstCapacity name of the field for the maximum number of tokens
     * @param requestedTokens name of the field for the number of tokens that a request takes
     */
    public record Fields(
            boolean included, String remaining, String replenishRate, String burstCapacity, String requestedTokens) {

        /**
         * Returns the default names of the gateway's own limiter.
         *
         * @return the fields
         */
        public static Fields standard() {
            return new Fields(
                    true,
                    RedisRateLimiter.REMAINING_HEADER,
                    RedisRateLimiter.REPLENISH_RATE_HEADER,
                    RedisRateLimiter.BURST_CAPACITY_HEADER,
                    RedisRateLimiter.REQUESTED_TOKENS_HEADER);
        }
    }

    /** The configuration of a route: either limits, or a token bucket as for the gateway's own limiter. */
    public static final class Config {

        @Nullable
        String limits;

        int replenishRate;
        long burstCapacity = 1;
        int requestedTokens = 1;
        WhenUndecided whenUndecided = WhenUndecided.ALLOW;

        /** Creates an empty configuration. */
        public Config() {}

        /**
         * Sets the limits. All of them must allow a request.
         *
         * @param limits limits in the format of {@link io.github.spillgate.Limit#parse(String)}, separated by commas
         * @return this configuration
         */
        public Config setLimits(String limits) {
            this.limits = limits;
            return this;
        }

        /**
         * Sets the number of tokens replenished per second, instead of limits.
         *
         * @param replenishRate at least 1
         * @return this configuration
         */
        public Config setReplenishRate(int replenishRate) {
            this.replenishRate = replenishRate;
            return this;
        }

        /**
         * Sets the maximum number of tokens, 1 by default.
         *
         * @param burstCapacity at least the tokens that a request takes; 0 denies all requests
         * @return this configuration
         */
        public Config setBurstCapacity(long burstCapacity) {
            this.burstCapacity = burstCapacity;
            return this;
        }

        /**
         * Sets the number of tokens, or permits of the limits, that a request takes, 1 by default.
         *
         * @param requestedTokens at least 1
         * @return this configuration
         */
        public Config setRequestedTokens(int requestedTokens) {
            this.requestedTokens = requestedTokens;
            return this;
        }

        /**
         * Sets the handling of requests on which no decision is possible. By default they are allowed.
         *
         * @param whenUndecided whether they are allowed or denied
         * @return this configuration
         */
        public Config setWhenUndecided(WhenUndecided whenUndecided) {
            this.whenUndecided = whenUndecided;
            return this;
        }

        /** Returns the configuration for log messages. */
        @Override
        public String toString() {
            return "Config["
                    + (limits == null
                            ? "replenishRate=" + replenishRate + ", burstCapacity=" + burstCapacity
                            : "limits=" + limits)
                    + ", requestedTokens=" + requestedTokens + ", whenUndecided=" + whenUndecided + "]";
        }
    }
}
