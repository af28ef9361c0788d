package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.math.BigInteger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.assertj.core.api.SoftAssertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Which of several decisions reports that a key is near a limit. */
class NearDecisionsTest extends ScriptedFixture {

    private static final Duration LONG = Duration.ofMinutes(1);

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aDenialOverSeveralSlotsDoesNotReportAMarkThatIsNotReached(boolean isQuota) {
        RedisClusterClient cluster =
                RedisClusterClient.create(RedisClusterForTests.shared().uris().subList(0, 1));
        RedisStore slots =
                RedisStore.builder(cluster).namespace("t" + System.nanoTime()).build();
        try {
            RateLimiter limiter = Unprotected.limiter(slots);
            String[] keys = Stream.of("a", "b", "c")
                    .sorted((one, other) -> Integer.compare(SlotHash.getSlot(one), SlotHash.getSlot(other)))
                    .toArray(String[]::new);
            Limit first =
                    isQuota ? Limit.monthly(10).near(80) : Limit.perHour(10).near(80);
            Charge plan = Charge.of(keys[0], first);
            Charge full = Charge.of(keys[2], Limit.perHour(1));
            limiter.tryAcquire(plan.permits(7), full).block();
            Decision denied = limiter.tryAcquire(plan, full).block();
            assertThat(denied.isAllowed()).isFalse();
            SoftAssertions softly = new SoftAssertions();
            softly.assertThat(denied.near()).as("7 of 10 are used").isEmpty();
            await().until(() -> limiter.peek(plan).block().limits().get(0).used() == 7);
            softly.assertThat(limiter.tryAcquire(plan).block().near())
                    .as("8 of 10")
                    .hasSize(1);
            softly.assertAll();
        } finally {
            slots.close();
            cluster.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** Two limiters of one name, which share a guarded store. */
    @Test
    void aCachedDenialDoesNotReportAQuotaAgain() {
        ResilientStore guarded =
                ResilientStore.builder(store).deadline(LONG).cacheDenials(LONG).build();
        Limit plan = Limit.daily(2).near(50);
        RateLimiter one = RateLimiter.builder("api").store(guarded).limit(plan).build();
        RateLimiter other =
                RateLimiter.builder("api").store(guarded).limit(plan).build();
        List<Decision> made = new ArrayList<>();
        one.ready().block();
        for (int i = 0; i < 4; i++) {
            made.add(one.tryAcquire("k").block());
        }
        made.add(other.tryAcquire("k").block());
        assertThat(made.get(4).source()).isEqualTo(Source.CACHED_DENIAL);
        assertThat(made.stream().flatMap(each -> each.near().stream())).hasSize(1);
    }

    /** The end of a period is the same for all nodes. */
    @Test
    void theEndOfAPeriodIsExactOverSeveralSlots() {
        RedisClusterClient cluster =
                RedisClusterClient.create(RedisClusterForTests.shared().uris().subList(0, 1));
        RedisStore slots =
                RedisStore.builder(cluster).namespace("t" + System.nanoTime()).build();
        try {
            RateLimiter limiter = Unprotected.limiter(slots, Limit.yearly(1_000));
            for (int i = 0; i < 30; i++) {
                Decision made = limiter.tryAcquire(Charge.of("a"), Charge.of("b"), Charge.of("c"))
                        .block();
                assertThat(made.limits())
                        .allSatisfy(usage -> assertThat(usage.wholeAt())
                                .isEqualTo(Limit.yearly(1_000).periodEnd(made.at())));
            }
        } finally {
            slots.close();
            cluster.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** Replies arrive on several threads, in any order. */
    @ParameterizedTest
    @ValueSource(strings = {"20/1h near=50%", "100/1m near=80%", "100/1m burst=100 near=80%"})
    void concurrentRequestsOnRedisReportAKeyOnce(String text) {
        RedisStore own =
                RedisStore.builder(client).namespace(keyspace.namespace()).build();
        RateLimiter concurrent = Unprotected.limiter(own, Limit.parse(text));
        for (int key = 0; key < 200; key++) {
            String name = "t" + key;
            List<Decision> made = Flux.range(0, 120)
                    .flatMap(i -> concurrent.tryAcquire(name).subscribeOn(Schedulers.boundedElastic()), 120)
                    .collectList()
                    .block(LONG);
            assertThat(made.stream().flatMap(each -> each.near().stream()))
                    .as(name)
                    .hasSize(1);
        }
        own.close();
    }

    /** Decisions on several quotas and keys, in one batch, of which some deny. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void severalQuotasInOneDecisionReportOnce(String kind) {
        RateLimiter limiter = Unprotected.limiter(stored(kind));
        Random random = new Random(9);
        for (int round = 0; round < 200; round++) {
            Limit day = Limit.daily(10 + random.nextInt(20)).near(1 + random.nextInt(100));
            Limit year = Limit.yearly(10 + random.nextInt(20)).near(1 + random.nextInt(100));
            List<Mono<Decision>> asked = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                long cost = 1L + (random.nextInt(4) == 0 ? random.nextInt(3) : 0);
                Charge one = Charge.of("a" + round, day, year).group("g").permits(cost);
                Charge both = Charge.of("b" + round, year).group("g").permits(cost);
                asked.add(random.nextInt(3) == 0 ? limiter.tryAcquire(one, both) : limiter.tryAcquire(one));
            }
            List<Decision> made = Flux.fromIterable(asked)
                    .flatMap(each -> each, 60)
                    .collectList()
                    .block(LONG);
            List<String> reports = made.stream()
                    .flatMap(each -> each.near().stream())
                    .map(usage -> usage.key() + usage.limit())
                    .sorted()
                    .toList();
            List<String> reached = made.stream()
                    .filter(Decision::isCharged)
                    .flatMap(each -> each.limits().stream())
                    .filter(usage -> usage.used() >= usage.limit().nearMark())
                    .map(usage -> usage.key() + usage.limit())
                    .distinct()
                    .sorted()
                    .toList();
            assertThat(reports).as("round %d", round).isEqualTo(reached);
        }
    }

    /** Limiters with other marks, and without one, in one batch; costs of 0, and denied groups. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void limitersWithOtherMarksReportOnce(String kind) {
        LimitStore all = stored(kind);
        Random random = new Random(5);
        for (int round = 0; round < 300; round++) {
            List<RateLimiter> limiters = Stream.of(
                            Limit.daily(30).near(100), Limit.daily(30).near(1 + random.nextInt(100)), Limit.daily(30))
                    .map(limit -> Unprotected.limiter(all, limit))
                    .toList();
            List<Mono<Decision>> asked = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                asked.add(limiters.get(random.nextInt(3)).tryAcquire(Charge.of("k" + round, random.nextInt(4))));
            }
            List<Decision> made = Flux.fromIterable(asked)
                    .flatMap(each -> each, 60)
                    .collectList()
                    .block(LONG);
            long reports = made.stream().mapToLong(one -> one.near().size()).sum();
            boolean reached = made.stream()
                    .anyMatch(one -> one.isCharged()
                            && one.limits().get(0).used()
                                    >= one.limits().get(0).limit().nearMark());
            assertThat(reports).as("round %d", round).isEqualTo(reached ? 1 : 0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"lua", "values"})
    void marksAtTheBounds(String kind) {
        LimitStore all = stored(kind);
        Random random = new Random(7);
        long[] permits = {1, 2, 3, 99, 100, 101, 199, 999_999_999_999_999L, 1_000_000_000_000_000L};
        for (int i = 0; i < 400; i++) {
            long most = i % 3 == 0 ? 1 + random.nextInt(1_000) : permits[random.nextInt(permits.length)];
            int percent = i % 5 == 0 ? (random.nextBoolean() ? 1 : 100) : 1 + random.nextInt(100);
            Limit limit = Limit.yearly(most).near(percent);
            RateLimiter limiter = Unprotected.limiter(all, limit);
            long mark = limit.nearMark();
            String key = "b" + i;
            assertThat(BigInteger.valueOf(mark))
                    .isEqualTo(BigInteger.valueOf(most)
                            .multiply(BigInteger.valueOf(percent))
                            .add(BigInteger.valueOf(99))
                            .divide(BigInteger.valueOf(100)));
            if (mark > 1) {
                assertThat(limiter.tryAcquire(Charge.of(key, mark - 1)).block().near())
                        .isEmpty();
            }
            assertThat(limiter.tryAcquire(Charge.of(key, 1)).block().near())
                    .as(limit.toString())
                    .hasSize(1);
        }
    }

    @Test
    void theMarkIsKeptByAllMethods() {
        assertThat(Limit.perMinute(600).near(80).burst(10).nearMark()).isEqualTo(8);
        assertThat(Limit.perMinute(600).near(80).counter().nearMark()).isEqualTo(480);
        assertThat(Limit.perMinute(600).near(80).counter().alignedToClock().nearMark())
                .isEqualTo(480);
        assertThat(Limit.perMinute(600).near(80).leased().nearMark()).isEqualTo(480);
        assertThat(Limit.perMinute(600)
                        .near(80)
                        .resolution(Duration.ofSeconds(1))
                        .nearMark())
                .isEqualTo(480);
        assertThat(Limit.perMinute(600).near(80).countingDenied().named("x").nearMark())
                .isEqualTo(480);
        assertThat(Limit.concurrent(10)
                        .near(80)
                        .hold(Duration.ofSeconds(9))
                        .retryAfter(Duration.ofSeconds(2))
                        .nearMark())
                .isEqualTo(8);
    }
}
