package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.tuple;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.event.command.CommandListener;
import io.lettuce.core.event.command.CommandStartedEvent;
import io.lettuce.core.protocol.CommandType;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Which requests share a command to Redis, when commands are sent, and in which order requests are decided. */
class BatchQueueTest extends BatchQueueFixture {

    // When batches are sent

    /**
     * Two are sent at once, and the others together, as far as a command may touch that many counts. A batch of one
     * count may be eight times as large.
     */
    @ParameterizedTest
    @CsvSource({"128, 98, 7, 1", "10, 50, 50, 5", "10, 161, 1, 3"})
    void decisionsThatArriveDuringABatchShareTheNext(int counts, int decisions, int keys, int batches) {
        RateLimiter limiter = limiter(store(how -> how.batching(counts, 2, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileBatchesAreInFlight(2, 2 + decisions, i -> limiter.tryAcquire("key-" + i % keys));
        assertThat(decisions(heard)).hasSize(2 + decisions).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(2 + batches);
    }

    @Test
    void aSingleDecisionIsSentImmediately() {
        RateLimiter limiter = limiter(store(how -> how.deliverOn(Schedulers.immediate())), LIMIT);
        try (VirtualTime standingStill = new VirtualTime()) {
            Instant then = standingStill.instant();
            for (int i = 0; i < 10; i++) {
                assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(999 - i);
            }
            assertThat(standingStill.instant()).isEqualTo(then);
        }
    }

    /** In one batch they would also be answered together, and Redis and the client would take turns. */
    @Test
    void aQueueIsSpreadOverTheBatchesThatMayBeSent() {
        RateLimiter limiter = limiter(store(how -> how.batching(128, 256, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = onTheEventLoop(100, i -> limiter.tryAcquire("key-" + i));
        assertThat(decisions(heard)).hasSize(100).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(4);
    }

    /** Requests decisions in one run of the event loop. */
    private List<Heard> onTheEventLoop(int times, IntFunction<Mono<Decision>> question) {
        return whileRedisIsPaused(() ->
                loop().submit(() -> ask(times, question)).syncUninterruptibly().getNow());
    }

    @Test
    void noDecisionWaitsForRepliesOfAFarRedis() {
        RateLimiter limiter = limiter(store(how -> how.batching(128, 16, 1_000)), LIMIT);
        List<Heard> far = whileRedisIsPaused(() -> {
            List<Heard> asking = ask(1, i -> limiter.tryAcquire("a"));
            Mono.delay(Duration.ofMillis(20)).block(LONG);
            return asking;
        });
        assertThat(decisions(far)).hasSize(1);
        int before = sent.get();
        List<Heard> heard = whileBatchesAreInFlight(16, 20, i -> limiter.tryAcquire("key-" + i));
        assertThat(decisions(heard)).hasSize(20).allMatch(Decision::isAllowed);
        assertThat(sent.get() - before).as("16, and the others together").isEqualTo(16 + 1);
    }

    /** Being busy does not make it farther. */
    @Test
    void batchesWaitAfterRedisBecameSlow() {
        RateLimiter limiter = limiter(store(how -> how.batching(128, 16, 1_000)), LIMIT);
        try (VirtualTime time = new VirtualTime()) {
            limiter.tryAcquire("a").block(LONG);
            redis.pause();
            List<Heard> heard = new ArrayList<>(ask(1, i -> limiter.tryAcquire("a")));
            awaitQueued();
            time.passMillis(20);
            redis.resume();
            assertThat(decisions(heard)).hasSize(1);
            int before = sent.get();
            heard.addAll(whileBatchesAreInFlight(4, 20, i -> limiter.tryAcquire("key-" + i)));
            assertThat(decisions(heard)).hasSize(21).allMatch(Decision::isAllowed);
            assertThat(sent.get() - before).as("4, and the others together").isEqualTo(4 + 1);
        }
    }

    @Test
    void aDecisionOnSeveralCountsIsNeverSplitAcrossBatches() {
        Queue<Integer> keys = new ConcurrentLinkedQueue<>();
        client.addListener(new CommandListener() {
            @Override
            public void commandStarted(CommandStartedEvent event) {
                if (event.getCommand().getType() == CommandType.EVALSHA) {
                    String arguments = event.getCommand().getArgs().toCommandString();
                    keys.add(Integer.parseInt(arguments.split(" ", 3)[1]));
                }
            }
        });
        RateLimiter limiter = limiter(
                store(how -> how.batching(10, 1, 1_000)),
                Limit.perSecond(100),
                Limit.perMinute(1_000),
                Limit.perHour(10_000));
        keys.clear();
        assertThat(decisions(whileBatchesAreInFlight(1, 40, i -> limiter.tryAcquire("key-" + i))))
                .hasSize(40)
                .allMatch(Decision::isAllowed);
        assertThat(keys).hasSize(1 + 13).allMatch(number -> number == 3 || number == 9);
    }

    @Test
    void aBatchSizeOfOneSendsEachDecisionSeparately() {
        RateLimiter limiter = limiter(store(how -> how.batching(1, 4, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisIsPaused(() -> ask(50, i -> limiter.tryAcquire("a")));
        assertThat(decisions(heard)).hasSize(50).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(50);
    }

    /**
     * What is counted as waiting is counted off again, whatever becomes of it: so there is room for as many the next
     * time.
     */
    @Test
    void aFullQueueFailsDecisionsImmediatelyAndDrains() {
        RateLimiter limiter = limiter(store(how -> how.batching(10, 2, 20)), LIMIT);
        for (int round = 0; round < 3; round++) {
            redis.pause();
            List<Heard> under = askOneByOne(2, i -> limiter.tryAcquire("a"));
            List<Heard> waiting = ask(20, i -> i % 2 == 0 ? limiter.tryAcquire("a") : limiter.peek("a"));
            waiting.subList(10, 15).forEach(Heard::cancel);
            Heard tooMany = new Heard(limiter.tryAcquire("a"));
            assertThat(tooMany.outcome()).as("is told at once").isCompletedExceptionally();
            assertThat(tooMany.error())
                    .is(kind(Kind.UNAVAILABLE))
                    .hasMessageContaining("20 decisions are waiting for it already");
            redis.resume();
            assertThat(decisions(under)).hasSize(2);
            assertThat(decisions(waiting.subList(0, 10))).hasSize(10);
            assertThat(decisions(waiting.subList(15, 20))).hasSize(5);
        }
    }

    @Test
    void aFullQueueLeadsToTheFallback() {
        RedisStore store = store(how -> how.batching(10, 1, 5));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(Fallback.local(100))
                .deadline(LONG)
                .limit(LIMIT)
                .build();
        limiter.tryAcquire("a").block(LONG);
        redis.pause();
        List<Heard> waiting = askOneByOne(1, i -> limiter.tryAcquire("a"));
        waiting.addAll(ask(5, i -> limiter.tryAcquire("a")));
        assertThat(new Heard(limiter.tryAcquire("a")).decision().source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().fallbacks()).isEqualTo(1);
        redis.resume();
        assertThat(decisions(waiting)).extracting(Decision::source).containsOnly(Source.REDIS);
    }

    @ParameterizedTest
    @CsvSource({"0,2,10", "1001,2,10", "10,0,10", "10,1001,10", "10,2,0", "10,2,1000001"})
    void boundsOutOfRangeAreRejected(int counts, int inFlight, int waiting) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RedisStore.builder(client).batching(counts, inFlight, waiting))
                .withMessageContaining("out of range")
                .withMessageContaining("for example .batching(128, 256, 100000)");
    }

    @ParameterizedTest
    @CsvSource({"1,1,1", "1000,1000,1000000"})
    void boundsInRangeAreTaken(int counts, int inFlight, int waiting) {
        RateLimiter limiter = limiter(store(how -> how.batching(counts, inFlight, waiting)), LIMIT);
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
    }

    // First come, first served

    /** A decision on both limits must not join the first such group, past later decisions on one of them. */
    @Test
    void limitsThatAreSharedInDifferentOrdersAreDecidedInTurn() {
        Limit few = Limit.of(10, Duration.ofHours(1));
        Limit many = Limit.of(15, Duration.ofHours(2)).counter();
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Charge> forms = List.of(
                Charge.of("a", many, few), Charge.of("a", few), Charge.of("a", few, many), Charge.of("a", many));
        IntUnaryOperator form = i -> i < 2 ? 3 : i < 24 ? i % 2 : i % 4;
        List<Heard> heard = whileRedisIsPaused(() -> ask(60, i -> limiter.tryAcquire(forms.get(form.applyAsInt(i)))));
        int fewLeft = 10;
        int manyLeft = 15;
        for (int i = 0; i < 60; i++) {
            boolean takesFew = form.applyAsInt(i) != 3;
            boolean takesMany = form.applyAsInt(i) != 1;
            boolean fits = (!takesFew || fewLeft > 0) && (!takesMany || manyLeft > 0);
            assertThat(heard.get(i).decision().isAllowed()).as("decision %d", i).isEqualTo(fits);
            fewLeft -= fits && takesFew ? 1 : 0;
            manyLeft -= fits && takesMany ? 1 : 0;
        }
        assertThat(List.of(fewLeft, manyLeft)).containsOnly(0);
    }

    @Test
    void theSameKeysInAnotherOrderGetTheirOwnUsages() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        limiter.tryAcquire(Charge.of("a", 500)).block(LONG);
        Charge[] oneWay = {Charge.of("a"), Charge.of("b")};
        Charge[] otherWay = {Charge.of("b"), Charge.of("a")};
        List<Heard> heard = whileRedisIsPaused(() -> ask(20, i -> limiter.tryAcquire(i % 4 < 2 ? oneWay : otherWay)));
        for (int i = 0; i < 20; i++) {
            assertThat(heard.get(i).decision().limits())
                    .extracting(Usage::key, Usage::used)
                    .as("decision %d", i)
                    .containsExactlyInAnyOrder(tuple("a", 501L + i), tuple("b", 1L + i));
        }
    }

    @Test
    void aRaisedLimitAppliesToTheDecisionsThatHaveIt() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Heard> heard = whileRedisIsPaused(() ->
                ask(20, i -> limiter.tryAcquire(Charge.of("a", Limit.of(i % 2 == 0 ? 3 : 5, Duration.ofHours(1))))));
        assertThat(IntStream.range(0, 20).filter(i -> heard.get(i).decision().isAllowed()))
                .containsExactly(0, 1, 2, 3, 5);
    }

    @Test
    void costsNearTheMostThatACounterHoldsAreNotRounded() {
        long most = Limit.MOST_COUNTER_PERMITS;
        RateLimiter limiter = limiter(store(how -> how), Limit.counter(most, Duration.ofDays(366)));
        long third = most / 3;
        List<Heard> heard = whileRedisIsPaused(() -> ask(70, i -> limiter.tryAcquire(Charge.of("a", third))));
        assertThat(decisions(heard)).filteredOn(Decision::isAllowed).hasSize(3);
        assertThat(heard.get(69).decision().remaining()).isEqualTo(most - 3 * third);
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isFalse();
    }

    /** What other threads requested may still be a task of the connection's thread. */
    @Test
    void aLaterRequestOnTheConnectionThreadIsDecidedLater() throws Exception {
        RateLimiter limiter =
                limiter(store(how -> how.batching(1, 100, 1_000).deliverOn(Schedulers.immediate())), Limit.perHour(1));
        for (int i = 0; i < 50; i++) {
            String key = "key-" + i;
            CountDownLatch there = new CountDownLatch(1);
            CountDownLatch goOn = new CountDownLatch(1);
            CompletableFuture<Decision> second = new CompletableFuture<>();
            limiter.peek("other").subscribe(decision -> {
                there.countDown();
                // This must hold the thread without blocking.
                long left;
                do {
                    left = goOn.getCount();
                } while (left > 0);
                limiter.tryAcquire(key).subscribe(second::complete, second::completeExceptionally);
            });
            there.await();
            Heard first = new Heard(limiter.tryAcquire(key));
            goOn.countDown();
            assertThat(first.decision().isAllowed()).isTrue();
            assertThat(second.get(30, TimeUnit.SECONDS).isAllowed()).isFalse();
        }
    }
}
