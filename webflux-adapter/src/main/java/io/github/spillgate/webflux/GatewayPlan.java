package io.github.spillgate.webflux;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * The limits of a gateway route, derived from its configuration.
 *
 * @param config the configuration
 * @param limits the limits; none if all requests are denied
 * @param cost the number of permits that a request takes
 * @param tokensPerPermit the number of gateway tokens that a permit stands for
 */
record GatewayPlan(Config config, List<Limit> limits, long cost, long tokensPerPermit) {
    // Design notes.
    //
    // Why one limit replaces a token bucket: a bucket of b tokens, refilled with r tokens per second, allows at most
    // b + r·t tokens in any t seconds. A log of n permits in w seconds allows at most n·(⌊t/w⌋ + 1). The log allows no
    // more than the bucket, for every t, exactly if n ≤ b and n ≤ r·w. So n = b in w = b/r is the limit that loses
    // nothing of the burst and nothing of the rate.
    //
    // The bucket counts whole seconds, so a bucket smaller than r tokens is refilled only once a second. Therefore no
    // window is shorter than a second.

    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final int LONGEST_NAME = 64;

    static GatewayPlan of(String route, Config config) {
        if (config.requestedTokens < 1) {
            throw refused(
                    route, "requestedTokens is " + config.requestedTokens + ": expected at least 1, for example 1");
        }
        try {
            GatewayPlan plan = config.limits == null ? ofBucket(route, config) : ofLimits(route, config, config.limits);
            // A charge validates the combination of limits: create one now, not on the first request.
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
        // Rounded up to whole milliseconds.
        Duration fill = Duration.ofSeconds(tokens / rate).plusMillis((tokens % rate * 1_000 + rate - 1) / rate);
        Limit limit = Limit.of(requests, fill.compareTo(SECOND) < 0 ? SECOND : fill);
        return new GatewayPlan(config, named(route, List.of(limit)), 1, config.requestedTokens);
    }

    /**
     * Returns the number of requests that a full bucket holds. A practically unlimited bucket may exceed the largest
     * limit: then the burst is smaller, and the rate stays the same.
     */
    private static long requests(Config config) {
        long inLongestWindow = config.replenishRate * Limit.LONGEST_WINDOW.toSeconds() / config.requestedTokens;
        return Math.min(
                config.burstCapacity / config.requestedTokens,
                Math.min(Math.max(1, inLongestWindow), Limit.MOST_LOG_PERMITS));
    }

    /** Names the limits for header fields. Two routes may get the same name; their counts have different keys. */
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
