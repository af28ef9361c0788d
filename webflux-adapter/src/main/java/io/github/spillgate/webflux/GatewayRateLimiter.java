package io.github.spillgate.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenUndecided;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
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
 * Limits the routes of Spring Cloud Gateway: what its filter {@code RequestRateLimiter} asks. In Spring Boot it is the bean {@code
 * spillgateRateLimiter}.
 *
 * <pre>{@code
 * - name: RequestRateLimiter
 *   args:
 *     rate-limiter: "#{@spillgateRateLimiter}"
 *     spillgate-rate-limiter.limits: 10/s, 3000/10m
 * }</pre>
 *
 * <h2>In place of the gateway's own limiter</h2>
 *
 * It also reads the arguments of {@link RedisRateLimiter}, {@code redis-rate-limiter.replenishRate}, {@code .burstCapacity} and {@code
 * .requestedTokens}, unless a filter has arguments of its own. A bucket is one limit: as many requests as a full bucket holds, in any
 * window as long as the bucket takes to fill with them; a second at least. 10 tokens a second and a burst of 20 are {@code 20/2s}; 1
 * token a second, a burst of 60, and 60 requested tokens are {@code 1/1m}.
 *
 * <p>Equal are the first burst, and the rate at which a client may go on for ever. In no time span, however long, more passes than
 * the bucket lets pass at most in one of that length: the burst, and what is replenished meanwhile. There is no larger limit of which
 * that is true, and any second one would only deny more.
 *
 * <p>Different is what comes right after a burst. The bucket begins to fill at once, while here nothing comes back before what was
 * used is as old as the window is long; then all of it does. {@code Retry-After} says when. The bucket fills with whole seconds of
 * Redis's clock, while a window slides by the millisecond. And a log keeps an entry for each request of a burst, {@value
 * io.github.spillgate.Limit#MOST_LOG_ENTRIES} at most: for large bursts, {@code limits} with a {@code counter} need less memory.
 *
 * <h2>Whatever the configuration</h2>
 *
 * Each route and each key count for themselves, also where the texts of both together are those of another route and key. A request
 * on which nothing can be decided is let through, or denied if the {@linkplain Config#setWhenUndecided(WhenUndecided) configuration}
 * says so. The gateway writes the response of a request that is denied, with the status that its filter has; the fields of {@link
 * RateLimitResponses} are told with it, besides those of the gateway's own limiter.
 */
public final class GatewayRateLimiter extends AbstractRateLimiter<GatewayRateLimiter.Config> {

    /** What the arguments of a filter begin with that are meant for this limiter. */
    public static final String CONFIGURATION_PROPERTY_NAME = "spillgate-rate-limiter";

    private static final Logger LOG = Loggers.getLogger(GatewayRateLimiter.class);
    private static final List<String> PREFIXES =
            List.of(CONFIGURATION_PROPERTY_NAME, RedisRateLimiter.CONFIGURATION_PROPERTY_NAME);
    private static final long UNKNOWN = -1;
    private static final int LONGEST = 200;

    private final RateLimiter limiter;
    private final RateLimitResponses responses;
    private final Fields fields;
    private final ConfigurationService configurations;
    private final Map<String, Config> configs = new ConcurrentHashMap<>();
    private final Map<String, GatewayPlan> plans = new ConcurrentHashMap<>();
    private final AtomicBoolean failureTold = new AtomicBoolean();

    private GatewayRateLimiter(
            RateLimiter limiter, RateLimitResponses responses, Fields fields, ConfigurationService configurations) {
        super(Config.class, CONFIGURATION_PROPERTY_NAME, configurations);
        this.limiter = limiter;
        this.responses = responses;
        this.fields = fields;
        this.configurations = configurations;
    }

    /**
     * A limiter for routes.
     *
     * @param limiter who decides; it stays the caller's
     * @param responses which header fields are told
     * @param fields which of the gateway's own fields are told besides
     * @param configurations reads the arguments of filters
     * @return the limiter
     */
    public static GatewayRateLimiter of(
            RateLimiter limiter, RateLimitResponses responses, Fields fields, ConfigurationService configurations) {
        return new GatewayRateLimiter(
                Objects.requireNonNull(
                        limiter, "limiter is null: expected one, for example RateLimiter.builder(\"api\")...build()"),
                Objects.requireNonNull(
                        responses, "responses are null: expected some, for example RateLimitResponses.standard()"),
                Objects.requireNonNull(fields, "fields are null: expected some, for example Fields.standard()"),
                Objects.requireNonNull(configurations, "configurations are null: expected the gateway's"));
    }

    /**
     * Returns what holds for routes, by their ids. A configuration is read when its route is asked about first: to change it, put
     * another one in its place.
     *
     * @return the configurations; may be changed at any time
     */
    @Override
    public Map<String, Config> getConfig() {
        return configs;
    }

    /**
     * Takes what the arguments of a filter say of this limiter, if they do.
     *
     * @param event the arguments
     * @throws IllegalArgumentException if they mean no limits
     */
    @Override
    public void onApplicationEvent(FilterArgsEvent event) {
        for (String prefix : PREFIXES) {
            if (event.getArgs().keySet().stream().anyMatch(key -> key.startsWith(prefix + "."))) {
                // Read as a whole before it holds: the routes of before stay, if a refresh fails.
                Config config = read(prefix, event);
                plans.put(event.getRouteId(), GatewayPlan.of(event.getRouteId(), config));
                configs.put(event.getRouteId(), config);
                return;
            }
        }
    }

    /**
     * Puts configurations in force, all or none.
     *
     * @param routes configurations, by the ids of routes
     * @throws IllegalArgumentException if one of them means no limits
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
            // Without its cause: of what has one, Boot tells the cause alone, and that names no route.
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
     * @param routeId the route
     * @param id who asks
     * @return whether it may go on, and what is told; an error only if nothing was configured for the route, or what makes no sense
     */
    @Override
    public Mono<Response> isAllowed(String routeId, String id) {
        return Mono.defer(() -> {
            GatewayPlan plan = plan(routeId);
            if (plan.limits().isEmpty()) {
                return Mono.just(response(plan, null, false, 0));
            }
            return limiter.tryAcquire(charge(routeId, id, plan))
                    .map(decision -> response(plan, decision, decision.isAllowed(), remaining(plan, decision)))
                    .onErrorResume(why -> Mono.just(undecided(routeId, plan, why)));
        });
    }

    /** With its length before it, where the route ends is plain whatever the two contain. */
    private static Charge charge(String route, String id, GatewayPlan plan) {
        return Charge.of(route.length() + ":" + route + ":" + id, plan.limits()).permits(plan.cost());
    }

    private GatewayPlan plan(String route) {
        Config config = configs.get(route);
        if (config == null) {
            config = configs.get(RouteDefinitionRouteLocator.DEFAULT_FILTERS);
        }
        if (config == null) {
            throw GatewayPlan.refused(
                    route,
                    "there is no configuration for it: expected arguments of its filter RequestRateLimiter, for example "
                            + CONFIGURATION_PROPERTY_NAME + ".limits: 10/s, 3000/10m");
        }
        GatewayPlan known = plans.get(route);
        if (known != null && known.config() == config) {
            return known;
        }
        GatewayPlan plan = GatewayPlan.of(route, config);
        plans.put(route, plan);
        return plan;
    }

    private static long remaining(GatewayPlan plan, Decision decision) {
        return decision.limits().isEmpty() ? UNKNOWN : decision.remaining() * plan.tokensOfAPermit();
    }

    private Response undecided(String route, GatewayPlan plan, Throwable why) {
        if (failureTold.compareAndSet(false, true)) {
            LOG.warn("route {} could not be decided, and others may not be either: {}", route, onOneLine(why));
        }
        return response(plan, null, plan.config().whenUndecided == WhenUndecided.ALLOW, UNKNOWN);
    }

    /** What went wrong in somebody else's store may quote what a client has sent. */
    private static String onOneLine(Throwable why) {
        String text = why.toString();
        return text.substring(0, Math.min(LONGEST, text.length())).replaceAll("[^ -~]", "?");
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
     * What the header fields of the gateway's own limiter are called.
     *
     * @param included whether they are told at all
     * @param remaining how many tokens are left; -1 if that is not known
     * @param replenishRate how many tokens come back each second
     * @param burstCapacity how many tokens there are at most
     * @param requestedTokens how many tokens a request takes
     */
    public record Fields(
            boolean included, String remaining, String replenishRate, String burstCapacity, String requestedTokens) {

        /**
         * Those that the gateway's own limiter has if nothing else is set.
         *
         * @return the names
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

    /** What holds for a route: either limits, or a bucket as the gateway's own limiter has it. */
    public static final class Config {

        @Nullable
        String limits;

        int replenishRate;
        long burstCapacity = 1;
        int requestedTokens = 1;
        WhenUndecided whenUndecided = WhenUndecided.ALLOW;

        /** A configuration that says nothing yet. */
        public Config() {}

        /**
         * Sets the limits, all of which must agree.
         *
         * @param limits as {@link io.github.spillgate.Limit#parse(String)} reads them, separated by commas
         * @return this configuration
         */
        public Config setLimits(String limits) {
            this.limits = limits;
            return this;
        }

        /**
         * Sets how many tokens come back each second, in place of limits.
         *
         * @param replenishRate at least 1
         * @return this configuration
         */
        public Config setReplenishRate(int replenishRate) {
            this.replenishRate = replenishRate;
            return this;
        }

        /**
         * Sets how many tokens there are at most. 1 by default.
         *
         * @param burstCapacity as many as a request takes, or more; 0 denies all requests
         * @return this configuration
         */
        public Config setBurstCapacity(long burstCapacity) {
            this.burstCapacity = burstCapacity;
            return this;
        }

        /**
         * Sets how many tokens, or permits of the limits, a request takes. 1 by default.
         *
         * @param requestedTokens at least 1
         * @return this configuration
         */
        public Config setRequestedTokens(int requestedTokens) {
            this.requestedTokens = requestedTokens;
            return this;
        }

        /**
         * Sets what holds for a request on which nothing can be decided. It is let through by default.
         *
         * @param whenUndecided what holds
         * @return this configuration
         */
        public Config setWhenUndecided(WhenUndecided whenUndecided) {
            this.whenUndecided = whenUndecided;
            return this;
        }

        /** Returns the configuration for a log. */
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
