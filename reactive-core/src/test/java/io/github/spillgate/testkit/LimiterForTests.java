package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.PatientRedisStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.retry.Retry;

/**
 * A limiter on a real Redis or PostgreSQL, by a name of its own, so that no test shares another's counts. Only the
 * deadline bounds a decision: its store is patient with a slow machine.
 */
public final class LimiterForTests implements AutoCloseable {

    public static final KeySource ADDRESS = KeySource.clientAddress(ClientAddress.ofPeer());

    private static final Charge READY = Charge.of("ready", Limit.perMinute(1));

    private final RateLimiter limiter;
    private final Runnable disconnect;

    private LimiterForTests(LimitStore store, Duration deadline, Runnable disconnect) {
        this.disconnect = disconnect;
        limiter = RateLimiter.builder("test-" + UUID.randomUUID().toString().substring(0, 8))
                .store(store)
                .deadline(deadline)
                .build();
    }

    /** A limiter on this Redis, with this deadline. */
    public static LimiterForTests on(RedisForTests redis, Duration deadline) {
        return on(redis.uri(), deadline);
    }

    /** A limiter on the Redis at this address, for example behind a proxy. */
    public static LimiterForTests on(RedisURI redis, Duration deadline) {
        RedisClient client = PatientRedisStore.client(redis);
        RedisStore store = PatientRedisStore.create(client, redis);
        return new LimiterForTests(store, deadline, () -> {
            store.closeLater().block();
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        });
    }

    /** A limiter on this PostgreSQL, with this deadline. */
    public static LimiterForTests on(PostgresForTests postgres, Duration deadline) {
        PostgresStore store = PostgresStore.builder(postgres.factory())
                .timeout(Duration.ofMinutes(1))
                .build();
        return new LimiterForTests(store, deadline, () -> store.closeLater().block());
    }

    public void awaitReady() {
        awaitReady(limiter);
    }

    /** Waits until the store decides: on a slow machine, the first attempt to connect may time out. */
    public static void awaitReady(RateLimiter limiter) {
        limiter.ready().retryWhen(Retry.fixedDelay(10, Duration.ofSeconds(1))).block();
        // If an attempt has failed, the breaker is open for a second.
        await().until(() -> Set.of(Source.REDIS, Source.POSTGRES)
                .contains(limiter.peek(READY).block().source()));
    }

    /** Leaves a request only the last 100 ms of a deadline, so that a fallback decides soon if Redis does not. */
    public static <T> Mono<T> almostLate(Mono<T> request, Duration deadline) {
        return request.contextWrite(context -> context.put(
                LimitStore.WAITING_SINCE,
                Schedulers.parallel().now(TimeUnit.NANOSECONDS)
                        - deadline.minusMillis(100).toNanos()));
    }

    /** The limiter; it is closed with this. */
    public RateLimiter limiter() {
        return limiter;
    }

    /** A rule of that name by the address of the peer, which is that of all clients of a test. */
    public static Rule.Builder address(String name, long permits) {
        return Rule.named(name).key(ADDRESS).limit(Limit.perMinute(permits));
    }

    @Override
    public void close() {
        limiter.closeLater().block();
        disconnect.run();
    }
}
