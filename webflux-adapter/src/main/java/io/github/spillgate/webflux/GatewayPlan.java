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
 */
record GatewayPlan(Config config, List<Limit> limits) {
    // Design notes.
    //
    // The gateway's own limiter fills a bucket once a second. If the bucket holds less than the tokens of a second, it
    // is full at the start of each second, and tokens that do not suffice for another request are lost. Its rate is
    // then the capacity, rounded down to a multiple of the tokens of a request. All other buckets have the same rate
    // and the same capacity here.

    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final long MOST_TOKENS = Limit.MOST_BUCKET_PERMITS / 100;
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
            if (limit.holdsPermits()) {
                throw new IllegalArgumentException("limit \"" + limit + "\" holds permits until a response has ended,"
                        + " which the gateway does not report to its rate limiter: expected limits with a window, for"
                        + " example 10/s, and the concurrency limit in a rule, for example spillgate.rules[0].limits="
                        + limit);
            }
            if (limit.takesPermits() && limit.capacity() < config.requestedTokens) {
                throw new IllegalArgumentException("requestedTokens is " + config.requestedTokens + ", which limit \""
                        + limit + "\" never has: expected at most " + limit.capacity());
            }
        }
        return new GatewayPlan(config, named(route, limits));
    }

    private static GatewayPlan ofBucket(String route, Config config) {
        int rate = config.replenishRate;
        if (rate < 1) {
            throw new IllegalArgumentException("replenishRate is " + rate
                    + ": expected at least 1, or limits in its place, for example limits: 10/s, 3000/10m; one request"
                    + " a minute is replenishRate: 1, burstCapacity: 60, requestedTokens: 60, or limits: 1/1m");
        }
        if (config.burstCapacity == 0) {
            return new GatewayPlan(config, List.of());
        }
        if (config.burstCapacity < config.requestedTokens) {
            throw new IllegalArgumentException("burstCapacity is " + config.burstCapacity
                    + ", which never holds a request of " + config.requestedTokens + " tokens: expected at least "
                    + config.requestedTokens + ", or 0 to deny all");
        }
        long usable = config.burstCapacity / config.requestedTokens * config.requestedTokens;
        Limit limit = Limit.bucket(Math.min(rate, usable), SECOND, Math.min(config.burstCapacity, mostTokens(rate)));
        return new GatewayPlan(config, named(route, List.of(limit)));
    }

    /** Returns the largest burst. A practically unlimited bucket may exceed it: then the rate stays the same. */
    private static long mostTokens(long rate) {
        return Math.min(MOST_TOKENS, Limit.LONGEST_FILL.toSeconds() * rate);
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
