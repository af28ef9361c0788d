package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.redis.Keyspace;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.StoredLog;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.Context;

/** Batches grant exactly what fits and lose no decision, whichever others are cancelled. */
class BatchQueueStressTest {

    private static final int CALLERS = 64;
    private static final Duration LONG = Duration.ofSeconds(30);

    private RedisClient client;
    private Keyspace keyspace;

    @BeforeEach
    void connect() {
        // Errors of cancelled subscribers are dropped; they would fill the log.
        Hooks.onErrorDropped(error -> {});
        client = RedisClient.create(RedisForTests.first().uri());
        keyspace = new Keyspace(client);
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
        Hooks.resetOnErrorDropped();
    }

    static Stream<Form> everyForm() {
        return Stream.of("5000/1h", "20000/1h", "20000/1h counter", "20000/1h counter aligned")
                .flatMap(limit -> Stream.of(
                        new Form(limit, false, BatchBounds.DEFAULT),
                        new Form(limit, true, BatchBounds.DEFAULT),
                        new Form(limit, false, new BatchBounds(3, 5, 1_000))));
    }

    /** A limit, whether the store is protected, and the bounds of batches. */
    record Form(String limit, boolean isGuarded, BatchBounds bounds) {}

    @ParameterizedTest
    @MethodSource("everyForm")
    void sixtyFourCallersOnOneKeyGetExactlyThePermits(Form form) {
        Limit limit = Limit.parse(form.limit);
        RateLimiter limiter = limiter(form);
        List<Decision> decisions = Flux.range(0, CALLERS)
                .flatMap(caller -> untilNothingIsLeft(limiter, new Random(caller)), CALLERS)
                .collectList()
                .block(LONG);
        long admitted = decisions.stream()
                .filter(Decision::isAllowed)
                .mapToLong(BatchQueueStressTest::cost)
                .sum();
        assertThat(admitted).isEqualTo(limit.permits());
        assertThat(used(limiter)).isEqualTo(admitted);
        assertThat(decisions)
                .extracting(Decision::source)
                .isSubsetOf(form.isGuarded ? List.of(Source.REDIS, Source.CACHED_DENIAL) : List.of(Source.REDIS));
        assertThat(decisions.stream().filter(Decision::isAllowed).map(Decision::remaining))
                .as("each granted decision has another remainder")
                .doesNotHaveDuplicates();
        assertThat(limiter.state().fallbacks()).isZero();
        StoredLog.checkAll(keyspace);
    }

    private static Flux<Decision> untilNothingIsLeft(RateLimiter limiter, Random random) {
        AtomicLong cost = new AtomicLong();
        return Mono.defer(() -> {
                    cost.set(cost.get() < 0 ? 1 : 1 + random.nextInt(random.nextInt(10) == 0 ? 50 : 4));
                    return limiter.tryAcquire(Charge.of("hot", cost.get()));
                })
                .subscribeOn(Schedulers.parallel())
                .repeat()
                .takeUntil(decision -> {
                    boolean isOver = !decision.isAllowed() && cost.get() == 1;
                    if (!decision.isAllowed()) {
                        cost.set(-1);
                    }
                    return isOver;
                });
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000000/1h", "1000000/1h counter"})
    void cancellationsLoseNoOtherDecisionAndChargeNothingTwice(String text) {
        int bound = 2_000;
        RedisStore store = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .batching(16, 2, bound)
                .build();
        RateLimiter limiter = Unprotected.limiter(store, Limit.parse(text));
        // From before there is a connection, so that some leave while they wait for it.
        List<Leaving> all = Flux.range(0, 8)
                .flatMap(
                        thread -> Mono.fromCallable(() -> {
                                    List<Leaving> mine = new ArrayList<>();
                                    for (int i = 0; i < 2_000; i++) {
                                        Leaving one = new Leaving(thread + "-" + i, 1 + i % 3);
                                        limiter.tryAcquire(Charge.of(i % 5 == 0 ? "other" : "hot", one.cost))
                                                .subscribe(one);
                                        mine.add(one);
                                        while (i % 100 == 99
                                                && mine.subList(0, i - 50).stream()
                                                        .anyMatch(Leaving::mustStillBeAnswered)) {
                                            Thread.sleep(1);
                                        }
                                    }
                                    return mine;
                                })
                                .subscribeOn(Schedulers.boundedElastic()),
                        8)
                .collectList()
                .block(LONG)
                .stream()
                .flatMap(List::stream)
                .toList();
        await().atMost(LONG).until(() -> all.stream().noneMatch(Leaving::mustStillBeAnswered));
        assertThat(all.stream().map(one -> one.error).filter(Objects::nonNull)).isEmpty();
        assertThat(all).allMatch(one -> one.answers.get() <= 1);
        assertThat(all).filteredOn(one -> one.when == Leaving.NEVER).allMatch(one -> one.answers.get() == 1);
        assertThat(all).allMatch(Leaving::hasFoundItsOwnContext);
        // Cancelled decisions may still be in flight; this peek is decided after them.
        long used = used(limiter)
                + limiter.peek("other").block(LONG).limits().get(0).used();
        long heard = all.stream()
                .filter(one -> one.answers.get() == 1)
                .mapToLong(one -> one.cost)
                .sum();
        long asked = all.stream()
                .filter(one -> one.when != Leaving.BEFORE_REQUEST)
                .mapToLong(one -> one.cost)
                .sum();
        assertThat(used).isBetween(heard, asked);
        assertThat(Flux.range(0, bound)
                        .flatMap(i -> limiter.tryAcquire("room"), bound)
                        .count()
                        .block(LONG))
                .as("no cancelled decision holds a place")
                .isEqualTo(bound);
    }

    /** A subscriber that cancels at some point, or never. */
    private static final class Leaving extends BaseSubscriber<Decision> {

        static final int NEVER = 0;
        static final int BEFORE_REQUEST = 1;
        static final int AFTER_REQUEST = 2;
        static final int SOON = 3;
        static final int WHEN_HE_IS_ANSWERED = 4;

        private final String name;
        private final long cost;
        private final int when = ThreadLocalRandom.current().nextInt(3) == 0
                ? NEVER
                : ThreadLocalRandom.current().nextInt(5);
        private final AtomicInteger answers = new AtomicInteger();
        private volatile @Nullable Throwable error;
        private volatile String found = "";

        Leaving(String name, long cost) {
            this.name = name;
            this.cost = cost;
        }

        boolean mustStillBeAnswered() {
            return (when == NEVER || when == WHEN_HE_IS_ANSWERED) && answers.get() == 0 && error == null;
        }

        boolean hasFoundItsOwnContext() {
            return answers.get() == 0 || found.equals(name);
        }

        @Override
        public Context currentContext() {
            return Context.of("caller", name);
        }

        @Override
        protected void hookOnSubscribe(Subscription subscription) {
            if (when == BEFORE_REQUEST) {
                cancel();
            }
            subscription.request(1);
            if (when == AFTER_REQUEST) {
                cancel();
            } else if (when == SOON) {
                Schedulers.parallel().schedule(this::cancel);
            }
        }

        @Override
        protected void hookOnNext(Decision decision) {
            found = currentContext().get("caller");
            answers.incrementAndGet();
            if (when == WHEN_HE_IS_ANSWERED) {
                cancel();
                throw new IllegalStateException("thrown after a cancellation");
            }
        }

        @Override
        protected void hookOnError(Throwable error) {
            this.error = error;
        }
    }

    @Test
    void aSubscriberMayRequestTheNextDecisionInOnNext() {
        for (var scheduler : List.of(Schedulers.parallel(), Schedulers.immediate())) {
            RedisStore store = RedisStore.builder(client)
                    .namespace(keyspace.namespace())
                    .deliverOn(scheduler)
                    .build();
            RateLimiter limiter = Unprotected.limiter(store, Limit.counter(1_000_000, Duration.ofHours(1)));
            limiter.reset("hot").block(LONG);
            assertThat(Flux.range(0, CALLERS)
                            .flatMap(caller -> limiter.tryAcquire("hot").repeat(199), CALLERS)
                            .count()
                            .block(LONG))
                    .isEqualTo(200 * CALLERS);
            assertThat(used(limiter)).isEqualTo(200 * CALLERS);
        }
    }

    private RateLimiter limiter(Form form) {
        RedisStore store = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .batching(form.bounds.counts(), form.bounds.inFlight(), form.bounds.waiting())
                .build();
        RateLimiterBuilder builder = RateLimiter.builder("api").limit(Limit.parse(form.limit));
        return form.isGuarded
                ? builder.store(store).deadline(LONG).build()
                : builder.store(new Unprotected(store)).build();
    }

    private static long cost(Decision decision) {
        return DecidedClaims.of(decision).get(0).permits();
    }

    private static long used(RateLimiter limiter) {
        return limiter.peek("hot").block(LONG).limits().get(0).used();
    }
}
