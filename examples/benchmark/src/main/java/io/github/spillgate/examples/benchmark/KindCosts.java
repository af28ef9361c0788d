package io.github.spillgate.examples.benchmark;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.github.spillgate.examples.benchmark.measure.RedisServer;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Function;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Measures what a decision of each kind of limit costs Redis: the memory of its key by MEMORY USAGE, and the time of
 * its commands by INFO commandstats, which excludes input and output.
 */
final class KindCosts {

    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final Duration HOUR = Duration.ofHours(1);
    private static final int KEYS = 64;
    private static final int AT_ONCE = 256;
    private static final String WARM_UP = "warm-up";
    private static final String PREFIX = "user:";

    private final RedisServer redis;
    private final PrintStream out;
    private final int samples;

    /**
     * Creates a measurement.
     *
     * @param quick whether to measure a tenth of the decisions
     */
    KindCosts(RedisServer redis, PrintStream out, boolean quick) {
        this.redis = redis;
        this.out = out;
        this.samples = quick ? 200 : 2_000;
    }

    void show() {
        out.println();
        out.printf(
                Locale.ROOT,
                "Redis µs: the median of %,d decisions alone in their command, and the mean of %,d requested %d at a"
                        + " time.%n%n",
                samples,
                samples * 2,
                AT_ONCE);
        out.println("| | MEMORY USAGE, bytes a key | alone, µs | together, µs | a release alone, µs |");
        out.println("|---|---:|---:|---:|---:|");
        show("log, 10 hits in one entry", Limit.of(1_000_000, HOUR).resolution(Duration.ofSeconds(1)), 10);
        show("counter", Limit.counter(1_000_000, HOUR), 1);
        // At a low rate, because the key of an empty bucket expires.
        show("bucket", Limit.bucket(100, HOUR, 1_000_000), 1);
        for (int holders : new int[] {1, 20, 500}) {
            show(
                    holders == 1 ? "concurrency, 1 holder" : "concurrency, " + holders + " holders",
                    Limit.concurrent(Limit.MOST_CONCURRENT_PERMITS).hold(HOUR),
                    holders);
        }
    }

    private void show(String what, Limit limit, int hits) {
        redis.empty();
        RedisClient client = RedisClient.create("redis://" + redis.host() + ":" + redis.port());
        try {
            RedisStore store = RedisStore.create(client);
            store.prepare("").block(TIMEOUT);
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(store)
                    .deadline(TIMEOUT)
                    .limit(limit)
                    .build();
            Costs costs = measure(limiter, hits);
            out.printf(
                    Locale.ROOT,
                    "| %s | %,.0f | %.1f | %.1f | %s |%n",
                    what,
                    costs.bytes,
                    costs.alone,
                    costs.together,
                    costs.release > 0 ? String.format(Locale.ROOT, "%.1f", costs.release) : "–");
            limiter.closeLater().block(TIMEOUT);
        } finally {
            client.shutdown();
        }
    }

    private Costs measure(RateLimiter limiter, int hits) {
        // The first commands load the scripts.
        release(limiter, take(limiter, WARM_UP));
        for (int hit = 0; hit < hits; hit++) {
            takeAll(limiter, KEYS);
        }
        double bytes = redis.memoryOf(key -> key.contains(PREFIX));
        double[] alone = new double[samples];
        double[] released = new double[samples];
        for (int i = 0; i < samples; i++) {
            CommandCalls before = redis.calls();
            Decision decision = take(limiter, key(i));
            CommandCalls taken = redis.calls();
            release(limiter, decision);
            alone[i] = taken.since(before).scripts().micros();
            released[i] = redis.calls().since(taken).scripts().micros();
        }
        double together = 0;
        for (int i = 0; i < samples * 2; i += AT_ONCE) {
            CommandCalls before = redis.calls();
            List<Decision> decisions = takeAll(limiter, AT_ONCE);
            together += redis.calls().since(before).scripts().micros() / decisions.size();
            decisions.forEach(decision -> release(limiter, decision));
        }
        int rounds = (samples * 2 + AT_ONCE - 1) / AT_ONCE;
        return new Costs(bytes, median(alone), together / rounds, median(released));
    }

    private static Decision take(RateLimiter limiter, String key) {
        return Objects.requireNonNull(checked(limiter.tryAcquire(key)).block(TIMEOUT));
    }

    /** Takes permits of all keys in turn, at the same time. */
    private static List<Decision> takeAll(RateLimiter limiter, int number) {
        return Objects.requireNonNull(Flux.range(0, number)
                .flatMap(i -> checked(limiter.tryAcquire(key(i))), AT_ONCE)
                .collectList()
                .block(TIMEOUT));
    }

    private static Mono<Decision> checked(Mono<Decision> taken) {
        Function<Decision, Mono<Decision>> check = decision -> decision.isAllowed() && decision.source() == Source.REDIS
                ? Mono.just(decision)
                : Mono.error(new IllegalStateException("not taken in Redis: " + decision));
        return taken.flatMap(check);
    }

    /** Sends nothing for a limit that holds no permits. */
    private static void release(RateLimiter limiter, Decision decision) {
        limiter.release(decision).block(TIMEOUT);
    }

    private static String key(int number) {
        return PREFIX + number % KEYS;
    }

    private static double median(double[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }

    /** The bytes of a key, and the microseconds of a decision alone and together with others, and of a release. */
    private record Costs(double bytes, double alone, double together, double release) {}
}
