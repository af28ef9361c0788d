package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.HolderTraffic.Event;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * 64 callers over 4 limiters hold permits of one limit, while Redis stalls and a process is killed. A limiter that has
 * no fallback never has more work running than the limit allows.
 */
class ResilientStoreHoldersTest {

    private static final int PERMITS = 10;
    private static final int CALLERS = 16;
    private static final Duration LONG = Duration.ofMinutes(2);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisStore store = RedisStore.create(redis.uri());
    private final RateLimiter witness = RateLimiter.builder(HolderTraffic.LIMITER)
            .store(new Unprotected(store))
            .limit(Limit.concurrent(PERMITS))
            .build();

    @AfterEach
    void close() {
        store.close();
        redis.close();
    }

    @Test
    void noPermitIsLeaked() {
        leakNothing(3_000, this::stalls);
    }

    @Test
    @Proof
    void noPermitIsLeakedInManyRuns() {
        leakNothing(100_000, this::stalls);
    }

    @Test
    void noPermitIsLeakedIfRedisClosesItsConnections() {
        leakNothing(3_000, this::kills);
    }

    @Test
    @Proof
    void noPermitIsLeakedInManyRunsIfRedisClosesItsConnections() {
        leakNothing(100_000, this::kills);
    }

    @Test
    void noMoreWorkRunsThanTheLimitAllowsIfAProcessIsKilled() throws Exception {
        killOneOfTwo(600);
    }

    @Test
    @Proof
    void noMoreWorkRunsThanTheLimitAllowsInManyRunsIfAProcessIsKilled() throws Exception {
        killOneOfTwo(100_000);
    }

    /** With a hold time of an hour, a permit that is not released would be missing at the end. */
    private void leakNothing(int runs, Supplier<Disposable> faults) {
        Queue<Event> events = new ConcurrentLinkedQueue<>();
        Limit limit = Limit.concurrent(PERMITS).hold(Duration.ofHours(1));
        Disposable running = faults.get();
        try (HolderTraffic traffic = new HolderTraffic(redis.uri(), 4, limit, Fallback::error, events::add)) {
            traffic.run(CALLERS, runs, 1).block(LONG.multipliedBy(10));
            assertThat(traffic.runs()).isGreaterThanOrEqualTo(runs);
            running.dispose();
            redis.resume();
            await().atMost(LONG)
                    .ignoreExceptions()
                    .untilAsserted(() -> assertThat(used()).isZero());
            assertThat(traffic.limiters()).extracting(RateLimiter::holders).containsOnly(0);
        } finally {
            running.dispose();
        }
        assertThat(HolderTraffic.mostAtOnce(List.copyOf(events))).isBetween(2L, (long) PERMITS);
    }

    private void killOneOfTwo(int runs) throws IOException, InterruptedException {
        Duration hold = Duration.ofSeconds(2);
        Limit limit = Limit.concurrent(PERMITS).hold(hold);
        String uri = redis.uri().toURI().toString();
        Disposable stalls = stalls();
        List<Event> events = new ArrayList<>();
        try (HolderProcess lasting = HolderProcess.start(uri, 2, limit, CALLERS, runs, 1);
                HolderProcess killed = HolderProcess.start(uri, 2, limit, CALLERS, Integer.MAX_VALUE, 2)) {
            await().atMost(LONG).until(() -> killed.reported() > runs / 4);
            long ended = killed.kill();
            events.addAll(endAt(ended, killed.events()));
            events.addAll(lasting.events());
        } finally {
            stalls.dispose();
            redis.resume();
        }
        assertThat(events).hasSizeGreaterThan(runs / 4);
        assertThat(HolderTraffic.mostAtOnce(events)).isBetween(2L, (long) PERMITS);
        await().atMost(hold.plus(LONG)).untilAsserted(() -> assertThat(used()).isZero());
    }

    /** Redis stands still at times, for less or more than the deadline of a decision. */
    private Disposable stalls() {
        Random random = new Random(3);
        return Flux.defer(() -> Mono.delay(Duration.ofMillis(100 + random.nextInt(700)))
                        .doOnNext(tick -> redis.pause())
                        .then(Mono.delay(Duration.ofMillis(random.nextInt(250))))
                        .doOnNext(tick -> redis.resume()))
                .repeat()
                .doOnCancel(redis::resume)
                .subscribe();
    }

    /** Redis closes all connections at times, with what is in flight on them. */
    private Disposable kills() {
        Random random = new Random(4);
        RedisClient client = RedisClient.create(redis.uri());
        RedisReactiveCommands<String, String> commands = client.connect().reactive();
        return Flux.defer(() -> Mono.delay(Duration.ofMillis(20 + random.nextInt(1_500)))
                        .flatMap(tick -> commands.clientKill(
                                KillArgs.Builder.typeNormal().skipme())))
                .repeat()
                .doFinally(end -> {
                    Future<?> unused = client.shutdownAsync(0, 1, TimeUnit.SECONDS);
                })
                .subscribe();
    }

    private long used() {
        return witness.peek(HolderTraffic.KEY).block().limits().get(0).used();
    }

    /** The work of a process that was killed has ended with it. */
    private static List<Event> endAt(long nanos, List<Event> events) {
        Map<Long, Event> running = new HashMap<>();
        for (Event event : events) {
            if (event.permits() > 0) {
                running.put(event.work(), event);
            } else {
                running.remove(event.work());
            }
        }
        List<Event> all = new ArrayList<>(events);
        running.values().forEach(event -> all.add(new Event(event.work(), -event.permits(), nanos)));
        return all;
    }
}
