package io.github.spillgate.fleet;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.Keyspace;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.JavaProcess;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** What is published in Redis or PostgreSQL by one of many instances; each has a store of its own. */
@Thorough
class FleetPublicationTest {

    private static final Duration SOON = Duration.ofSeconds(6);
    private static final Limit CONFIGURED = Limit.perDay(100_000);
    private static final Limit LOWER = Limit.perDay(50_000);
    private static final Limit HIGHER = Limit.perDay(200_000);

    @AutoClose
    private final RedisForTests redis = RedisForTests.startOwn();

    private final RedisClient client = RedisClient.create(redis.uri());
    private final RedisCommands<String, String> admin = client.connect().sync();
    private final List<AutoCloseable> open = new ArrayList<>();

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable each : open) {
            each.close();
        }
        client.shutdown();
    }

    @Test
    void sixteenInstancesApplyAChangeWithinSixSeconds() {
        List<RateLimiter> instances = instances(16);
        Set<Long> permits = ConcurrentHashMap.newKeySet();
        AtomicInteger decided = new AtomicInteger();
        AtomicBoolean ends = new AtomicBoolean();
        Mono<Void> traffic = Flux.fromIterable(instances)
                .flatMap(one -> Mono.defer(() -> one.tryAcquire("a"))
                        .doOnNext(decision -> {
                            assertThat(decision.limits()).hasSize(1);
                            permits.add(decision.limits().get(0).limit().permits());
                            decided.incrementAndGet();
                        })
                        .delayElement(Duration.ofMillis(5))
                        .repeat(() -> !ends.get()))
                .then()
                .cache();
        traffic.subscribe();
        await().until(() -> decided.get() > 100);
        publish(instances.get(3), Publication.of(LOWER));
        await().atMost(SOON).until(() -> haveAll(instances, LOWER));
        int before = decided.get();
        await().until(() -> decided.get() > before + 1_000);
        ends.set(true);
        traffic.block();
        assertThat(permits).containsExactlyInAnyOrder(CONFIGURED.permits(), LOWER.permits());
        assertThat(requireNonNull(instances.get(0).peek("a").block())
                        .limits()
                        .get(0)
                        .used())
                .isEqualTo(decided.get());
    }

    @Test
    void instancesInOtherProcessesApplyAChangeWithinSixSeconds() throws IOException {
        try (JavaProcess first =
                        JavaProcess.start(OtherProcess.class, redis.uri().toURI(), 8);
                JavaProcess second =
                        JavaProcess.start(OtherProcess.class, redis.uri().toURI(), 8)) {
            first.awaitReady();
            second.awaitReady();
            Instant start = Instant.now();
            publish(instance(), Publication.of(LOWER));
            assertThat(first.readLine()).isEqualTo("all have [50000/24h]");
            assertThat(second.readLine()).isEqualTo("all have [50000/24h]");
            assertThat(Duration.between(start, Instant.now())).isLessThan(SOON);
        }
    }

    /** Eight instances in a process. */
    static final class OtherProcess {

        private OtherProcess() {}

        public static void main(String[] arguments) {
            List<RateLimiter> instances = IntStream.range(0, Integer.parseInt(arguments[1]))
                    .mapToObj(i -> limiter(RedisStore.create(RedisURI.create(arguments[0]))))
                    .toList();
            instances.forEach(one -> one.ready().block());
            JavaProcess.reportReady();
            Flux.interval(Duration.ofMillis(20))
                    .filter(tick -> haveAll(instances, LOWER))
                    .blockFirst();
            System.out.println("all have " + instances.get(0).limits());
            Mono.never().block();
        }
    }

    @Test
    void ofManyAdministratorsExactlyOneWins() {
        List<RateLimiter> instances = instances(8);
        for (int round = 0; round < 20; round++) {
            long seen = instances.get(0).published().map(Publication::version).orElse(0L);
            List<Object> results = requireNonNull(Flux.range(0, instances.size())
                    .flatMap(i -> instances
                            .get(i)
                            .publish(Publication.of(Limit.perDay(1_000 + i)).version(seen))
                            .<Object>map(published -> published)
                            .onErrorResume(Mono::just)
                            .subscribeOn(Schedulers.parallel()))
                    .collectList()
                    .block());
            List<Publication> winners = results.stream()
                    .filter(Publication.class::isInstance)
                    .map(Publication.class::cast)
                    .toList();
            assertThat(winners).hasSize(1);
            assertThat(results)
                    .filteredOn(PublicationConflictException.class::isInstance)
                    .hasSize(7)
                    .allSatisfy(conflict -> assertThat(((PublicationConflictException) conflict).present())
                            .contains(winners.get(0)));
        }
    }

    @Test
    void whatIsPublishedSurvivesARestartOfAllInstances() {
        List<RateLimiter> instances = instances(3);
        Publication published = publish(instances.get(0), Publication.of(LOWER));
        instances.forEach(RateLimiter::close);
        RateLimiter next = instance();
        next.ready().block();
        assertThat(next.published()).contains(published);
        assertThat(next.limits()).containsExactly(LOWER);
    }

    /** Old and new instances of a deployment have other limits configured. */
    @Test
    void inARollingDeploymentThePublishedLimitsApplyToBoth() {
        RateLimiter old = instance();
        Publication published = publish(old, Publication.of(LOWER));
        RateLimiter next =
                RateLimiter.builder("api").store(store()).limit(HIGHER).build();
        open.add(next);
        next.ready().block();
        assertThat(haveAll(List.of(old, next), LOWER)).isTrue();
        next.unpublish(published.version()).block();
        assertThat(next.limits()).containsExactly(HIGHER);
        await().atMost(SOON).until(() -> old.limits().equals(List.of(CONFIGURED)));
    }

    @Test
    void duringAnOutageInstancesGoOnWithWhatTheyKnowUntilItEnds() {
        List<RateLimiter> instances = instances(2);
        publish(instances.get(0), Publication.of(LOWER).until(Instant.now().plusSeconds(12)));
        await().atMost(SOON).until(() -> haveAll(instances, LOWER));
        redis.kill();
        Decision decision = requireNonNull(instances.get(1).tryAcquire("a").block());
        assertThat(decision.source()).isEqualTo(Source.LOCAL);
        assertThat(decision.limits().get(0).limit()).isEqualTo(LOWER);
        assertThatThrownBy(() -> publish(instances.get(0), Publication.of(HIGHER)))
                .isNotNull();
        assertThat(haveAll(instances, LOWER)).isTrue();
        await().atMost(Duration.ofSeconds(14)).until(() -> haveAll(instances, CONFIGURED));
        redis.restart();
        await().atMost(Duration.ofSeconds(20))
                .ignoreExceptions()
                .until(() -> publish(instances.get(0), Publication.of(HIGHER)).version() > 0);
        await().atMost(SOON).until(() -> haveAll(instances, HIGHER));
    }

    @Test
    void afterAFlushTheInstancesRestoreWhatTheyKnow() {
        List<RateLimiter> instances = instances(3);
        publish(instances.get(0), Publication.of(LOWER));
        await().atMost(SOON).until(() -> haveAll(instances, LOWER));
        admin.flushall();
        await().atMost(SOON).until(() -> admin.exists("spillgate:3:published:{fleet}") == 1);
        RateLimiter next = instance();
        next.ready().block();
        assertThat(next.limits()).containsExactly(LOWER);
        assertThat(haveAll(instances, LOWER)).isTrue();
    }

    /** The key is evicted, and the first request after that publishes something else. */
    @Test
    void aValueThatIsPublishedAfterALossDoesNotHideTheOthers() {
        List<RateLimiter> instances = instances(2);
        RateLimiter other =
                RateLimiter.builder("other").store(store()).limit(CONFIGURED).build();
        open.add(other);
        publish(instances.get(0), Publication.of(LOWER));
        await().atMost(SOON).until(() -> haveAll(instances, LOWER));
        admin.del("spillgate:3:published:{fleet}");
        Publication seen = publish(other, Publication.of(HIGHER));
        await().atMost(SOON).untilAsserted(() -> {
            RateLimiter next = instance();
            next.ready().block();
            assertThat(next.limits()).containsExactly(LOWER);
        });
        assertThat(haveAll(instances, LOWER)).isTrue();
        assertThat(other.limits()).containsExactly(HIGHER);
        admin.del("spillgate:3:published:{fleet}");
        assertThat(publish(other, seen.limits(LOWER)).version()).isGreaterThan(seen.version());
    }

    /** An instance that was cut off since restores what it knows. */
    @Test
    void limitsThatWereReplacedOrWithdrawnDoNotReturn() {
        List<RateLimiter> instances = instances(2);
        Publication first = publish(instances.get(0), Publication.of(LOWER));
        List<Value> known = requireNonNull(exchange(List.of()).values());
        publish(instances.get(0), first.limits(HIGHER).until(Instant.now().plusMillis(100)));
        await().atMost(SOON).until(() -> haveAll(instances, CONFIGURED));
        exchange(known);
        assertThat(publish(instances.get(1), Publication.of(HIGHER)).version()).isPositive();
        instances.get(1).unpublish(instances.get(1).published().get().version()).block();
        exchange(known);
        await().pollDelay(SOON).until(() -> true);
        assertThat(haveAll(instances, CONFIGURED)).isTrue();
        assertThat(exchange(List.of()).values()).singleElement().satisfies(tombstone -> {
            assertThat(tombstone.content()).isEmpty();
            assertThat(tombstone.until()).isGreaterThanOrEqualTo(known.get(0).until());
        });
    }

    private FleetExchange.FleetReply exchange(List<Value> restored) {
        return requireNonNull(
                store().exchange(new FleetExchange(new UUID(0, 1), Duration.ZERO, List.of(), 0, restored, null))
                        .block());
    }

    @Test
    void aChangeArrivesWithEachFallbackAndAFixedShare() {
        List<LimitStore> fallbacks = List.of(
                Fallback.local(1_000),
                Fallback.local(1_000).share(0.5),
                Fallback.allow(),
                Fallback.deny(),
                Fallback.error());
        List<RateLimiter> instances = new ArrayList<>();
        for (LimitStore fallback : fallbacks) {
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(store())
                    .fallback(fallback)
                    .limit(CONFIGURED)
                    .build();
            open.add(limiter);
            instances.add(limiter);
        }
        publish(instances.get(0), Publication.of(LOWER));
        await().atMost(SOON).until(() -> haveAll(instances, LOWER));
    }

    @Test
    void aThousandLimitersOfAProcessShareOneCommandIn5Seconds() {
        RedisStore store = store();
        List<RateLimiter> limiters = IntStream.range(0, 1_000)
                .mapToObj(i -> RateLimiter.builder("limiter-" + i)
                        .store(store)
                        .fallback(Fallback.local(16))
                        .limit(CONFIGURED)
                        .build())
                .toList();
        open.addAll(limiters);
        RateLimiter last = limiters.get(999);
        publish(last, Publication.of(LOWER));
        await().until(() -> Fleet.of(store).instances().of("limiter-1").number() == 1);
        long before = writesOfRegistrations();
        await().pollDelay(Duration.ofSeconds(20)).until(() -> true);
        assertThat(writesOfRegistrations() - before).isBetween(3L, 5L);
        assertThat(last.limits()).containsExactly(LOWER);
    }

    /** Each exchange sets the key of the registrations once, and nothing else is set without a decision. */
    private long writesOfRegistrations() {
        return Keyspace.callsOf("set", admin);
    }

    @Test
    void inPostgresWhatIsPublishedSurvivesACrash() {
        try (PostgresForTests postgres = PostgresForTests.startOwn()) {
            RateLimiter limiter = limiter(postgres(postgres));
            LimiterForTests.awaitReady(limiter);
            Publication published = publish(limiter, Publication.of(LOWER));
            limiter.close();
            postgres.kill();
            postgres.restart();
            RateLimiter next = limiter(postgres(postgres));
            await().atMost(Duration.ofSeconds(20)).until(() -> next.published().isPresent());
            assertThat(next.published()).contains(published);
            next.close();
        }
    }

    private PostgresStore postgres(PostgresForTests postgres) {
        PostgresStore store = PostgresStore.create(postgres.factory());
        open.add(store);
        return store;
    }

    // Helpers.

    private RedisStore store() {
        RedisStore store = RedisStore.create(redis.uri());
        open.add(store);
        return store;
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(CONFIGURED).build();
    }

    private RateLimiter instance() {
        RateLimiter limiter = limiter(store());
        open.add(limiter);
        return limiter;
    }

    private List<RateLimiter> instances(int number) {
        List<RateLimiter> instances =
                IntStream.range(0, number).mapToObj(i -> instance()).toList();
        instances.forEach(one -> one.ready().block());
        return instances;
    }

    private static boolean haveAll(List<RateLimiter> instances, Limit limit) {
        return instances.stream().allMatch(one -> one.limits().equals(List.of(limit)));
    }

    private static Publication publish(RateLimiter limiter, Publication value) {
        return requireNonNull(limiter.publish(value).block());
    }
}
