package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.tuple;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.ForeignValueException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.event.command.CommandListener;
import io.lettuce.core.event.command.CommandStartedEvent;
import io.lettuce.core.protocol.CommandType;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Decisions that leave for Redis together: who leaves with whom, and that nobody has to suffer for it. */
class CoalescingTest {

    private static final Limit LIMIT = Limit.perHour(1_000);
    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<RedisStore> stores = new ArrayList<>();
    private RedisClient client;
    private Keyspace keyspace;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        keyspace = new Keyspace(client);
    }

    @AfterEach
    void shutdown() {
        stores.forEach(RedisStore::close);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    // Who leaves when

    @Test
    void whoComesWhileOthersAreAtRedisLeavesTogetherWithTheNext() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> ask(100, i -> limiter.tryAcquire("key-" + i % 7)));
        assertThat(decisions(heard)).hasSize(100).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before)
                .as("two leave at once, and all the others together")
                .isEqualTo(3);
    }

    @Test
    void whoAsksAloneLeavesAtOnceThoughNoTimePasses() {
        RateLimiter limiter = limiter(store(how -> how.deliverOn(Schedulers.immediate())), LIMIT);
        try (VirtualTime standingStill = new VirtualTime()) {
            Instant then = standingStill.instant();
            for (int i = 0; i < 10; i++) {
                assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(999 - i);
            }
            assertThat(standingStill.instant()).isEqualTo(then);
        }
    }

    @Test
    void noCommandTouchesMoreCountsThanAllowed() {
        RateLimiter limiter = limiter(store(how -> how.coalescing(10, 3, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> ask(53, i -> limiter.tryAcquire("key-" + i)));
        assertThat(decisions(heard)).hasSize(53).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(3 + 5);
    }

    @Test
    void ofOneCountEightTimesAsManyLeaveTogether() {
        RateLimiter limiter = limiter(store(how -> how.coalescing(10, 3, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> ask(3 + 161, i -> limiter.tryAcquire("a")));
        assertThat(decisions(heard)).hasSize(164).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(3 + 3);
    }

    @Test
    void whoComesSoonAfterOthersWaitsForTheirAnswer() {
        RateLimiter limiter = limiter(pacedStore(128, Duration.ofHours(1)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> ask(100, i -> limiter.tryAcquire("key-" + i % 7)));
        assertThat(decisions(heard)).hasSize(100).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before)
                .as("one leaves at once, and all the others together")
                .isEqualTo(2);
    }

    @Test
    void asManyAsFillACommandWaitForNoAnswer() {
        AtomicInteger sent = countSent();
        RateLimiter limiter = limiter(pacedStore(10, Duration.ofHours(1)), LIMIT);
        List<Heard> heard = whileRedisStandsStill(() -> {
            List<Heard> asking = ask(1 + 10 + 10 + 5, i -> limiter.tryAcquire("key-" + i));
            assertThat(sent).hasValue(3);
            return asking;
        });
        assertThat(decisions(heard)).hasSize(26).allMatch(Decision::isAllowed);
        assertThat(sent).hasValue(4);
    }

    /** Where Redis is far away, nobody waits for its answer to somebody else; where it is slow, its batches grow. */
    @Test
    void theMoreAreUnderWayTheLaterTheNextOneLeaves() {
        AtomicInteger sent = countSent();
        RateLimiter limiter = limiter(pacedStore(128, Duration.ofMillis(1)), LIMIT);
        try (VirtualTime time = new VirtualTime()) {
            List<Heard> heard = new ArrayList<>();
            redis.pause();
            for (int underWay = 0; underWay < 4; underWay++) {
                for (int passed = 0; passed < underWay; passed++) {
                    heard.addAll(ask(3, i -> limiter.tryAcquire("a")));
                    assertThat(sent).as("after %d ms", passed).hasValue(underWay);
                    time.passMillis(1);
                }
                heard.addAll(ask(1, i -> limiter.tryAcquire("a")));
                assertThat(sent).hasValue(underWay + 1);
            }
            redis.resume();
            assertThat(decisions(heard)).hasSize(3 * (1 + 2 + 3) + 4).allMatch(Decision::isAllowed);
        }
    }

    @Test
    void whereRedisIsFarAwayNobodyWaitsForAnAnswerToOthers() {
        AtomicInteger sent = countSent();
        RateLimiter limiter = limiter(pacedStore(128, Duration.ofHours(1)), LIMIT);
        List<Heard> far = whileRedisStandsStill(() -> {
            List<Heard> asking = ask(1, i -> limiter.tryAcquire("a"));
            Mono.delay(Duration.ofMillis(20)).block(LONG);
            return asking;
        });
        assertThat(decisions(far)).hasSize(1);
        List<Heard> heard = whileRedisStandsStill(() -> {
            List<Heard> asking = ask(20, i -> limiter.tryAcquire("key-" + i));
            assertThat(sent).as("16 more at a time").hasValue(1 + 16);
            return asking;
        });
        assertThat(decisions(heard)).hasSize(20).allMatch(Decision::isAllowed);
    }

    /** Being busy does not make it farther. */
    @Test
    void whereRedisWasBusyAfterItHadBeenNearOthersAreWaitedFor() {
        AtomicInteger sent = countSent();
        RateLimiter limiter = limiter(pacedStore(128, Duration.ofHours(1)), LIMIT);
        try (VirtualTime time = new VirtualTime()) {
            limiter.tryAcquire("a").block(LONG);
            redis.pause();
            List<Heard> heard = new ArrayList<>(ask(1, i -> limiter.tryAcquire("a")));
            time.passMillis(20);
            redis.resume();
            assertThat(decisions(heard)).hasSize(1);
            redis.pause();
            heard.addAll(ask(20, i -> limiter.tryAcquire("key-" + i)));
            assertThat(sent).as("one more").hasValue(2 + 1);
            redis.resume();
            assertThat(decisions(heard)).hasSize(21).allMatch(Decision::isAllowed);
        }
    }

    @Test
    void aDecisionOnSeveralCountsIsNotTornApartAndWaitsForTheNextCommandWhereItDoesNotFit() {
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
                store(how -> how.coalescing(10, 1, 1_000)),
                Limit.perSecond(100),
                Limit.perMinute(1_000),
                Limit.perHour(10_000));
        assertThat(decisions(whileRedisStandsStill(() -> ask(40, i -> limiter.tryAcquire("key-" + i)))))
                .hasSize(40)
                .allMatch(Decision::isAllowed);
        assertThat(keys).hasSize(1 + 13).allMatch(number -> number == 3 || number == 9);
    }

    @Test
    void withOneTogetherEachLeavesAlone() {
        RateLimiter limiter = limiter(store(how -> how.coalescing(1, 4, 1_000)), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> ask(50, i -> limiter.tryAcquire("a")));
        assertThat(decisions(heard)).hasSize(50).allMatch(Decision::isAllowed);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(50);
    }

    /** What is counted as waiting is counted off again, whatever becomes of it: so there is room for as many the next time. */
    @Test
    void whoFindsAllPlacesTakenIsToldAtOnceAndNextTimeThereAreAsManyAgain() {
        RateLimiter limiter = limiter(store(how -> how.coalescing(10, 3, 20)), LIMIT);
        for (int round = 0; round < 3; round++) {
            redis.pause();
            List<Heard> under = ask(3, i -> limiter.tryAcquire("a"));
            List<Heard> waiting = ask(20, i -> i % 2 == 0 ? limiter.tryAcquire("a") : limiter.peek("a"));
            waiting.subList(10, 15).forEach(Heard::cancel);
            Heard tooMany = new Heard(limiter.tryAcquire("a"));
            assertThat(tooMany.outcome).as("is told at once").isCompletedExceptionally();
            assertThat(tooMany.error())
                    .isExactlyInstanceOf(LimitStoreUnavailableException.class)
                    .hasMessageContaining("20 decisions are waiting for it already");
            redis.resume();
            assertThat(decisions(under)).hasSize(3);
            assertThat(decisions(waiting.subList(0, 10))).hasSize(10);
            assertThat(decisions(waiting.subList(15, 20))).hasSize(5);
        }
    }

    @Test
    void whoFindsAllPlacesTakenIsServedByTheFallback() {
        RedisStore store = store(how -> how.coalescing(10, 1, 5));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(LocalStore.bounded(100))
                .deadline(LONG)
                .limit(LIMIT)
                .build();
        limiter.tryAcquire("a").block(LONG);
        redis.pause();
        List<Heard> waiting = ask(6, i -> limiter.tryAcquire("a"));
        assertThat(new Heard(limiter.tryAcquire("a")).decision().source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().fellBack()).isEqualTo(1);
        redis.resume();
        assertThat(decisions(waiting)).extracting(Decision::source).containsOnly(Source.REDIS);
    }

    @ParameterizedTest
    @ValueSource(strings = {"0,2,10", "1001,2,10", "10,0,10", "10,1001,10", "10,2,0", "10,2,1000001"})
    void boundsOutOfRangeAreRefused(String text) {
        int[] bounds = Stream.of(text.split(",")).mapToInt(Integer::parseInt).toArray();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RedisStore.builder(client).coalescing(bounds[0], bounds[1], bounds[2]))
                .withMessageContaining("out of range")
                .withMessageContaining("for example .coalescing(128, 256, 100000)");
    }

    @ParameterizedTest
    @ValueSource(strings = {"1,1,1", "1000,1000,1000000"})
    void boundsInRangeAreTaken(String text) {
        int[] bounds = Stream.of(text.split(",")).mapToInt(Integer::parseInt).toArray();
        RateLimiter limiter = limiter(store(how -> how.coalescing(bounds[0], bounds[1], bounds[2])), LIMIT);
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
    }

    // First come, first served

    @ParameterizedTest
    @ValueSource(strings = {"20/1h", "20/1h counter"})
    void whoComesFirstIsServedFirst(String text) {
        RateLimiter limiter = limiter(store(how -> how), Limit.parse(text));
        int[] costs = {3, 3, 3, 5, 3, 7, 2, 2, 2, 1, 1, 0, 20, 0};
        List<Heard> heard = whileRedisStandsStill(() -> ask(costs.length, i -> limiter.tryAcquire("a", costs[i])));
        int left = 20;
        for (int i = 0; i < costs.length; i++) {
            Decision decision = heard.get(i).decision();
            assertThat(decision.isAllowed()).as("decision %d", i).isEqualTo(costs[i] <= left);
            left -= decision.isAllowed() ? costs[i] : 0;
            assertThat(decision.remaining()).as("decision %d", i).isEqualTo(left);
        }
        assertThat(left).isZero();
    }

    @Test
    void whoLooksSeesWhatWasTakenBeforeHimAndNothingElse() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Heard> heard =
                whileRedisStandsStill(() -> ask(60, i -> i % 3 == 2 ? limiter.peek("a") : limiter.tryAcquire("a")));
        for (int i = 0; i < 60; i++) {
            assertThat(heard.get(i).decision().remaining()).isEqualTo(1_000 - (i / 3 * 2 + Math.min(2, i % 3 + 1)));
        }
    }

    /** Who asks for both must not be put together with the first who did, past those who have asked for one since. */
    @Test
    void limitsThatAreSharedInDifferentOrdersAreDecidedInTurn() {
        Limit few = Limit.of(10, Duration.ofHours(1));
        Limit many = Limit.of(15, Duration.ofHours(2)).counter();
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Charge> forms = List.of(
                Charge.of("a", many, few), Charge.of("a", few), Charge.of("a", few, many), Charge.of("a", many));
        IntUnaryOperator form = i -> i < 2 ? 3 : i < 24 ? i % 2 : i % 4;
        List<Heard> heard =
                whileRedisStandsStill(() -> ask(60, i -> limiter.tryAcquire(forms.get(form.applyAsInt(i)))));
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
    void eachDeniedRequestCountsWhereDeniedRequestsCount() {
        RateLimiter limiter = limiter(store(how -> how), Limit.parse("10/1h counting-denied"), LIMIT.named("wide"));
        List<Heard> heard = whileRedisStandsStill(() -> ask(12, i -> limiter.tryAcquire("a", 3)));
        assertThat(decisions(heard)).filteredOn(Decision::isAllowed).hasSize(3);
        assertThat(heard.get(2).decision().limits().get(0).used()).isEqualTo(9);
        assertThat(heard.get(3).decision().limits().get(0).used()).isEqualTo(10);
        assertThat(heard.get(11).decision().limits()).extracting(Usage::used).containsExactly(10L, 9L);
    }

    @Test
    void eachIsToldWhatCountedAfterHimWhereEveryLimitCountsDeniedRequests() {
        RateLimiter limiter = limiter(store(how -> how), Limit.parse("10/1h counting-denied"));
        List<Heard> heard = whileRedisStandsStill(() -> ask(12, i -> limiter.tryAcquire("a", 3)));
        assertThat(decisions(heard))
                .extracting(decision -> decision.limits().get(0).used())
                .startsWith(3L, 6L, 9L, 10L)
                .endsWith(10L);
    }

    @Test
    void whoIsAllowedIsToldThatItFitsNowThoughOthersWhoCameWithHimAreDenied() {
        RateLimiter limiter = limiter(store(how -> how), Limit.perHour(10));
        List<Heard> heard = whileRedisStandsStill(() -> ask(20, i -> limiter.tryAcquire("a")));
        for (Decision decision : decisions(heard)) {
            Instant fitsAt = decision.limits().get(0).fitsAt();
            assertThat(fitsAt.equals(decision.at())).isEqualTo(decision.isAllowed());
        }
        assertThat(decisions(heard)).filteredOn(Decision::isAllowed).hasSize(10);
    }

    @Test
    void whoNamesTheSameKeysInAnotherOrderIsToldOfEachWhatIsSo() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        limiter.tryAcquire("a", 500).block(LONG);
        Charge[] oneWay = {Charge.of("a"), Charge.of("b")};
        Charge[] otherWay = {Charge.of("b"), Charge.of("a")};
        List<Heard> heard =
                whileRedisStandsStill(() -> ask(20, i -> limiter.tryAcquire(i % 4 < 2 ? oneWay : otherWay)));
        for (int i = 0; i < 20; i++) {
            assertThat(heard.get(i).decision().limits())
                    .extracting(Usage::key, Usage::used)
                    .as("decision %d", i)
                    .containsExactlyInAnyOrder(tuple("a", 501L + i), tuple("b", 1L + i));
        }
    }

    @Test
    void aRaisedLimitHoldsForThoseWhoComeWithIt() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Heard> heard = whileRedisStandsStill(() ->
                ask(20, i -> limiter.tryAcquire(Charge.of("a", Limit.of(i % 2 == 0 ? 3 : 5, Duration.ofHours(1))))));
        assertThat(IntStream.range(0, 20).filter(i -> heard.get(i).decision().isAllowed()))
                .containsExactly(0, 1, 2, 3, 5);
    }

    @Test
    void costsNearTheMostThatACounterHoldsAreNotRounded() {
        long most = Limit.MOST_COUNTER_PERMITS;
        RateLimiter limiter = limiter(store(how -> how), Limit.counter(most, Duration.ofDays(366)));
        long third = most / 3;
        List<Heard> heard = whileRedisStandsStill(() -> ask(70, i -> limiter.tryAcquire("a", third)));
        assertThat(decisions(heard)).filteredOn(Decision::isAllowed).hasSize(3);
        assertThat(heard.get(69).decision().remaining()).isEqualTo(most - 3 * third);
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isFalse();
    }

    /** What the connection's own thread writes goes out at once; what others write stands in its queue. */
    @Test
    void whatIsAskedLaterOnTheConnectionsThreadIsDecidedLater() throws Exception {
        RateLimiter limiter = limiter(
                store(how -> how.coalescing(1, 100, 1_000).deliverOn(Schedulers.immediate())), Limit.perHour(1));
        for (int i = 0; i < 50; i++) {
            String key = "key-" + i;
            CountDownLatch there = new CountDownLatch(1);
            CountDownLatch goOn = new CountDownLatch(1);
            CompletableFuture<Decision> second = new CompletableFuture<>();
            limiter.peek("other").subscribe(decision -> {
                there.countDown();
                // He must not block there, and has to hold that thread.
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

    // Neighbours

    @Test
    void aForeignValueIsTheErrorOfThoseAloneWhoAskForIt() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        limiter.tryAcquire("foreign").block(LONG);
        String key = keyspace.onlyKey();
        keyspace.commands().del(key);
        keyspace.commands().rpush(key, "somebody else's");
        List<Heard> heard = whileRedisStandsStill(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("ours-" + i)),
                        ask(5, i -> limiter.tryAcquire("foreign")),
                        ask(5, i -> limiter.tryAcquire(Charge.of("ours-" + i), Charge.of("foreign"))),
                        ask(5, i -> limiter.tryAcquire("ours-" + i)))
                .flatMap(List::stream)
                .toList());
        assertThat(decisions(heard.subList(0, 5)))
                .extracting(Decision::remaining)
                .containsOnly(999L);
        for (Heard one : heard.subList(5, 15)) {
            assertThat(one.error()).isInstanceOf(ForeignValueException.class).hasMessageContaining(key);
        }
        assertThat(decisions(heard.subList(15, 20)))
                .extracting(Decision::remaining)
                .as("nothing was charged together with what is foreign")
                .containsOnly(998L);
        assertThat(keyspace.commands().lrange(key, 0, -1)).containsExactly("somebody else's");
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000/1h", "1000/1h counting-denied"})
    void aTornValueIsTheErrorOfThoseAloneWhoAskForIt(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(store(how -> how), limit);
        String key = tear(limiter, "torn");
        String before = keyspace.commands()
                .eval("return redis.sha1hex(redis.call('GET', KEYS[1]))", ScriptOutputType.VALUE, key);
        List<Heard> heard = whileRedisStandsStill(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("ours-" + i)),
                        ask(5, i -> limiter.tryAcquire("torn", 997)),
                        ask(
                                5,
                                i -> limiter.tryAcquire(
                                        Charge.of("ours-" + i),
                                        Charge.of("torn").permits(997))),
                        ask(5, i -> limiter.tryAcquire("ours-" + i)))
                .flatMap(List::stream)
                .toList());
        assertThat(decisions(heard.subList(0, 5)))
                .extracting(Decision::remaining)
                .containsOnly(999L);
        for (Heard one : heard.subList(5, 15)) {
            assertThat(one.error()).isInstanceOf(ForeignValueException.class).hasMessageContaining(key);
        }
        assertThat(decisions(heard.subList(15, 20)))
                .extracting(Decision::remaining)
                .containsOnly(998L);
        for (int i = 0; i < 5; i++) {
            assertThat(limiter.peek("ours-" + i).block(LONG).remaining()).isEqualTo(998);
        }
        assertThat(keyspace.commands()
                        .<String>eval("return redis.sha1hex(redis.call('GET', KEYS[1]))", ScriptOutputType.VALUE, key))
                .as("what is torn is left as it is")
                .isEqualTo(before);
        keyspace.commands().del(key);
        StoredLog.checkAll(keyspace);
    }

    /** A denied request that counts changes an entry where it lies; the torn value is found out only after that. */
    @Test
    void whatIsTakenFromALogForADeniedRequestIsTakenOnceThoughAnotherLogIsTorn() {
        Limit counting = Limit.parse("1000/1h counting-denied");
        RedisStore store = store(how -> how);
        RateLimiter limiter = limiter(store, counting);
        RateLimiter plain = limiter(store, LIMIT.named("plain"));
        String torn = tear(plain, "torn");
        limiter.tryAcquire("ours", 900).block(LONG);
        long then = limiter.peek("ours").block(LONG).at().toEpochMilli();
        await().until(() -> limiter.peek("ours").block(LONG).at().toEpochMilli() > then);
        limiter.tryAcquire("ours", 100).block(LONG);
        List<Heard> heard = whileRedisStandsStill(() -> Stream.of(
                        ask(2, i -> limiter.peek("nobody")),
                        ask(1, i -> limiter.tryAcquire("ours", 10)),
                        ask(1, i -> plain.tryAcquire("torn", 997)))
                .flatMap(List::stream)
                .toList());
        assertThat(heard.get(2).decision().isAllowed()).isFalse();
        assertThat(heard.get(2).decision().limits().get(0).used()).isEqualTo(1_000);
        assertThat(heard.get(3).error()).isInstanceOf(ForeignValueException.class);
        keyspace.commands().del(torn);
        StoredLog.checkAll(keyspace);
    }

    /** Cuts off what stands behind the first entry of a log with several. */
    private String tear(RateLimiter limiter, String who) {
        String key = "";
        do {
            limiter.tryAcquire(who).block(LONG);
            key = keyspace.keys().stream()
                    .filter(name -> name.endsWith("{" + who + "}"))
                    .findAny()
                    .orElseThrow();
        } while (keyspace.commands().strlen(key) < 42 + 9 * 6
                || StoredLog.parse(keyspace.bytes(key)).last() < 5);
        keyspace.commands()
                .eval(
                        "redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, 42 + 9), 'PX', 3600000)"
                                + " return 'OK'",
                        ScriptOutputType.STATUS,
                        key);
        return key;
    }

    @Test
    void whereNothingCanBeWrittenThoseWhoAreDeniedOrOnlyLookAreAnsweredAllTheSame() {
        RateLimiter limiter =
                limiter(store(how -> how), Limit.perHour(5), Limit.perDay(5).counter());
        limiter.tryAcquire("full", 5).block(LONG);
        limiter.tryAcquire("half", 2).block(LONG);
        keyspace.commands().configSet("maxmemory", "1");
        List<Heard> heard = whileRedisStandsStill(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("half")),
                        ask(5, i -> limiter.tryAcquire("full")),
                        ask(5, i -> limiter.tryAcquire("half", 4)),
                        ask(5, i -> limiter.peek("half")),
                        ask(5, i -> limiter.tryAcquire("half", 0)))
                .flatMap(List::stream)
                .toList());
        for (Heard one : heard.subList(0, 5)) {
            assertThat(one.error())
                    .isExactlyInstanceOf(LimitStoreUnavailableException.class)
                    .hasMessageContaining("OOM");
        }
        assertThat(decisions(heard.subList(5, 15))).hasSize(10).noneMatch(Decision::isAllowed);
        assertThat(decisions(heard.subList(15, 25))).hasSize(10).allMatch(Decision::isAllowed);
        assertThat(decisions(heard.subList(10, 25)))
                .extracting(Decision::remaining)
                .containsOnly(3L);
        keyspace.commands().configSet("maxmemory", "0");
        assertThat(limiter.tryAcquire("half").block(LONG).remaining()).isEqualTo(2);
    }

    /** A store around this one may get it wrong; who has nothing to do with it does not hear of it. */
    @Test
    void whatCannotBeAskedIsTheErrorOfHimAloneWhoAsksForIt() {
        RedisStore store = store(how -> how);
        RateLimiter limiter = limiter(store, LIMIT.counter());
        RateLimiter asksTooMuch = RateLimiter.builder("api")
                .store(new Unprotected(store) {
                    @Override
                    public Mono<Decision> take(List<Claim> claims) {
                        return super.take(List.of(
                                claims.get(0).asking(claims.get(0).limit().permits() + 1)));
                    }
                })
                .limit(LIMIT.counter())
                .build();
        RateLimiter asksNothing = RateLimiter.builder("api")
                .store(new Unprotected(store) {
                    @Override
                    public Mono<Decision> take(List<Claim> claims) {
                        return super.take(List.of());
                    }
                })
                .limit(LIMIT)
                .build();
        List<Heard> heard = whileRedisStandsStill(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("a-" + i)),
                        ask(1, i -> asksTooMuch.tryAcquire("much")),
                        ask(1, i -> asksNothing.tryAcquire("nothing")),
                        ask(5, i -> limiter.tryAcquire("b-" + i)))
                .flatMap(List::stream)
                .toList());
        assertThat(decisions(heard.subList(0, 5))).hasSize(5).allMatch(Decision::isAllowed);
        assertThat(heard.get(5).error()).isNotNull();
        assertThat(heard.get(6).error()).isNotNull();
        assertThat(decisions(heard.subList(7, 12))).hasSize(5).allMatch(Decision::isAllowed);
    }

    @Test
    void whoThrowsWhenHeIsAnsweredKeepsNobodyFromHisAnswer() {
        List<Throwable> dropped = new ArrayList<>();
        Hooks.onErrorDropped(dropped::add);
        try {
            RateLimiter limiter = limiter(store(how -> how), LIMIT);
            redis.pause();
            List<Heard> heard = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                limiter.tryAcquire("a").subscribe(new Throwing());
                heard.addAll(ask(1, n -> limiter.tryAcquire("a")));
            }
            redis.resume();
            assertThat(decisions(heard)).hasSize(20).allMatch(Decision::isAllowed);
            await().until(() -> dropped.size() == 20);
        } finally {
            Hooks.resetOnErrorDropped();
        }
    }

    @Test
    void whoThrowsOnceMoreWhereWhatIsThrownIsDroppedKeepsNobodyFromHisAnswerEither() {
        Hooks.onErrorDropped(error -> {
            throw new IllegalStateException("thrown where it is dropped");
        });
        try {
            RateLimiter limiter = limiter(store(how -> how), LIMIT);
            redis.pause();
            List<Heard> heard = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                limiter.tryAcquire("a").subscribe(new Throwing());
                heard.addAll(ask(1, n -> limiter.tryAcquire("a")));
            }
            redis.resume();
            assertThat(decisions(heard)).hasSize(3).allMatch(Decision::isAllowed);
        } finally {
            Hooks.resetOnErrorDropped();
        }
    }

    @Test
    void whoThrowsWhenHeIsToldOfAnErrorKeepsNobodyFromBeingTold() {
        Queue<Throwable> dropped = new ConcurrentLinkedQueue<>();
        Hooks.onErrorDropped(dropped::add);
        try {
            RateLimiter limiter = limiter(store(how -> how), LIMIT);
            redis.pause();
            List<Heard> heard = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                limiter.tryAcquire("a").subscribe(new Throwing());
                heard.addAll(ask(1, n -> limiter.tryAcquire("a")));
            }
            redis.kill();
            assertThat(heard).allSatisfy(one -> assertThat(one.error()).isInstanceOf(LimitStoreException.class));
            await().until(() -> dropped.stream()
                            .filter(thrown -> "thrown in onError".equals(thrown.getMessage()))
                            .count()
                    == 20);
        } finally {
            Hooks.resetOnErrorDropped();
        }
    }

    /** Throws on whatever it hears, past what Reactor's own subscribers would catch. */
    private static final class Throwing implements CoreSubscriber<Decision> {

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(1);
        }

        @Override
        public void onNext(Decision decision) {
            throw new IllegalStateException("thrown in onNext");
        }

        @Override
        public void onError(Throwable error) {
            throw new IllegalStateException("thrown in onError");
        }

        @Override
        public void onComplete() {
            throw new IllegalStateException("thrown in onComplete");
        }
    }

    @Test
    void eachFindsHisOwnContextWhenHeIsAnswered() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        Map<Integer, String> found = new ConcurrentHashMap<>();
        List<Heard> heard = whileRedisStandsStill(() -> ask(
                100,
                i -> limiter.tryAcquire("a")
                        .flatMap(decision -> Mono.deferContextual(context -> {
                            found.put(i, context.get("who"));
                            return Mono.just(decision);
                        }))
                        .contextWrite(context -> context.put("who", "caller " + i))));
        assertThat(decisions(heard)).hasSize(100);
        for (int i = 0; i < 100; i++) {
            assertThat(found).containsEntry(i, "caller " + i);
        }
    }

    @Test
    void nobodyGoesOnOnTheConnectionsThread() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        Map<String, Integer> threads = new ConcurrentHashMap<>();
        List<Heard> heard = whileRedisStandsStill(() -> ask(
                300,
                i -> limiter.tryAcquire("key-" + i % 50)
                        .doOnNext(
                                decision -> threads.merge(Thread.currentThread().getName(), 1, Integer::sum))));
        assertThat(decisions(heard)).hasSize(300);
        assertThat(threads.keySet()).allMatch(name -> name.startsWith("parallel-"));
    }

    @Test
    void aSchedulerThatHasBeenShutDownKeepsNobodyWaiting() {
        var scheduler = Schedulers.newSingle("users-own");
        RateLimiter limiter = limiter(store(how -> how.deliverOn(scheduler)), LIMIT);
        redis.pause();
        List<Heard> heard = ask(300, i -> limiter.tryAcquire("key-" + i % 50));
        scheduler.dispose();
        redis.resume();
        assertThat(decisions(heard)).hasSize(300);
    }

    // Who leaves before he is answered

    @Test
    void whoLeavesWhileHeWaitsIsNotCharged() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        limiter.peek("a").block(LONG);
        List<Heard> stayed = whileRedisStandsStill(() -> {
            List<Heard> all = ask(50, i -> limiter.tryAcquire("a"));
            List<Heard> staying = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                if (i < 2 || i % 3 == 0) {
                    staying.add(all.get(i));
                } else {
                    all.get(i).cancel();
                }
            }
            return staying;
        });
        assertThat(decisions(stayed)).hasSize(18);
        assertThat(limiter.peek("a").block(LONG).limits().get(0).used()).isEqualTo(18);
    }

    @Test
    void whereAllHaveLeftNothingIsSent() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisStandsStill(() -> {
            List<Heard> first = ask(2, i -> limiter.tryAcquire("a"));
            ask(500, i -> limiter.tryAcquire("a")).forEach(Heard::cancel);
            return first;
        });
        assertThat(decisions(heard)).hasSize(2);
        assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(997);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(3);
    }

    @Test
    void whoDoesNotRequestHasNotAsked() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        BaseSubscriber<Decision> idle = new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {}
        };
        limiter.tryAcquire("a").subscribe(idle);
        assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(999);
        idle.cancel();
        idle.request(1);
        assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(998);
    }

    @Test
    void whoRequestsTwiceAsksOnce() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        List<Decision> heard = new ArrayList<>();
        limiter.tryAcquire("a").subscribe(new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {
                subscription.request(1);
                subscription.request(5);
            }

            @Override
            protected void hookOnNext(Decision decision) {
                heard.add(decision);
            }
        });
        await().until(() -> limiter.peek("a").block(LONG).remaining() == 999);
        await().until(() -> heard.size() == 1);
        assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(998);
    }

    @Test
    void whoLeavesWhileTheConnectionIsOpenedIsNotCharged() {
        RedisStore unprepared = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .coalescing(10, 1, 10)
                .build();
        stores.add(unprepared);
        RateLimiter limiter = limiter(unprepared, LIMIT);
        redis.pause();
        List<Heard> heard = ask(10, i -> limiter.tryAcquire("a"));
        heard.subList(0, 9).forEach(Heard::cancel);
        assertThat(new Heard(limiter.tryAcquire("a")).error()).hasMessageContaining("10 decisions are waiting");
        redis.resume();
        assertThat(heard.get(9).decision().remaining()).isEqualTo(999);
    }

    // The end

    @Test
    void whoWaitsIsToldWhenTheStoreIsClosed() {
        endsAll(RedisStore::close);
    }

    @Test
    void whoWaitsIsToldWhenTheConnectionBreaks() {
        endsAll(store -> redis.kill());
    }

    private void endsAll(Consumer<RedisStore> end) {
        RedisStore store = store(how -> how);
        RateLimiter limiter = limiter(store, LIMIT);
        redis.pause();
        List<Heard> heard = ask(1_000, i -> limiter.tryAcquire("key-" + i % 20));
        end.accept(store);
        assertThat(heard).allSatisfy(one -> assertThat(one.error()).isInstanceOf(LimitStoreException.class));
    }

    @Test
    void whereEverythingFailsAtOnceWhoTriesAgainAndAgainDoesNotFillTheStack() {
        RedisStore store = store(how -> how.deliverOn(Schedulers.immediate()));
        RateLimiter limiter = limiter(store, LIMIT);
        store.close();
        List<Heard> heard = ask(50, i -> limiter.tryAcquire("a").retry(200));
        assertThat(heard).allSatisfy(one -> assertThat(one.error()).isExactlyInstanceOf(LimitStoreException.class));
    }

    @Test
    void afterABreakTheNextConnectionServesAllWhoAsk() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        redis.pause();
        List<Heard> lost = ask(200, i -> limiter.tryAcquire("a"));
        redis.restart();
        assertThat(lost).allSatisfy(one -> assertThat(one.error()).isInstanceOf(LimitStoreException.class));
        await().atMost(LONG)
                .ignoreExceptionsInstanceOf(LimitStoreException.class)
                .until(() -> limiter.tryAcquire("b").block(LONG).isAllowed());
        assertThat(Flux.range(0, 1_000)
                        .flatMap(i -> limiter.tryAcquire("c"), 1_000)
                        .filter(Decision::isAllowed)
                        .count()
                        .block(LONG))
                .isEqualTo(1_000);
    }

    // What is needed for that

    /** A store that has connected, and whose scripts are loaded; unless said, two of its commands may be under way. */
    private RedisStore store(UnaryOperator<RedisStore.Builder> how) {
        RedisStore store = how.apply(RedisStore.builder(client)
                        .namespace(keyspace.namespace())
                        .coalescing(128, 2, 100_000))
                .coalescing(bounds -> bounds.withPace(0))
                .build();
        stores.add(store);
        store.prepare().block(LONG);
        return store;
    }

    /** A store of which many commands may be under way, as soon as it is time. */
    private RedisStore pacedStore(int together, Duration pace) {
        RedisStore store = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .deliverOn(Schedulers.immediate())
                .coalescing(together, 16, 100_000)
                .coalescing(bounds -> bounds.withPace(pace.toNanos()))
                .build();
        stores.add(store);
        store.prepare().block(LONG);
        return store;
    }

    /** How many scripts are sent on connections that are opened from now on, whether Redis answers or not. */
    private AtomicInteger countSent() {
        AtomicInteger sent = new AtomicInteger();
        client.addListener(new CommandListener() {
            @Override
            public void commandStarted(CommandStartedEvent event) {
                if (event.getCommand().getType() == CommandType.EVALSHA) {
                    sent.incrementAndGet();
                }
            }
        });
        return sent;
    }

    private static RateLimiter limiter(RedisStore store, Limit... limits) {
        RateLimiter.Builder builder = RateLimiter.builder("api").store(new Unprotected(store));
        Stream.of(limits).forEach(builder::limit);
        return builder.build();
    }

    private List<Heard> whileRedisStandsStill(Supplier<List<Heard>> asking) {
        redis.pause();
        try {
            return asking.get();
        } finally {
            redis.resume();
        }
    }

    private static List<Heard> ask(int times, IntFunction<Mono<Decision>> question) {
        List<Heard> heard = new ArrayList<>(times);
        for (int i = 0; i < times; i++) {
            heard.add(new Heard(question.apply(i)));
        }
        return heard;
    }

    private static List<Decision> decisions(List<Heard> heard) {
        return heard.stream().map(Heard::decision).toList();
    }

    /** What somebody hears who has asked. */
    private static final class Heard extends BaseSubscriber<Decision> {

        private final CompletableFuture<Decision> outcome = new CompletableFuture<>();

        Heard(Mono<Decision> question) {
            question.subscribe(this);
        }

        @Override
        protected void hookOnNext(Decision decision) {
            outcome.complete(decision);
        }

        @Override
        protected void hookOnError(Throwable error) {
            outcome.completeExceptionally(error);
        }

        Decision decision() {
            return outcome().block(LONG);
        }

        Throwable error() {
            return outcome()
                    .then(Mono.<Throwable>empty())
                    .onErrorResume(Mono::just)
                    .block(LONG);
        }

        /** Awaited by the one who looks: a timer of the future's own would be called off by a thread that must not block. */
        private Mono<Decision> outcome() {
            return Mono.fromFuture(outcome, true);
        }
    }
}
