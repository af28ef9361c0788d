package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static io.github.spillgate.testkit.Unprotected.limiter;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Background;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.Exchanges;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.resource.ClientResources;
import io.netty.util.HashedWheelTimer;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.test.StepVerifier;

/** What the contract cannot ask of every store, because it is about Redis. */
class RedisStoreTest {

    private static final Limit LIMIT = Limit.perHour(100);

    RedisForTests redis = RedisForTests.first();

    /** For how long the windows of real traffic are swept. */
    int sweptMillis = 400;

    private RedisClient client;
    private Keyspace keyspace;
    private RedisStore store;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        keyspace = new Keyspace(client);
        store = RedisStore.builder(client).namespace(keyspace.namespace()).build();
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    // Exactness

    @ParameterizedTest
    @ValueSource(strings = {"20/100ms", "20/100ms resolution=10ms", "300/250ms"})
    void sweptOverTheInstantsThatRedisGaveNoWindowHoldsMoreThanThePermits(String text) {
        Limit limit = Limit.parse(text);
        List<RateLimiter> limiters = Flux.range(0, 8)
                .map(i -> limiter(
                        RedisStore.builder(client)
                                .namespace(keyspace.namespace())
                                .build(),
                        limit))
                .collectList()
                .block();
        Instant end = limiters.get(0).peek("hot").block().at().plusMillis(sweptMillis);
        List<Instant> admitted = Flux.range(0, 64)
                .flatMap(
                        caller -> limiters.get(caller % 8)
                                .tryAcquire("hot")
                                .repeat()
                                .takeUntil(decision -> decision.at().isAfter(end)),
                        64)
                .filter(Decision::isAllowed)
                .map(Decision::at)
                .sort()
                .collectList()
                .block();
        assertThat(admitted).hasSizeGreaterThan((int) limit.permits());
        for (int i = 0; i + limit.permits() < admitted.size(); i++) {
            assertThat(Duration.between(admitted.get(i), admitted.get(i + (int) limit.permits())))
                    .isGreaterThan(limit.window());
        }
    }

    /** A test of the application in virtual time, in the same process. */
    @Test
    void aStoreWorksAfterATestInVirtualTime() {
        Exchanges.register(store, "before", UUID.randomUUID(), Duration.ofMinutes(1));
        StepVerifier.withVirtualTime(() -> Mono.fromCallable(Background::scheduler))
                .expectNextCount(1)
                .verifyComplete();
        assertThat(Exchanges.register(store, "after", UUID.randomUUID(), Duration.ofMinutes(1)))
                .isOne();
    }

    // What is left in Redis

    @ParameterizedTest
    @ValueSource(strings = {"5/100ms", "5/100ms counter", "5/100ms counter aligned", "5/100ms counting-denied"})
    void everyKeyExpiresAfterItsWindow(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(store, limit);
        int windows = text.contains("counter") ? 2 : 1;
        Decision decision;
        do {
            decision = limiter.tryAcquire("a").block();
            keyspace.keys().forEach(key -> {
                long life = keyspace.commands().pttl(key);
                // -2: it is gone since it was listed. -1 would be a key that stays for ever.
                assertThat(life).isNotEqualTo(-1).isLessThanOrEqualTo(windows * 100L + 100 / 16 + 1);
            });
        } while (decision.isAllowed());
        limiter.refund(Charge.of("a", 2)).block();
        keyspace.keys().forEach(key -> assertThat(keyspace.commands().pttl(key)).isNotEqualTo(-1));
        await().atMost(Duration.ofSeconds(20)).until(() -> keyspace.keys().isEmpty());
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1h", "5/1h counter"})
    void aFullRefundLeavesAnEmptyValueWithoutAMark(String text) {
        RateLimiter limiter = limiter(store, Limit.parse(text));
        Decision decision = limiter.tryAcquire(Charge.of("a", 3)).block();
        String count = keyspace.onlyKey();
        limiter.refund(decision).block();
        assertThat(keyspace.onlyKey()).isEqualTo(count);
        limiter.tryAcquire(Charge.of("a", 3)).block();
        limiter.refund(Charge.of("a", 3)).block();
        assertThat(keyspace.onlyKey()).isEqualTo(count);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1h", "5/1h counter", "5/1s"})
    void theMarkOfAResetLivesAsLongAsARefundIsPossibleAndTenMinutes(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(store, limit);
        limiter.tryAcquire(Charge.of("a", 3)).block();
        String count = keyspace.keys().get(0);
        limiter.reset("a").block();
        assertThat(keyspace.keys()).containsExactlyInAnyOrder(count, count + "!");
        // Another instance may have leased.
        long life = Math.max(600_000, LimitKind.reach(limit) + limit.leaseTime().toMillis());
        assertThat(keyspace.commands().pttl(count + "!")).isBetween(life - 60_000, life);
    }

    /** Otherwise permits would be charged that are neither spent nor refunded. */
    @Test
    void theReplyToALeaseHasAllPermitsThatWereCharged() {
        Limit limit =
                Limit.bucket(1_000, Duration.ofSeconds(1), 1_000_000_000_000L).leased();
        Decision peeked = limiter(store, limit).peek("a").block();
        StoreDecision lease = store.take(StoreRequest.lease(
                        DecidedClaims.of(peeked).get(0).withPermits(5_000_000_000L), 2, Long.MAX_VALUE))
                .block();
        long leased = lease.claims().get(0).permits();
        // What returns in the lease time counts as used, too.
        assertThat(lease.usages().get(0).used() - leased).isBetween(0L, 10L);
        StoreForTests.refund(store, lease).block();
        assertThat(limiter(store, limit).peek("a").block().limits().get(0).used())
                .isLessThanOrEqualTo(10);
    }

    @Test
    void aForeignValueUnderAMarkIsNoReset() {
        RateLimiter limiter = limiter(store, LIMIT);
        Decision decision = limiter.tryAcquire(Charge.of("a", 2)).block();
        keyspace.commands().set(keyspace.onlyKey() + "!", "a foreign value");
        limiter.refund(decision).block();
        assertThat(limiter.peek("a").block().remaining()).isEqualTo(100);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1h resolution=20m", "5/1h", "5/1h counter", "5/1h counter aligned"})
    void denialsAndPeeksChangeNothing(String text) {
        try (RedisForTests own = RedisForTests.startOwn()) {
            RedisClient ownClient = RedisClient.create(own.uri());
            Keyspace ownKeyspace = new Keyspace(ownClient);
            RateLimiter limiter = limiter(RedisStore.create(ownClient), Limit.parse(text));
            limiter.ready().block();
            limiter.tryAcquire(Charge.of("a", 4)).block();
            String before = changes(ownKeyspace);
            assertThat(limiter.tryAcquire(Charge.of("a", 2)).block().isAllowed())
                    .isFalse();
            assertThat(limiter.peek("a").block().remaining()).isEqualTo(1);
            assertThat(changes(ownKeyspace)).isEqualTo(before);
            limiter.tryAcquire("a").block();
            assertThat(changes(ownKeyspace)).isNotEqualTo(before);
            ownClient.shutdown();
        }
    }

    /** As Redis counts them: a key that is written as it was is a change, too. */
    private static String changes(Keyspace keyspace) {
        return keyspace.commands()
                .info("persistence")
                .lines()
                .filter(line -> line.startsWith("rdb_changes_since_last_save:"))
                .findFirst()
                .orElseThrow();
    }

    /** Until then a part of what was taken in the window before still counts. */
    @Test
    void aCounterLivesForOneMoreWindow() {
        Decision decision =
                limiter(store, Limit.parse("5/1h counter")).tryAcquire("a").block();
        assertThat(Instant.ofEpochMilli(keyspace.expiryOf(keyspace.onlyKey())))
                .isAfterOrEqualTo(decision.at().plus(Duration.ofHours(2)));
    }

    @Test
    void aHoldLivesForItsTimeAlthoughALaterOneIsShorter() {
        Limit limit = Limit.concurrent(2);
        Decision longer = limiter(store, limit.hold(Duration.ofMinutes(5)))
                .tryAcquire("a")
                .block();
        limiter(store, limit).tryAcquire("a").block();
        assertThat(Instant.ofEpochMilli(keyspace.expiryOf(keyspace.onlyKey())))
                .isAfterOrEqualTo(longer.at().plus(Duration.ofMinutes(5)));
    }

    @Test
    void everyStoredKeyNameIsShortAndPrintable() {
        RateLimiter limiter = limiter(store, LIMIT);
        List<String> keys =
                List.of("a{b}c", "\n\r\0", "*", "h?llo[a]", "😀", "a b", "\"'\\", "x".repeat(1 << 20), "\ud800", "%");
        for (String key : keys) {
            limiter.tryAcquire(key).block();
            limiter.tryAcquire(Charge.of(key).group(key)).block();
        }
        assertThat(keyspace.keys())
                .hasSize(2 * keys.size())
                .allSatisfy(stored -> assertThat(stored)
                        .matches(keyspace.namespace() + ":3:api:1h:L3600000\\.1:\\{[^{}*?\\[\\]\\s]+}[^{}*?\\[\\]\\s]*")
                        .hasSizeLessThan(400));
    }

    // Foreign values

    @ParameterizedTest
    @ValueSource(strings = {"5/1h", "5/1h counter"})
    void aForeignValueIsNamedAndNothingOfItIsOverwritten(String text) {
        RateLimiter limiter = limiter(store, Limit.parse(text), Limit.of(7, Duration.ofHours(2)));
        limiter.tryAcquire("a").block();
        String key = keyspace.keys().stream()
                .filter(each -> each.contains(":1h:"))
                .findAny()
                .orElseThrow();
        byte[] ours = keyspace.commands().dump(key);
        for (Runnable foreign : List.<Runnable>of(
                () -> keyspace.commands().set(key, "hello"),
                () -> keyspace.commands().set(key, "sg"),
                () -> keyspace.commands().set(key, "sgL"),
                () -> keyspace.commands().set(key, "sgC"),
                () -> keyspace.commands().set(key, "sgL" + "\1".repeat(30)),
                () -> keyspace.commands().set(key, "sgC" + "\1".repeat(30)),
                () -> keyspace.commands().set(key, "sgL" + "\1".repeat(5_000)),
                () -> keyspace.commands().append(key, "x"),
                () -> keyspace.commands().set(key, "x".repeat(100_000)),
                () -> keyspace.commands().rpush(key, "a", "b"),
                () -> keyspace.commands().hset(key, "a", "b"),
                () -> keyspace.commands().zadd(key, 1, "a"))) {
            keyspace.commands().del(key);
            keyspace.commands().restore(key, 0, ours);
            if (keyspace.commands().type(key).equals("string")) {
                try {
                    foreign.run();
                } catch (io.lettuce.core.RedisCommandExecutionException wrongType) {
                    keyspace.commands().del(key);
                    foreign.run();
                }
            }
            byte[] before = keyspace.commands().dump(key);
            for (var call : List.of(
                    limiter.tryAcquire("a").then(),
                    limiter.peek("a").then(),
                    limiter.refund(Charge.of("a", 1)),
                    limiter.tryAcquire(Charge.of("b"), Charge.of("a")).then())) {
                assertThatThrownBy(call::block)
                        .is(kind(Kind.FOREIGN_VALUE))
                        .hasMessageContaining(key)
                        .hasMessageContaining("expected");
            }
            assertThat(keyspace.commands().dump(key)).isEqualTo(before);
            assertThat(limiter.peek("b").block().limits()).allMatch(usage -> usage.used() == 0);
        }
        limiter.reset("a").block();
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isTrue();
    }

    // Threads, settings, closing

    /** Often, because otherwise a thread that is still subscribing when the reply arrives could emit it. */
    @Test
    void answersAreDeliveredOnTheSchedulerOfTheUser() {
        RedisStore onParallel = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .deliverOn(Schedulers.parallel())
                .build();
        RateLimiter limiter = limiter(onParallel, LIMIT, Limit.concurrent(10));
        Set<String> threads = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 300; i++) {
            Decision decision = limiter.tryAcquire("a").block();
            for (Mono<?> call : List.of(
                    limiter.tryAcquire("a"),
                    limiter.peek("a"),
                    limiter.refund(decision),
                    limiter.refund(Charge.of("a", 1)),
                    limiter.reset("a"))) {
                call.doOnTerminate(() ->
                                threads.add(Thread.currentThread().getName().replaceAll("-.*", "")))
                        .block();
            }
        }
        assertThat(threads).containsExactly("parallel");
        onParallel.close();
        RateLimiter immediate = limiter(
                RedisStore.builder(client)
                        .namespace(keyspace.namespace())
                        .deliverOn(Schedulers.immediate())
                        .build(),
                LIMIT);
        immediate.tryAcquire("a").block();
        assertThat(immediate
                        .tryAcquire("a")
                        .map(decision -> Thread.currentThread().getName())
                        .block())
                .startsWith("lettuce-");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "a b", "{a}", "a*", "ä"})
    void aNamespaceThatNeedsEscapingIsRejected(String namespace) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RedisStore.builder(client).namespace(namespace))
                .withMessageStartingWith("namespace \"")
                .withMessageContaining("for example \"shop:prod\"");
    }

    /** Lettuce keeps a command until its timer ticks. Here that takes an hour, and under load it is too long, too. */
    @Test
    void aReplyLeavesNothingOfItsCallerBehind() {
        HashedWheelTimer timer = new HashedWheelTimer(1, TimeUnit.HOURS);
        ClientResources resources = ClientResources.builder().timer(timer).build();
        RedisClient slow = RedisClient.create(resources, redis.uri());
        RateLimiter limiter =
                limiter(RedisStore.builder(slow).namespace(keyspace.namespace()).build(), LIMIT);
        List<WeakReference<Object>> callers = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            Object caller = new Object();
            limiter.tryAcquire("a")
                    .contextWrite(context -> context.put("caller", caller))
                    .block();
            callers.add(new WeakReference<>(caller));
        }
        await().untilAsserted(() -> {
            System.gc();
            assertThat(callers).allMatch(caller -> caller.get() == null);
        });
        slow.shutdown();
        resources.shutdown().syncUninterruptibly();
        timer.stop();
    }
}
