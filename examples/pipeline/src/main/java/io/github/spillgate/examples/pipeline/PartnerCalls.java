package io.github.spillgate.examples.pipeline;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.examples.redis.ExampleRedis;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Locale;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Two instances of a service call one slow partner, which accepts five calls within any second in total. Both instances
 * throttle their calls by one limit, which they share in Redis.
 */
public final class PartnerCalls {

    /**
     * The partner counts calls on arrival, and the limiter before they are sent. Our window is a little longer than the
     * second of the partner, to allow for this difference.
     */
    private static final Limit OUR_LIMIT = Limit.of(Partner.CALLS_A_SECOND, Duration.ofMillis(1_100));

    private static final int CALLS_PER_INSTANCE = 12;

    private final Partner partner;
    private final HttpClient http = HttpClient.newHttpClient();
    private final long start;

    private PartnerCalls(Partner partner) {
        this.partner = partner;
        this.start = System.nanoTime();
    }

    public static void main(String[] args) throws IOException {
        try (ExampleRedis redis = ExampleRedis.open();
                Partner partner = new Partner()) {
            System.out.printf("Redis: %s%n", redis.name());
            System.out.printf(
                    "The partner accepts %d calls a second and takes 300 ms for each; our limit is %s."
                            + " Instances A and B make %d calls each.%n%n",
                    Partner.CALLS_A_SECOND, OUR_LIMIT, CALLS_PER_INSTANCE);
            RedisClient clientOfA = RedisClient.create(redis.uri());
            RedisClient clientOfB = RedisClient.create(redis.uri());
            try {
                PartnerCalls calls = new PartnerCalls(partner);
                calls.warmUp();
                Flux.merge(calls.instance("A", clientOfA), calls.instance("B", clientOfB))
                        .then()
                        .block(Duration.ofMinutes(1));
                calls.report();
            } finally {
                clientOfA.shutdown();
                clientOfB.shutdown();
            }
        }
    }

    /**
     * One instance of the service, with its own client and its own limiter. The limiters share a limit because they
     * have the same name.
     */
    private Flux<Integer> instance(String instance, RedisClient client) {
        RateLimiter limiter = RateLimiter.builder("partner")
                .store(RedisStore.create(client))
                // The partner is strict: during an outage of Redis, fail closed instead of limiting each instance
                // separately.
                .fallback(Fallback.deny())
                .limit(OUR_LIMIT)
                .build();
        return Flux.range(1, CALLS_PER_INSTANCE)
                .transform(limiter.throttle("vat-service"))
                .flatMap(number -> call(instance, number));
    }

    private Mono<Integer> call(String instance, int number) {
        log("%s  call %d is sent", instance, number);
        return send("/check").doOnNext(status -> log("%s  call %d gets status %d", instance, number, status));
    }

    private Mono<Integer> send(String path) {
        HttpRequest request = HttpRequest.newBuilder(partner.uri(path)).build();
        return Mono.fromFuture(() -> http.sendAsync(request, BodyHandlers.discarding()))
                .map(response -> response.statusCode());
    }

    /** Warms the client up, because its first call takes longer than the others. */
    private void warmUp() {
        send("/hello").block(Duration.ofSeconds(10));
    }

    private void log(String text, Object... values) {
        System.out.printf("%6.3f s  %s%n", seconds(), String.format(Locale.ROOT, text, values));
    }

    private double seconds() {
        return (System.nanoTime() - start) / 1e9;
    }

    private void report() {
        System.out.printf(
                Locale.ROOT,
                "%n%d calls in %.1f s; the partner accepted %d and denied %d.%n",
                2 * CALLS_PER_INSTANCE,
                seconds(),
                partner.accepted(),
                partner.denied());
    }
}
