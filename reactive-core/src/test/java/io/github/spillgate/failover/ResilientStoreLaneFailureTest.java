package io.github.spillgate.failover;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.PatientRedisStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * One of three event loops with lanes fails: its connection is lost or stalls, or the loop is blocked. The other loops
 * go on deciding in Redis, no decision waits past its deadline, and all loops together keep every limit.
 */
class ResilientStoreLaneFailureTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    /** Longer than a thread of a busy machine waits for a processor: other loops must not miss it. */
    private static final Duration DEADLINE = Duration.ofSeconds(2);

    /** How long a connection may stall before it is replaced: other loops decide often in that time. */
    private static final Duration LONGEST_SILENCE = DEADLINE.multipliedBy(4);

    /** Beside late timers. */
    private static final Duration MARGIN = Duration.ofMillis(500);

    /** Of each loop. */
    private static final int CALLERS = 4;

    /**
     * All lanes share the breaker. On a busy machine, the failures of one lane could fill half of its usual window,
     * while other loops wait for a processor, and then it opens for all loops.
     */
    private static final int BREAKER_WINDOW = 1_000;

    /** Each loop has a key of its own under this limit: no other loop waits for its reconciliation. */
    private static final Limit OWN = Limit.perHour(1_000_000).counter();

    /** All loops take from one key at the same time, and then from the next. */
    private static final Limit SHARED = Limit.perHour(50);

    private static final int REQUESTS_PER_SHARED_KEY = 200;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final EventLoopGroup group = new MultiThreadIoEventLoopGroup(3, NioIoHandler.newFactory());
    private final RedisClient client = PatientRedisStore.client(network.uri());
    private final RedisStore redisStore = PatientRedisStore.create(client, network.uri(), LONGEST_SILENCE);
    private final ResilientStore store = ResilientStore.builder(redisStore)
            .deadline(DEADLINE)
            .cacheDenials(Duration.ZERO)
            .breaker(settings -> settings.slidingWindowSize(BREAKER_WINDOW).minimumNumberOfCalls(BREAKER_WINDOW))
            .build();
    private final RateLimiter limiter =
            RateLimiter.builder("lanes").store(store).limit(SHARED).build();

    private final List<LoopTraffic> others = List.of(new LoopTraffic(), new LoopTraffic());
    private final LoopTraffic failing = new LoopTraffic();

    private final Admissions ledger = new Admissions();
    private final StallMeter stalls = StallMeter.start();
    private final AtomicInteger sharedRequests = new AtomicInteger();
    private final AtomicInteger callers = new AtomicInteger();
    private final Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
    private volatile boolean stopping;

    @BeforeEach
    void begin() {
        // A busy machine is not under test.
        redisStore.prepare().retry(3).block(LONG);
        others.forEach(other -> awaitLane(other.loop, limiter));
        // As the last one, so that its connection is the newest.
        awaitLane(failing.loop, limiter);
        assertThat(network.connections()).isGreaterThanOrEqualTo(4);
        others.forEach(LoopTraffic::start);
        failing.start();
        awaitAllDecideInRedis();
    }

    @AfterEach
    void shutdown() {
        stopping = true;
        stalls.close();
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        redisStore.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        Future<?> unused = group.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        network.close();
        redis.close();
    }

    @Test
    void aLaneFallsBackAloneIfItsConnectionIsLost() {
        for (int i = 0; i < 3; i++) {
            long before = failing.decidedBy(Source.LOCAL);
            network.stallNewest();
            await().atMost(LONG).until(network::isHoldingBack);
            network.closeStalled();
            await().atMost(LONG).until(() -> failing.decidedBy(Source.LOCAL) > before);
            awaitAllDecideInRedis();
        }
        end();
        assertRedisHoldsAtLeastWhatWasGranted();
    }

    @Test
    void aLaneFallsBackAloneIfItsConnectionStalls() {
        network.stallNewest();
        awaitFallback();
        network.endStalls();
        awaitAllDecideInRedis();
        end();
        // With the late replies.
        assertThat(limiter.state().unknown()).isZero();
        assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    void aLoopThatIsBlockedFallsBackAlone() {
        List<Mono<Decision>> late = new ArrayList<>();
        failing.loop.execute(() -> {
            for (int i = 0; i < CALLERS; i++) {
                late.add(failing.request(i % 2 == 0));
            }
            AtomicInteger unanswered = new AtomicInteger(CALLERS);
            late.forEach(decision -> decision.subscribe(done -> unanswered.decrementAndGet(), errors::add));
            // After the task that sends them. This must hold the thread without blocking.
            failing.loop.execute(() -> {
                int left;
                do {
                    left = unanswered.get();
                } while (left > 0);
            });
        });
        awaitFallback();
        awaitAllDecideInRedis();
        end();
        assertThat(limiter.state().unknown()).isZero();
        assertRedisHoldsExactlyWhatWasGranted();
    }

    /** Waits until the failing loop falls back and the others have made many decisions since. */
    private void awaitFallback() {
        long before = failing.decidedBy(Source.LOCAL);
        await().atMost(LONG).until(() -> failing.decidedBy(Source.LOCAL) > before);
        others.forEach(LoopTraffic::awaitRedisDecides);
    }

    private void awaitAllDecideInRedis() {
        awaitLane(failing.loop, limiter);
        failing.awaitRedisDecides();
        others.forEach(LoopTraffic::awaitRedisDecides);
        // Until then, the fallback decides on keys of which it has granted permits.
        awaitNothingToReconcile();
    }

    private void awaitNothingToReconcile() {
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
    }

    private void end() {
        stopping = true;
        await().atMost(LONG).until(() -> callers.get() == 0);
        awaitNothingToReconcile();
        assertThat(errors).isEmpty();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().lost()).isZero();
        others.forEach(other -> assertThat(other.ownSources).as("other loops").containsExactly(Source.REDIS));
        // On a busy loop, the fallback waits for half the deadline longer.
        Duration longest = DEADLINE.plus(DEADLINE.dividedBy(2))
                .plus(MARGIN)
                .plus(stalls.longest().multipliedBy(2));
        others.forEach(other -> assertThat(other.times.longest()).isLessThan(longest));
        assertThat(failing.times.longest()).isLessThan(longest);
        ledger.assertRedisNeverExceededTheLimit();
        ledger.assertBothStoresTogetherKeptTheLimit();
    }

    private void assertRedisHoldsExactlyWhatWasGranted() {
        for (Admissions.CountGrants count : ledger.lasting()) {
            assertThat(used(count)).as("used of %s", count).isEqualTo(ledger.leastChargedInRedis(count));
        }
    }

    private void assertRedisHoldsAtLeastWhatWasGranted() {
        for (Admissions.CountGrants count : ledger.lasting()) {
            assertThat(used(count)).as("used of %s", count).isGreaterThanOrEqualTo(ledger.leastChargedInRedis(count));
        }
    }

    private long used(Admissions.CountGrants count) {
        RateLimiter exact =
                RateLimiter.builder("lanes").store(new Unprotected(redisStore)).build();
        Charge charge = Charge.of(count.claim().key(), count.claim().limit());
        return exact.peek(charge).block(LONG).limits().get(0).used();
    }

    /** Callers on one event loop that never pause: each has one decision in flight. */
    private final class LoopTraffic {

        private final EventLoop loop = group.next();
        private final Charge own = Charge.of("own-" + System.identityHashCode(this), OWN);
        private final Map<Source, LongAdder> decisions = new ConcurrentHashMap<>();
        private final Set<Source> ownSources = ConcurrentHashMap.newKeySet();
        private final LatencyHistogram times = new LatencyHistogram();

        void start() {
            for (int i = 0; i < CALLERS; i++) {
                callers.incrementAndGet();
                loop.execute(this::next);
            }
        }

        /** As a task, because an answer of the fallback would recurse. */
        private void next() {
            if (stopping) {
                callers.decrementAndGet();
            } else {
                request(ThreadLocalRandom.current().nextBoolean())
                        .doFinally(end -> loop.execute(this::next))
                        .subscribe(decision -> {}, errors::add);
            }
        }

        /** Takes a permit of the loop's own key, or of the key from which all loops take. */
        Mono<Decision> request(boolean isOwn) {
            return Mono.defer(() -> {
                long requestedAt = System.nanoTime();
                Charge charge = isOwn ? own : shared();
                return limiter.tryAcquire(charge).doOnNext(decision -> {
                    long decidedAt = System.nanoTime();
                    times.add(decidedAt - requestedAt);
                    ledger.add(decision, requestedAt, decidedAt);
                    decisions
                            .computeIfAbsent(decision.source(), source -> new LongAdder())
                            .increment();
                    if (isOwn) {
                        ownSources.add(decision.source());
                    }
                });
            });
        }

        private Charge shared() {
            return Charge.of("shared-" + sharedRequests.getAndIncrement() / REQUESTS_PER_SHARED_KEY, SHARED);
        }

        long decidedBy(Source source) {
            LongAdder number = decisions.get(source);
            return number == null ? 0 : number.sum();
        }

        void awaitRedisDecides() {
            long before = decidedBy(Source.REDIS);
            await().atMost(LONG).until(() -> decidedBy(Source.REDIS) >= before + 500);
        }
    }
}
