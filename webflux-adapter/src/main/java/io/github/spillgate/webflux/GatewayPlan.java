package io.github.spillgate.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * What the configuration of a route means.
 *
 * <p>Of a bucket of {@code b} tokens, {@code r} of which come back each second, at most {@code b + r·t} pass in any
 * {@code t} seconds. A log of {@code n} permits in {@code w} seconds lets at most {@code n·(⌊t/w⌋ + 1)} pass. For every
 * {@code t}, that is no more than the former exactly if {@code n ≤ b} and {@code n ≤ r·w}; so {@code n = b} in
 * {@code w = b/r} is the limit that gives away neither of the burst nor of the rate. A bucket of less than a second's
 * tokens fills no more than once a second, because it counts whole seconds; hence no window is shorter.
 *
 * @param config what it was made of
 * @param limits the limits; none if all requests are denied
 * @param cost how many permits a request takes
 * @param tokensOfAPermit how many of the gateway's tokens a permit stands for
 */
record GatewayPlan(Config config, List<Limit> limits, long cost, long tokensOfAPermit) {

    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final int LONGEST_NAME = 64;

    static GatewayPlan of(String route, Config config) {
        if (config.requestedTokens < 1) {
            throw refused(
                    route, "requestedTokens is " + config.requestedTokens + ": expected at least 1, for example 1");
        }
        try {
            GatewayPlan plan = config.limits == null ? ofBucket(route, config) : ofLimits(route, config, config.limits);
            // Whether the limits go together is said where they are charged; to hear it now is better than at the first
            // request.
            if (!plan.limits.isEmpty()) {
                Charge.of(route + ":", plan.limits);
            }
            return plan;
        } catch (IllegalArgumentException e) {
            throw refused(route, String.valueOf(e.getMessage()));
        }
    }

    private static GatewayPlan ofLimits(String route, Config config, String text) {
        if (config.replenishRate != 0) {
            throw new IllegalArgumentException("it has limits, \"" + text + "\", and replenishRate, "
                    + config.replenishRate + ": expected one of them, for example limits: 10/s, 3000/10m");
        }
        List<Limit> limits =
                Arrays.stream(text.split(",", -1)).map(Limit::parse).toList();
        for (Limit limit : limits) {
            if (limit.permits() < config.requestedTokens) {
                throw new IllegalArgumentException("requestedTokens is " + config.requestedTokens + ", which limit \""
                        + limit + "\" never has: expected at most " + limit.permits());
            }
        }
        return new GatewayPlan(config, named(route, limits), config.requestedTokens, 1);
    }

    private static GatewayPlan ofBucket(String route, Config config) {
        int rate = config.replenishRate;
        if (rate < 1) {
            throw new IllegalArgumentException("replenishRate is " + rate
                    + ": expected at least 1, or limits in its place, for example limits: 10/s, 3000/10m; one request"
                    + " a minute is replenishRate: 1, burstCapacity: 60, requestedTokens: 60, or limits: 1/1m");
        }
        if (config.burstCapacity == 0) {
            return new GatewayPlan(config, List.of(), config.requestedTokens, 1);
        }
        if (config.burstCapacity < config.requestedTokens) {
            throw new IllegalArgumentException("burstCapacity is " + config.burstCapacity
                    + ", which never holds a request of " + config.requestedTokens + " tokens: expected at least "
                    + config.requestedTokens + ", or 0 to deny all");
        }
        long requests = requests(config);
        long tokens = requests * config.requestedTokens;
        // A part of a millisecond more is one more.
        Duration fill = Duration.ofSeconds(tokens / rate).plusMillis((tokens % rate * 1_000 + rate - 1) / rate);
        Limit limit = Limit.of(requests, fill.compareTo(SECOND) < 0 ? SECOND : fill);
        return new GatewayPlan(config, named(route, List.of(limit)), 1, config.requestedTokens);
    }

    /**
     * As many as a full bucket holds. What was meant to be as good as unlimited may be more than is ever counted: then
     * the burst is less, and the rate is the same.
     */
    private static long requests(Config config) {
        long inLongestWindow = config.replenishRate * Limit.LONGEST_WINDOW.toSeconds() / config.requestedTokens;
        return Math.min(
                config.burstCapacity / config.requestedTokens,
                Math.min(Math.max(1, inLongestWindow), Limit.MOST_LOG_PERMITS));
    }

    /** What clients get to know. It may be the same for two routes; their counts have different keys. */
    private static List<Limit> named(String route, List<Limit> limits) {
        String shown = "gateway-" + route.replaceAll("[^A-Za-z0-9._-]", "_");
        return limits.stream()
                .map(limit -> {
                    int room = Math.max(0, LONGEST_NAME - 1 - limit.name().length());
                    return limit.named(shown.substring(0, Math.min(room, shown.length())) + "-" + limit.name());
                })
                .toList();
    }

    static IllegalArgumentException refused(String route, String why) {
        return new IllegalArgumentException("rate limiter of route " + route + ": " + why);
    }
}
