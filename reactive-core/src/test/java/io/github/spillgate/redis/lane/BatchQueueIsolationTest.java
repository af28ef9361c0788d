package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.StoredLog;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.StoreForTests;
import io.lettuce.core.ScriptOutputType;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.scheduler.Schedulers;

/**
 * Requests that share a command do not share their errors, contexts and cancellations; and how requests end with the
 * store.
 */
class BatchQueueIsolationTest extends BatchQueueFixture {

    // Neighbours

    @Test
    void aForeignValueFailsOnlyTheDecisionsOnIt() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        limiter.tryAcquire("foreign").block(LONG);
        String key = keyspace.onlyKey();
        keyspace.commands().del(key);
        keyspace.commands().rpush(key, "a foreign value");
        assertThatOnlyDecisionsOnItFail(limiter, Charge.of("foreign"), key);
        assertThat(keyspace.commands().lrange(key, 0, -1)).containsExactly("a foreign value");
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000/1h", "1000/1h counting-denied"})
    void aTornValueFailsOnlyTheDecisionsOnIt(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(store(how -> how), limit);
        String key = tear(limiter, "torn");
        String before = keyspace.commands()
                .eval("return redis.sha1hex(redis.call('GET', KEYS[1]))", ScriptOutputType.VALUE, key);
        assertThatOnlyDecisionsOnItFail(limiter, Charge.of("torn", 997), key);
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

    /** Asserts that ten of twenty decisions fail, because of a value, and that nothing else was charged with them. */
    private void assertThatOnlyDecisionsOnItFail(RateLimiter limiter, Charge unreadable, String key) {
        List<Heard> heard = whileRedisIsPaused(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("ours-" + i)),
                        ask(5, i -> limiter.tryAcquire(unreadable)),
                        ask(5, i -> limiter.tryAcquire(Charge.of("ours-" + i), unreadable)),
                        ask(5, i -> limiter.tryAcquire("ours-" + i)))
                .flatMap(List::stream)
                .toList());
        assertThat(decisions(heard.subList(0, 5)))
                .extracting(Decision::remaining)
                .containsOnly(999L);
        for (Heard one : heard.subList(5, 15)) {
            assertThat(one.error()).is(kind(Kind.FOREIGN_VALUE)).hasMessageContaining(key);
        }
        assertThat(decisions(heard.subList(15, 20)))
                .extracting(Decision::remaining)
                .as("nothing was charged together with the others")
                .containsOnly(998L);
    }

    /** A denied request that counts changes an entry where it lies; the torn value is found out only after that. */
    @Test
    void aCountedDenialIsChargedOnceBesideACorruptLog() {
        Limit counting = Limit.parse("1000/1h counting-denied");
        RedisStore store = store(how -> how);
        RateLimiter limiter = limiter(store, counting);
        RateLimiter plain = limiter(store, LIMIT.named("plain"));
        String torn = tear(plain, "torn");
        limiter.tryAcquire(Charge.of("ours", 900)).block(LONG);
        long then = limiter.peek("ours").block(LONG).at().toEpochMilli();
        await().until(() -> limiter.peek("ours").block(LONG).at().toEpochMilli() > then);
        limiter.tryAcquire(Charge.of("ours", 100)).block(LONG);
        List<Heard> heard = whileRedisIsPaused(() -> Stream.of(
                        ask(2, i -> limiter.peek("other")),
                        ask(1, i -> limiter.tryAcquire(Charge.of("ours", 10))),
                        ask(1, i -> plain.tryAcquire(Charge.of("torn", 997))))
                .flatMap(List::stream)
                .toList());
        assertThat(heard.get(2).decision().isAllowed()).isFalse();
        assertThat(heard.get(2).decision().limits().get(0).used()).isEqualTo(1_000);
        assertThat(heard.get(3).error()).is(kind(Kind.FOREIGN_VALUE));
        keyspace.commands().del(torn);
        StoredLog.checkAll(keyspace);
    }

    /** Truncates the log of a client behind its first entry, and returns its key. */
    private String tear(RateLimiter limiter, String client) {
        String key = "";
        do {
            limiter.tryAcquire(client).block(LONG);
            key = keyspace.keys().stream()
                    .filter(name -> name.endsWith("{" + client + "}"))
                    .findAny()
                    .orElseThrow();
        } while (keyspace.commands().strlen(key) < 44 + 9 * 6
                || StoredLog.parse(keyspace.bytes(key)).last() < 5);
        keyspace.commands()
                .eval(
                        "redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, 44 + 9), 'PX', 3600000)"
                                + " return 'OK'",
                        ScriptOutputType.STATUS,
                        key);
        return key;
    }

    @Test
    void denialsAndPeeksSucceedWithoutWriteAccess() {
        RateLimiter limiter =
                limiter(store(how -> how), Limit.perHour(5), Limit.perDay(5).counter());
        limiter.tryAcquire(Charge.of("full", 5)).block(LONG);
        limiter.tryAcquire(Charge.of("half", 2)).block(LONG);
        keyspace.commands().configSet("maxmemory", "1");
        List<Heard> heard = whileRedisIsPaused(() -> Stream.of(
                        ask(5, i -> limiter.tryAcquire("half")),
                        ask(5, i -> limiter.tryAcquire("full")),
                        ask(5, i -> limiter.tryAcquire(Charge.of("half", 4))),
                        ask(5, i -> limiter.peek("half")),
                        ask(5, i -> limiter.tryAcquire(Charge.of("half", 0))))
                .flatMap(List::stream)
                .toList());
        for (Heard one : heard.subList(0, 5)) {
            assertThat(one.error()).is(kind(Kind.UNAVAILABLE)).hasMessageContaining("OOM");
        }
        assertThat(decisions(heard.subList(5, 15))).hasSize(10).noneMatch(Decision::isAllowed);
        assertThat(decisions(heard.subList(15, 25))).hasSize(10).allMatch(Decision::isAllowed);
        assertThat(decisions(heard.subList(10, 25)))
                .extracting(Decision::remaining)
                .containsOnly(3L);
        keyspace.commands().configSet("maxmemory", "0");
        assertThat(limiter.tryAcquire("half").block(LONG).remaining()).isEqualTo(2);
    }

    /** A store that wraps this one may pass wrong claims. */
    @Test
    void aRequestThatCannotBeEncodedFailsOnlyItsCaller() {
        RedisStore store = store(how -> how);
        RateLimiter limiter = limiter(store, LIMIT.counter());
        RateLimiter asksTooMuch = RateLimiter.builder("api")
                .store(StoreForTests.taking(
                        store,
                        claims -> store.take(StoreRequest.take(List.of(
                                claims.get(0).withPermits(claims.get(0).limit().permits() + 1))))))
                .limit(LIMIT.counter())
                .build();
        RateLimiter asksNothing = RateLimiter.builder("api")
                .store(StoreForTests.taking(store, claims -> store.take(StoreRequest.take(List.of()))))
                .limit(LIMIT)
                .build();
        List<Heard> heard = whileRedisIsPaused(() -> Stream.of(
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
    void aSubscriberThatThrowsOnNextDoesNotAffectOthers() {
        Queue<Throwable> dropped = new ConcurrentLinkedQueue<>();
        List<Heard> heard = askBesideSubscribersThatThrow(dropped::add, redis::resume);
        assertThat(decisions(heard)).hasSize(20).allMatch(Decision::isAllowed);
        await().until(() -> dropped.size() == 20);
    }

    @Test
    void aSubscriberThatThrowsInTheDropHookDoesNotAffectOthers() {
        List<Heard> heard = askBesideSubscribersThatThrow(
                error -> {
                    throw new IllegalStateException("thrown where it is dropped");
                },
                redis::resume);
        assertThat(decisions(heard)).hasSize(20).allMatch(Decision::isAllowed);
    }

    @Test
    void aSubscriberThatThrowsOnErrorDoesNotAffectOthers() {
        Queue<Throwable> dropped = new ConcurrentLinkedQueue<>();
        List<Heard> heard = askBesideSubscribersThatThrow(dropped::add, redis::kill);
        assertThat(heard).allSatisfy(one -> assertThat(one.error()).isInstanceOf(LimitStoreException.class));
        await().until(() -> dropped.stream()
                        .filter(thrown -> "thrown in onError".equals(thrown.getMessage()))
                        .count()
                == 20);
    }

    /** Requests 20 decisions, each beside one of a subscriber that throws, while Redis is paused. */
    private List<Heard> askBesideSubscribersThatThrow(Consumer<Throwable> onErrorDropped, Runnable end) {
        Hooks.onErrorDropped(onErrorDropped);
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        redis.pause();
        List<Heard> heard = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            limiter.tryAcquire("a").subscribe(new Throwing());
            heard.addAll(ask(1, n -> limiter.tryAcquire("a")));
        }
        end.run();
        return heard;
    }

    @AfterEach
    void resetHooks() {
        Hooks.resetOnErrorDropped();
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
    void decisionsAreAnsweredAlthoughTheSchedulerIsShutDown() {
        var scheduler = Schedulers.newSingle("users-own");
        RateLimiter limiter = limiter(store(how -> how.deliverOn(scheduler)), LIMIT);
        redis.pause();
        List<Heard> heard = ask(300, i -> limiter.tryAcquire("key-" + i % 50));
        scheduler.dispose();
        redis.resume();
        assertThat(decisions(heard)).hasSize(300);
    }

    // Cancellations before the answer

    @Test
    void cancelledDecisionsAreNotSent() {
        RateLimiter limiter = limiter(store(how -> how), LIMIT);
        long before = keyspace.callsOf("evalsha");
        List<Heard> heard = whileRedisIsPaused(() -> {
            List<Heard> first = askOneByOne(2, i -> limiter.tryAcquire("a"));
            ask(500, i -> limiter.tryAcquire("a")).forEach(Heard::cancel);
            return first;
        });
        assertThat(decisions(heard)).hasSize(2);
        assertThat(limiter.tryAcquire("a").block(LONG).remaining()).isEqualTo(997);
        assertThat(keyspace.callsOf("evalsha") - before).isEqualTo(3);
    }

    @Test
    void aDecisionThatIsCancelledWhileConnectingIsNotCharged() {
        RedisStore unprepared = RedisStore.builder(client)
                .namespace(keyspace.namespace())
                .batching(10, 1, 10)
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
    void waitingDecisionsFailWhenTheStoreIsClosed() {
        endsAll(RedisStore::close);
    }

    @Test
    void waitingDecisionsFailWhenTheConnectionBreaks() {
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
    void immediateFailuresOfRetriesDoNotOverflowTheStack() {
        RedisStore store = store(how -> how.deliverOn(Schedulers.immediate()));
        RateLimiter limiter = limiter(store, LIMIT);
        store.close();
        List<Heard> heard = ask(50, i -> limiter.tryAcquire("a").retry(200));
        assertThat(heard).allSatisfy(one -> assertThat(one.error()).isExactlyInstanceOf(LimitStoreException.class));
    }

    @Test
    void afterABreakTheNextConnectionServesAllDecisions() {
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
}
