package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Several instances, some of which lease, take from one log or token bucket at the same time. */
class LeaseContentionTest {

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final List<ResilientStore> stores = new ArrayList<>();

    @AfterEach
    void shutdown() {
        stores.forEach(ResilientStore::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @ParameterizedTest
    // Instances that lease, and that do not.
    @CsvSource({"2, 2, 300/1s", "3, 1, 5000/1s resolution=7ms", "4, 0, 3000/1s burst=3000", "3, 1, 5000/1s burst=300"})
    void noWindowHasMoreThanTheLimit(int leasing, int others, String text) {
        Limit limit = Limit.parse(text);
        String key = UUID.randomUUID().toString();
        Queue<Decision> granted = new ConcurrentLinkedQueue<>();
        List<RateLimiter> limiters = IntStream.range(0, leasing + others)
                .mapToObj(i -> limiter(i < leasing ? limit.leased() : limit))
                .toList();
        Disposable traffic = Flux.fromIterable(limiters)
                .flatMap(limiter -> traffic(limiter, key, new Random()).doOnNext(granted::add), limiters.size())
                .subscribe();
        await().atMost(Duration.ofMinutes(1))
                .pollDelay(limit.window().multipliedBy(2).plusMillis(500))
                .until(() -> fromLeases(granted) > 50);
        traffic.dispose();
        assertThat(most(granted, limit))
                .as("the most permits in a window, of %s grants", granted.size())
                .isLessThanOrEqualTo(limit.capacity());
    }

    /** What is not spent is free again for all. */
    @Test
    void unspentPermitsAreRefunded() {
        Limit limit = Limit.perMinute(1_000);
        RateLimiter leasing = limiter(limit.leased());
        RateLimiter other = limiter(limit);
        List<Decision> granted = Flux.range(0, 300)
                .concatMap(i -> leasing.tryAcquire("a"))
                .filter(Decision::isAllowed)
                .collectList()
                .block();
        assertThat(granted).hasSize(300).anyMatch(decision -> decision.source() == Source.LEASE);
        await().until(() -> other.peek("a").block().limits().get(0).used() == 300);
        granted.forEach(decision -> leasing.refund(decision).block());
        assertThat(other.peek("a").block().limits().get(0).used()).isZero();
    }

    /** Permits of others are charged together with leased ones, and a refund finds them there. */
    @Test
    void refundsBesideLeasesReturnAllPermits() {
        Limit limit = Limit.perMinute(20_000);
        String key = UUID.randomUUID().toString();
        RateLimiter leasing = limiter(limit.leased());
        List<RateLimiter> limiters = List.of(leasing, limiter(limit));
        long kept = 0;
        for (int i = 0; i < 50; i++) {
            List<Decision> granted = Flux.range(0, 40)
                    .flatMap(n -> leasing.tryAcquire(key))
                    .collectList()
                    .block();
            assertThat(granted).hasSize(40).allMatch(Decision::isAllowed);
            kept += 40;
            for (RateLimiter limiter : limiters) {
                Decision refunded = limiter.tryAcquire(Charge.of(key, 100)).block();
                Decision settled = limiter.tryAcquire(Charge.of(key, 50)).block();
                limiter.refund(refunded).block();
                limiter.settle(settled, 1).block();
                kept++;
            }
        }
        assertThat(leasing.state().leases().decisions()).isPositive();
        long expected = kept;
        await().untilAsserted(() ->
                assertThat(leasing.peek(key).block().limits().get(0).used()).isEqualTo(expected));
    }

    private static long fromLeases(Queue<Decision> granted) {
        return granted.stream()
                .filter(decision -> decision.source() == Source.LEASE)
                .count();
    }

    private RateLimiter limiter(Limit limit) {
        ResilientStore store = ResilientStore.builder(RedisStore.create(client))
                .deadline(Duration.ofSeconds(10))
                .fallback(Fallback.error())
                .build();
        stores.add(store);
        return RateLimiter.builder("api").store(store).limit(limit).build();
    }

    /** Sometimes many requests, sometimes few; some are refunded. */
    private static Flux<Decision> traffic(RateLimiter limiter, String key, Random random) {
        return Flux.generate(sink -> sink.next(1 + random.nextInt(3)))
                .concatMap(cost -> random.nextInt(200) == 0
                        ? Mono.delay(Duration.ofMillis(random.nextInt(100))).thenReturn(cost)
                        : Mono.just(cost))
                .flatMap(cost -> limiter.tryAcquire(Charge.of(key, (int) cost)), 16)
                .filter(Decision::isAllowed)
                .filterWhen(decision ->
                        random.nextInt(10) == 0 ? limiter.refund(decision).thenReturn(false) : Mono.just(true));
    }

    /** Returns the most permits in any window, or the highest level of the bucket, by the times of the decisions. */
    private static long most(Queue<Decision> decisions, Limit limit) {
        List<Decision> granted = new ArrayList<>(decisions);
        granted.sort((a, b) -> a.at().compareTo(b.at()));
        GrantedPermits all = new GrantedPermits(limit);
        granted.forEach(decision -> all.take(decision.at().toEpochMilli(), cost(decision)));
        return all.most();
    }

    private static long cost(Decision decision) {
        return DecidedClaims.of(decision).get(0).permits();
    }
}
