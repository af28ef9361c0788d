package io.github.spillgate.examples.documentation.seeds;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.ScriptedClock;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** The limiter of vatnode.dev, on a real Redis at the instants of the test, compared with the same limits here. */
class VatnodeTest {

    private static final long SECOND = 1_000;
    private static final long START = Traffic.START;
    private static final String KEY = "key";

    private static final Page PAGE = Page.of("vatnode.md");
    private static final Limit ADDRESS = PAGE.limit("120/1m");
    private static final Limit ENDPOINT = PAGE.limit("30/1m");
    private static final Limit FREE = PAGE.limit("100/24h");
    private static final Limit PAID = PAGE.limit("10000/24h");
    private static final Limit PAID_COUNTER = PAGE.limit("10000/24h counter");

    private static RedisClient client;
    private static StatefulRedisConnection<String, String> connection;

    private final Vatnode theirs = Vatnode.over(connection);

    @BeforeAll
    static void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
        connection = client.connect();
    }

    @AfterAll
    static void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    // The script

    /**
     * Ours has a window one millisecond shorter, because theirs ends at the start of a millisecond and ours at its end.
     */
    @Test
    void bothAgreeIfNoTwoRequestsShareAMillisecond() {
        int allowed = 0;
        int denied = 0;
        for (int seed = 0; seed < 16; seed++) {
            Limit limit = seed % 2 == 0 ? ENDPOINT : FREE;
            Ours ours = new Ours(Limit.of(limit.permits(), limit.window().minusMillis(1)));
            String key = "seed " + seed;
            for (long now : Traffic.of(seed, 200, limit.window().toMillis(), limit.permits(), true)) {
                Vatnode.Answer there = theirs.ask(key, limit.permits(), limit.window(), now);
                Decision here = ours.ask(now, Charge.of(key));
                assertThat(there.allowed()).as("%s at %d", key, now).isEqualTo(here.isAllowed());
                assertThat(there.remaining()).as("%s at %d", key, now).isEqualTo(here.remaining());
                allowed += there.allowed() ? 1 : 0;
                denied += there.allowed() ? 0 : 1;
            }
        }
        assertThat(allowed).isGreaterThan(1_000);
        assertThat(denied).isGreaterThan(500);
    }

    @Test
    void requestsOfOneMillisecondWereCountedAsOne() {
        Vatnode first = Vatnode.inItsFirstVersion(connection);
        assertThat(atOnce(first, ENDPOINT)).isEqualTo(100);
        assertThat(first.stored(KEY)).isEqualTo(1);
        assertThat(oursAtOnce(ENDPOINT)).isEqualTo(30);
    }

    /** Up to Redis 6.2, each script starts with the same random number, so the random part does not help. */
    @Test
    void requestsOfOneMillisecondAreStillCountedAsOneOnRedis6() {
        for (RedisForTests redis : RedisForTests.all()) {
            RedisClient client = RedisClient.create(redis.uri());
            try {
                StatefulRedisConnection<String, String> connection = client.connect();
                long number = random(connection.sync());
                boolean sameEachTime = random(connection.sync()) == number;
                assertThat(sameEachTime || !redis.version().startsWith("6."))
                        .as(redis.name())
                        .isTrue();
                Vatnode vatnode = Vatnode.over(connection);
                long admitted = atOnce(vatnode, ENDPOINT);
                if (sameEachTime) {
                    assertThat(admitted).as(redis.name()).isEqualTo(100);
                    assertThat(vatnode.stored(KEY)).as(redis.name()).isEqualTo(1);
                } else {
                    // Two requests share a random number once in a million.
                    assertThat(admitted).as(redis.name()).isBetween(30L, 32L);
                }
            } finally {
                client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            }
        }
    }

    @Test
    void theirWindowIsOneMillisecondTooShort() {
        Ours ours = new Ours(ENDPOINT);
        Admitted there = new Admitted();
        Admitted here = new Admitted();
        long window = ENDPOINT.window().toMillis();
        for (int i = 0; i < 60; i++) {
            long now = START + i % 30 + (i < 30 ? 0 : window);
            there.add(
                    theirs.ask(KEY, ENDPOINT.permits(), ENDPOINT.window(), now).allowed(), now);
            here.add(ours.allows(KEY, now), now);
        }
        assertThat(there.mostIn(window)).isEqualTo(31);
        assertThat(here.mostIn(window)).isEqualTo(30);
    }

    /** A free customer with a request every ten minutes is allowed again when the first is one day old. */
    @Test
    void theirResetIsAlwaysAWholeWindow() {
        Ours ours = new Ours(FREE);
        long now = START;
        for (int i = 0; i < 100; i++, now += 600 * SECOND) {
            theirs.ask(KEY, FREE.permits(), FREE.window(), now);
            ours.allows(KEY, now);
        }
        Vatnode.Answer denied = theirs.ask(KEY, FREE.permits(), FREE.window(), now);
        assertThat(denied.allowed()).isFalse();
        assertThat(denied.retryAfterSeconds()).isEqualTo(86_400);
        long wait = ours.ask(now, Charge.of(KEY)).retryAfter().orElseThrow().toMillis();
        assertThat(wait).isEqualTo(START + 86_400 * SECOND + 1 - now).isEqualTo(26_400 * SECOND + 1);
        assertThat(theirs.ask(KEY, FREE.permits(), FREE.window(), now + wait).allowed())
                .isTrue();
        assertThat(ours.allows(KEY, now + wait - 1)).isFalse();
        assertThat(ours.allows(KEY, now + wait)).isTrue();
    }

    @Test
    void aDayOfTenThousandRequestsCostsMoreThanAMegabyte() {
        long apart = 8_640;
        List<CompletionStage<Vatnode.Answer>> answers = IntStream.range(0, 10_000)
                .mapToObj(i -> theirs.send(KEY, PAID.permits(), PAID.window(), START + i * apart))
                .toList();
        assertThat(answers)
                .allMatch(answer -> answer.toCompletableFuture().join().allowed());
        long there = theirs.memory(KEY);
        long log = memory(PAID, 10_000, 1, Duration.ofMillis(apart));
        long counter = memory(PAID_COUNTER, 80, 125, Duration.ofMillis(100 * apart));
        assertThat(there).isGreaterThan(1_000_000);
        assertThat(log).isBetween(90_000L, 110_000L);
        assertThat(counter).isLessThanOrEqualTo(160);
    }

    // The tiers

    /**
     * Three decisions in sequence: earlier ones are charged although a later one denies, and all write the same fields.
     */
    @Test
    void aDenialByTheLastTierIsChargedToTheOthers() {
        Ours ours = new Ours();
        Charge[] charges = {
            Charge.of("ip", ADDRESS), Charge.of("key", FREE.named("plan")), Charge.of("validate", ENDPOINT)
        };
        int served = 0;
        int servedByOurs = 0;
        for (int i = 0; i < 100; i++) {
            long now = START + i * SECOND / 2;
            served += theirTiers(now) ? 1 : 0;
            servedByOurs += ours.ask(now, charges).isAllowed() ? 1 : 0;
        }
        assertThat(served).isEqualTo(30);
        assertThat(servedByOurs).isEqualTo(30);
        long later = START + 3_600 * SECOND;
        assertThat(theirTiers(later)).isFalse();
        assertThat(ours.look(later, charges[1]).remaining()).isEqualTo(70);
        assertThat(ours.ask(later, charges).isAllowed()).isTrue();
    }

    @Test
    void theFieldsOfTheLastTierHideAnExhaustedDay() {
        Ours ours = new Ours();
        Charge[] charges = {Charge.of("key", FREE), Charge.of("validate", ENDPOINT)};
        long told = 0;
        Decision decision = ours.look(START, charges);
        for (int i = 0; i < 100; i++) {
            long now = START + i * 60L * SECOND;
            theirs.ask("key", FREE.permits(), FREE.window(), now);
            told = theirs.ask("validate", ENDPOINT.permits(), ENDPOINT.window(), now)
                    .remaining();
            decision = ours.ask(now, charges);
        }
        assertThat(told).isEqualTo(29);
        assertThat(decision.remaining()).isZero();
    }

    /** The whole header is the key, so a different header is a different client. */
    @Test
    void aClientThatForgesTheHeaderIsANewClientEachTime() {
        ClientAddress ours = ClientAddress.ofXForwardedFor("10.0.0.0/8");
        Set<String> here = new HashSet<>();
        int allowed = 0;
        for (int i = 0; i < 200; i++) {
            String header = "198.51.100." + i + ", 203.0.113.7";
            allowed += theirs.ask("ip:" + header, ADDRESS.permits(), ADDRESS.window(), START + i)
                            .allowed()
                    ? 1
                    : 0;
            here.add(ours.resolve("10.0.0.1", name -> List.of(header)).orElseThrow());
        }
        assertThat(allowed).isEqualTo(200);
        assertThat(here).containsExactly("203.0.113.7");
    }

    // During an outage of Redis

    @Test
    void anExhaustedClientGetsAFreshLimitWhenRedisStops() {
        try (Service service = new Service()) {
            assertThat(service.allowedByTheirs(100)).isEqualTo(100);
            assertThat(service.allowedByOurs(100)).isEqualTo(100);
            service.redis.kill();
            assertThat(service.allowedByTheirs(100)).isEqualTo(100);
            assertThat(service.allowedByOurs(100)).isZero();
        }
    }

    @Test
    void permitsGrantedDuringAnOutageAreForgottenAfterIt() {
        try (Service service = new Service()) {
            service.redis.kill();
            assertThat(service.allowedByTheirs(100)).isEqualTo(100);
            assertThat(service.allowedByOurs(100)).isEqualTo(100);
            service.redis.restart();
            service.awaitConnected();
            assertThat(service.allowedByTheirs(100)).isEqualTo(100);
            await().until(() -> {
                Decision decision = service.ours.tryAcquire(KEY).block();
                assertThat(decision.isAllowed()).isFalse();
                return decision.source() == Source.REDIS;
            });
        }
    }

    @Test
    void aDaysQuotaIsForgottenAfterTenMinutes() {
        VatnodeFallback fallback = new VatnodeFallback();
        Ours ours = new Ours(FREE);
        int there = 0;
        int here = 0;
        for (long now = START; now < START + 3_600 * SECOND; now += SECOND) {
            there += fallback.allows(KEY, FREE.permits(), FREE.window(), now) ? 1 : 0;
            here += ours.allows(KEY, now) ? 1 : 0;
            if ((now - START) % (300 * SECOND) == 0) {
                fallback.tidyUp(now);
            }
        }
        assertThat(there).isGreaterThan(300);
        assertThat(here).isEqualTo(100);
    }

    @Test
    void fourInstancesGrantFourTimesTheLimitUnlessSharesAreSet() {
        ManualClock clock = new ManualClock();
        int there = 0;
        int here = 0;
        for (int instance = 0; instance < 4; instance++) {
            VatnodeFallback fallback = new VatnodeFallback();
            RateLimiter ours = RateLimiter.builder("seeds")
                    .store(LocalStore.bounded(1_000, clock).share(0.25))
                    .limit(ENDPOINT)
                    .build();
            for (int i = 0; i < 100; i++) {
                there += fallback.allows(KEY, ENDPOINT.permits(), ENDPOINT.window(), START + i) ? 1 : 0;
                here += ours.tryAcquire(KEY).block().isAllowed() ? 1 : 0;
            }
        }
        assertThat(there).isEqualTo(120);
        assertThat(here).isEqualTo(28);
    }

    @Test
    void theirMapGrowsWithEveryKey() {
        VatnodeFallback fallback = new VatnodeFallback();
        LocalStore store = LocalStore.bounded(1_000, new ManualClock());
        RateLimiter ours =
                RateLimiter.builder("seeds").store(store).limit(ENDPOINT).build();
        int keys = 5_000;
        for (int i = 0; i < keys; i++) {
            fallback.allows("key " + i, ENDPOINT.permits(), ENDPOINT.window(), START);
            ours.tryAcquire("key " + i).block();
        }
        assertThat(fallback.keys()).isEqualTo(keys);
        await().untilAsserted(() -> assertThat(IntStream.range(0, keys)
                        .filter(i -> ours.peek("key " + i).block().remaining() < ENDPOINT.permits()))
                .hasSizeLessThanOrEqualTo(1_000));
    }

    private boolean theirTiers(long now) {
        return theirs.ask("ip", ADDRESS.permits(), ADDRESS.window(), now).allowed()
                && theirs.ask("key", FREE.permits(), FREE.window(), now).allowed()
                && theirs.ask("validate", ENDPOINT.permits(), ENDPOINT.window(), now)
                        .allowed();
    }

    private static long atOnce(Vatnode vatnode, Limit limit) {
        return IntStream.range(0, 100)
                .filter(i ->
                        vatnode.ask(KEY, limit.permits(), limit.window(), START).allowed())
                .count();
    }

    private static long oursAtOnce(Limit limit) {
        Ours ours = new Ours(limit);
        return IntStream.range(0, 100).filter(i -> ours.allows(KEY, START)).count();
    }

    private static long random(RedisCommands<String, String> redis) {
        return redis.eval("return math.random(1000000)", ScriptOutputType.INTEGER);
    }

    /** Returns the memory of our count after requests of {@code permits} each, {@code apart} from one another. */
    private static long memory(Limit limit, int requests, long permits, Duration apart) {
        int instances = 8;
        String namespace = "seeds-" + limit.algorithm() + "-" + System.nanoTime();
        ScriptedClock clock = new ScriptedClock(client);
        List<RedisStore> stores = IntStream.range(0, instances)
                .mapToObj(i -> clock.ticking(client, namespace, apart))
                .toList();
        try {
            // Each instance sends one request at a time, so that no two share a script call.
            Flux<Decision> all = Flux.merge(stores.stream()
                    .map(store -> {
                        RateLimiter ours = RateLimiter.builder("seeds")
                                .store(new Unprotected(store))
                                .limit(limit)
                                .build();
                        return Flux.range(0, requests / instances).concatMap(i -> ours.tryAcquire(KEY, permits));
                    })
                    .toList());
            assertThat(all.filter(Decision::isAllowed).count().block()).isEqualTo(requests);
            List<String> keys = connection.sync().keys(namespace + ":*");
            assertThat(keys).hasSize(1);
            return connection.sync().memoryUsage(keys.get(0));
        } finally {
            stores.forEach(RedisStore::close);
            clock.close();
        }
    }

    /** Both limiters on a Redis that can be killed, each with its local fallback. */
    private static final class Service implements AutoCloseable {

        private final RedisForTests redis = RedisForTests.startOwn();
        private final RedisClient client = RedisClient.create(redis.uri());
        private final StatefulRedisConnection<String, String> connection;
        private final Vatnode theirs;
        private final VatnodeFallback fallback = new VatnodeFallback();
        private final RateLimiter ours;

        Service() {
            client.setOptions(ClientOptions.builder()
                    .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
                    .build());
            connection = client.connect();
            theirs = Vatnode.over(connection);
            ours = RateLimiter.builder("seeds")
                    .store(RedisStore.create(client))
                    .limit(FREE)
                    // A busy machine must not cause fallbacks.
                    .deadline(Duration.ofSeconds(5))
                    .build();
            await().until(() -> ours.peek(KEY).block().source() == Source.REDIS);
        }

        long allowedByTheirs(int requests) {
            return IntStream.range(0, requests)
                    .filter(i -> {
                        try {
                            return theirs.ask(KEY, FREE.permits(), FREE.window(), START + i)
                                    .allowed();
                        } catch (CompletionException e) {
                            return fallback.allows(KEY, FREE.permits(), FREE.window(), START + i);
                        }
                    })
                    .count();
        }

        long allowedByOurs(int requests) {
            return IntStream.range(0, requests)
                    .filter(i -> ours.tryAcquire(KEY).block().isAllowed())
                    .count();
        }

        void awaitConnected() {
            await().ignoreExceptions().until(() -> connection.sync().ping().equals("PONG"));
        }

        @Override
        public void close() {
            ours.close();
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            redis.close();
        }
    }
}
