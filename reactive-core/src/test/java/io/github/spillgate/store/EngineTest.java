package io.github.spillgate.store;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.NonBlocking;

/** Batches, deadlines, cancellations and bounds, on a store with replies that the test holds. */
class EngineTest {

    private static final Limit LIMIT = Limit.of(1_000, Duration.ofHours(5));
    private static final long NEVER = LimitStore.NO_DEADLINE;

    private final Map<String, Stored> rows = new ConcurrentHashMap<>();
    private final HeldMapStore store = new HeldMapStore(rows, InstantSource.system());
    private final List<Object> results = new CopyOnWriteArrayList<>();

    // Batches

    @Test
    void decisionsThatWaitForAHotKeyAreOneBatch() {
        Sinks.Empty<Void> gate = store.holdReads();
        for (int i = 0; i < 101; i++) {
            request(NEVER, claim("hot"));
        }
        assertThat(store.reads).hasSize(1);
        gate.tryEmitEmpty();
        awaitResults(101);
        assertThat(store.writes).hasSize(2);
        assertThat(used("hot")).isEqualTo(101);
    }

    @Test
    void aBatchHasABoundedNumberOfKeysAndOfDecisions() {
        Sinks.Empty<Void> gate = store.holdReads();
        request(NEVER, claim("first"));
        request(NEVER, claim("second"));
        for (int i = 0; i < 200; i++) {
            request(NEVER, claim("key-" + i / 2));
        }
        for (int i = 0; i < 600; i++) {
            request(NEVER, claim("hot"));
        }
        gate.tryEmitEmpty();
        awaitResults(802);
        // 101 keys need 2 batches; 600 decisions on one key need 3, of which one has other keys, too.
        assertThat(store.writes).hasSize(2 + 4);
        assertThat(store.writes.stream().mapToInt(List::size)).allMatch(keys -> keys <= 64);
    }

    @Test
    void noMoreBatchesAreInFlightThanAllowed() {
        Sinks.Empty<Void> gate = store.holdReads();
        for (int i = 0; i < 5; i++) {
            request(NEVER, claim("key-" + i));
        }
        assertThat(store.reads).hasSize(2);
        gate.tryEmitEmpty();
        awaitResults(5);
        assertThat(store.reads).hasSize(3);
    }

    @Test
    void decisionsThatChangeNothingAreNotWritten() {
        Claim claim = claim("full", Limit.of(1, Duration.ofHours(5)));
        request(NEVER, claim);
        awaitResults(1);
        assertThat(store.writes).hasSize(1);
        request(NEVER, claim);
        awaitResults(2);
        store.take(StoreRequest.peek(List.of(claim))).block();
        assertThat(((StoreDecision) results.get(1)).isAllowed()).isFalse();
        assertThat(store.reads).hasSize(3);
        assertThat(store.writes).hasSize(1);
    }

    @Test
    void aRowThatThisProcessHasWrittenIsNotReadAgain() {
        for (int i = 1; i <= 3; i++) {
            request(NEVER, claim("a"));
            awaitResults(i);
        }
        assertThat(store.reads).hasSize(1);
        assertThat(store.writes).hasSize(3);
        assertThat(used("a")).isEqualTo(3);
    }

    /** What is refunded or reset depends on the order of decisions. */
    @Test
    void aLaterDecisionHasALaterTime() {
        ManualClock clock = new ManualClock();
        HeldMapStore late = new HeldMapStore(rows, clock);
        late.useClock(() -> clock.instant().minusMillis(2).toEpochMilli() * 1_000);
        List<Long> times = new ArrayList<>();
        for (int i = 1; i <= 9; i++) {
            clock.advanceMillis(i % 3 == 0 ? 5 : 1);
            StoreDecision decision = requireNonNull(
                    late.take(StoreRequest.take(List.of(claim("a")))).block());
            times.add(decision.reply().at());
        }
        assertThat(times).isSorted().doesNotHaveDuplicates();
        assertThat(late.reads.size()).isBetween(2, 8);
    }

    /** Its owner counts the hold time from the request, and the bound of the store's clock may be earlier. */
    @Test
    void aHoldIsTakenAtATimeAfterItsRequest() {
        ManualClock clock = new ManualClock();
        HeldMapStore late = new HeldMapStore(rows, clock);
        late.useClock(() -> clock.instant().minusSeconds(1).toEpochMilli() * 1_000);
        for (int i = 1; i <= 3; i++) {
            Claim hold = claim("a", Limit.concurrent(5)).withHoldId(UUID.randomUUID());
            StoreDecision decision =
                    requireNonNull(late.take(StoreRequest.take(List.of(hold))).block());
            assertThat(decision.usages().get(0).used()).isEqualTo(i);
            assertThat(decision.reply().at()).isEqualTo(clock.instant().toEpochMilli());
        }
    }

    /** The row that it remembers is full, and another process has reset it. */
    @Test
    void aDenialIsDecidedOnARowThatWasRead() {
        Claim claim = claim("full", Limit.of(1, Duration.ofHours(5)));
        request(NEVER, claim);
        awaitResults(1);
        new MapStore(rows, InstantSource.system()).reset(List.of(claim), NEVER).block();
        request(NEVER, claim);
        awaitResults(2);
        assertThat(((StoreDecision) results.get(1)).isAllowed()).isTrue();
        StoreDecision usage =
                requireNonNull(store.take(StoreRequest.peek(List.of(claim))).block());
        assertThat(usage.usages().get(0).used()).isEqualTo(1);
    }

    @Test
    void aRowThatAnotherProcessHasWrittenSinceIsNotOverwritten() {
        request(NEVER, claim("a"));
        awaitResults(1);
        new MapStore(rows, InstantSource.system())
                .take(StoreRequest.take(List.of(claim("a"))))
                .block();
        request(NEVER, claim("a"), claim("b"));
        awaitResults(2);
        assertThat(used("a")).isEqualTo(3);
        assertThat(used("b")).isEqualTo(1);
    }

    /** Another process may have deleted it. */
    @Test
    void aRowThatHasExpiredIsReadAgain() {
        ManualClock clock = new ManualClock();
        HeldMapStore timed = new HeldMapStore(rows, clock);
        Claim claim = claim("short", Limit.of(5, Duration.ofSeconds(1)));
        timed.take(StoreRequest.take(List.of(claim))).block();
        clock.advanceMillis(60_000);
        timed.take(StoreRequest.take(List.of(claim))).block();
        assertThat(timed.reads).hasSize(2);
    }

    /** Otherwise one of its keys could be in flight whenever the other one is free. */
    @Test
    void aDecisionOnTwoBusyKeysIsNotOvertakenForever() {
        List<Sinks.Empty<Void>> gates = new ArrayList<>();
        store.onWrite((changes, write) -> {
            Sinks.Empty<Void> gate = Sinks.empty();
            gates.add(gate);
            return write.delayUntil(rows -> gate.asMono());
        });
        request(NEVER, claim("a"));
        request(NEVER, claim("b"));
        request(NEVER, claim("a"), claim("b"));
        request(NEVER, claim("a"));
        request(NEVER, claim("b"));
        gates.get(0).tryEmitEmpty();
        awaitResults(1);
        assertThat(store.writes).hasSize(2);
        gates.get(1).tryEmitEmpty();
        awaitResults(2);
        await().until(() -> gates.size() == 3);
        gates.get(2).tryEmitEmpty();
        awaitResults(5);
        assertThat(store.writes.get(2))
                .singleElement()
                .satisfies(change -> assertThat(change.writes())
                        .extracting(Write::key)
                        .containsExactlyInAnyOrder(key("a"), key("b")));
    }

    @Test
    void aResultIsEmittedOnAThreadOnWhichTheCallerMayGoOn() {
        AtomicInteger wrong = new AtomicInteger();
        StoreRequest request = StoreRequest.take(List.of(claim("a", Limit.of(5, Duration.ofHours(5)))));
        Mono<StoreDecision> chain = Flux.range(0, 5_000)
                .concatMap(i -> store.take(request).doOnNext(decision -> {
                    if (!(Thread.currentThread() instanceof NonBlocking)) {
                        wrong.incrementAndGet();
                    }
                }))
                .last();
        assertThat(requireNonNull(chain.block()).isAllowed()).isFalse();
        assertThat(wrong).hasValue(0);
    }

    /** Another process holds a lock on a row. One batch is in flight at a time. */
    @Test
    void aLockedRowDelaysNoDecisionOnAnother() {
        HeldMapStore one = new HeldMapStore(rows, InstantSource.system(), 1, 100);
        String locked = key("locked");
        AtomicBoolean isLocked = new AtomicBoolean(true);
        MapStore map = new MapStore(rows, InstantSource.system());
        one.onWrite((changes, write) -> {
            Map<Boolean, List<Change>> byLock = changes.stream()
                    .collect(Collectors.partitioningBy(change ->
                            isLocked.get() && change.writes().get(0).key().equals(locked)));
            List<String> keys = byLock.get(true).isEmpty() ? List.of() : List.of(locked);
            return map.write(byLock.get(false)).then(map.read(keys));
        });
        request(one, NEVER, claim("locked"));
        for (int i = 0; i < 20; i++) {
            request(one, NEVER, claim("locked"));
            request(one, NEVER, claim("a"));
            awaitResults(i + 1);
        }
        isLocked.set(false);
        awaitResults(41);
        assertThat(results).hasOnlyElementsOfType(StoreDecision.class);
        assertThat(used("locked")).isEqualTo(21);
        assertThat(used("a")).isEqualTo(20);
    }

    @Test
    void aRowThatStaysLockedIsAnErrorThatSaysSo() {
        String locked = key("locked");
        store.onWrite((changes, write) -> new MapStore(rows, InstantSource.system()).read(List.of(locked)));
        request(NEVER, claim("locked"));
        awaitResults(1);
        assertThat(results.get(0))
                .asInstanceOf(InstanceOfAssertFactories.THROWABLE)
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("locked it before each of 100 attempts", locked);
        assertThat(rows).isEmpty();
    }

    @Test
    void aSubscriberThatThrowsDoesNotKeepOthersFromTheirResults() {
        Sinks.Empty<Void> gate = store.holdReads();
        request(NEVER, claim("hot"));
        store.take(StoreRequest.take(List.of(claim("hot")))).subscribe(new CoreSubscriber<StoreDecision>() {
            @Override
            public void onSubscribe(Subscription subscription) {
                subscription.request(1);
            }

            @Override
            public void onNext(StoreDecision decision) {
                throw new IllegalStateException("as a test wants");
            }

            @Override
            public void onError(Throwable error) {}

            @Override
            public void onComplete() {}
        });
        request(NEVER, claim("hot"));
        gate.tryEmitEmpty();
        awaitResults(2);
        assertThat(used("hot")).isEqualTo(3);
    }

    @Test
    void aCounterIsNotLeased() {
        Claim claim = claim("a", Limit.counter(1_000, Duration.ofHours(5)));
        assertThat(store.take(StoreRequest.lease(claim, 2, NEVER)).block()).isNull();
        assertThat(store.writes).isEmpty();
    }

    // Deadlines

    @Test
    void aDecisionWhoseDeadlinePassesBeforeTheWriteTakesNothing() {
        try (VirtualTime clock = new VirtualTime()) {
            HeldMapStore timed = new HeldMapStore(rows, clock);
            Sinks.Empty<Void> gate = timed.holdWrites();
            request(timed, inMillis(100), claim("a"));
            request(timed, inMillis(100), claim("b"));
            assertThat(timed.writes).hasSize(2);
            clock.passMillis(101);
            gate.tryEmitEmpty();
            assertThat(results).hasSize(2).are(kind(Kind.LATE));
            assertThat(rows).isEmpty();
        }
    }

    @Test
    void aDecisionWhoseDeadlinePassesBeforeTheReadTakesNothing() {
        try (VirtualTime clock = new VirtualTime()) {
            HeldMapStore timed = new HeldMapStore(rows, clock);
            Sinks.Empty<Void> gate = timed.holdReads();
            request(timed, inMillis(100), claim("a"));
            request(timed, inMillis(100), claim("a"));
            request(timed, NEVER, claim("b"));
            clock.passMillis(101);
            gate.tryEmitEmpty();
            assertThat(results).filteredOn(kind(Kind.LATE)).hasSize(2);
            assertThat(rows).containsOnlyKeys(key("b"));
            assertThat(timed.reads).hasSize(2);
        }
    }

    /** The change is refused for the deadline of one of them, and then made without it. */
    @Test
    void aLateDecisionDoesNotPreventTheOthersOnItsKey() {
        try (VirtualTime clock = new VirtualTime()) {
            HeldMapStore timed = new HeldMapStore(rows, clock);
            Sinks.Empty<Void> reads = timed.holdReads();
            request(timed, NEVER, claim("a"));
            request(timed, inMillis(100), claim("a"));
            request(timed, inMillis(200), claim("a"));
            reads.tryEmitEmpty();
            assertThat(results).hasSize(3);
            Sinks.Empty<Void> writes = timed.holdWrites();
            reads = timed.holdReads();
            request(timed, NEVER, claim("b"));
            request(timed, NEVER, claim("c"));
            request(timed, inMillis(100), claim("a"));
            request(timed, inMillis(200), claim("a"));
            timed.onRead((keys, read) -> read);
            reads.tryEmitEmpty();
            clock.passMillis(101);
            writes.tryEmitEmpty();
            assertThat(results).hasSize(7);
            assertThat(results).filteredOn(kind(Kind.LATE)).hasSize(1);
            assertThat(used(clock, "a")).isEqualTo(4);
        }
    }

    /** The store's clock was read before the reply arrived, so the time that the reply took is not added to it. */
    @Test
    void theDeadlineOnTheStoresClockIsNotAfterTheDeadlineOfTheCaller() {
        try (VirtualTime clock = new VirtualTime()) {
            HeldMapStore timed = new HeldMapStore(rows, clock);
            Sinks.Empty<Void> gate = timed.holdReads();
            long deadlineOnStoresClock = (clock.millis() + 100) * 1_000;
            request(timed, inMillis(100), claim("a"));
            clock.passMillis(30);
            gate.tryEmitEmpty();
            long sent = timed.writes.get(0).get(0).deadline();
            assertThat(sent).isEqualTo(deadlineOnStoresClock - 30_000);
        }
    }

    // Cancellations

    @Test
    void aDecisionThatIsCancelledBeforeItIsSentIsNotSent() {
        HeldMapStore single = new HeldMapStore(rows, InstantSource.system(), 1, 10);
        Sinks.Empty<Void> gate = single.holdReads();
        request(single, NEVER, claim("a"));
        Disposable cancelled = request(single, NEVER, claim("b"));
        request(single, NEVER, claim("c"));
        cancelled.dispose();
        gate.tryEmitEmpty();
        awaitResults(2);
        assertThat(single.reads).containsExactly(List.of(key("a")), List.of(key("c")));
    }

    @Test
    void aDecisionThatIsCancelledBeforeTheReplyTakesNothing() {
        Sinks.Empty<Void> gate = store.holdReads();
        Disposable cancelled = request(NEVER, claim("a"));
        cancelled.dispose();
        gate.tryEmitEmpty();
        request(NEVER, claim("a"));
        awaitResults(1);
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void aHoldThatIsTakenAfterACancellationIsReleased() {
        Sinks.Empty<Void> gate = store.holdWrites();
        Claim hold = claim("a", Limit.concurrent(5)).withHoldId(UUID.randomUUID());
        Disposable cancelled = request(NEVER, hold);
        await().until(() -> store.writes.size() == 1);
        cancelled.dispose();
        gate.tryEmitEmpty();
        await().until(() -> store.writes.size() == 2);
        await().until(() -> store.take(StoreRequest.peek(List.of(hold)))
                        .block()
                        .usages()
                        .get(0)
                        .used()
                == 0);
    }

    // Bounds and errors

    @Test
    void aDecisionMoreThanMayWaitFails() {
        HeldMapStore small = new HeldMapStore(rows, InstantSource.system(), 1, 3);
        Sinks.Empty<Void> gate = small.holdReads();
        for (int i = 0; i < 5; i++) {
            request(small, NEVER, claim("a"));
        }
        awaitResults(1);
        assertThat((Throwable) results.get(0))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("HeldMapStore", "has 3 waiting decisions", "constructor");
        gate.tryEmitEmpty();
        awaitResults(5);
        request(small, NEVER, claim("a"));
        awaitResults(6);
        assertThat(used("a")).isEqualTo(5);
    }

    @Test
    void anErrorOfTheStoreIsThatOfItsBatchOnly() {
        IllegalStateException broken = new IllegalStateException("broken");
        store.onRead((keys, read) -> keys.contains(key("a")) ? Mono.error(broken) : read);
        request(NEVER, claim("a"));
        request(NEVER, claim("b"));
        awaitResults(2);
        assertThat(results).filteredOn(Throwable.class::isInstance).containsExactly(broken);
        store.onRead((keys, read) -> {
            throw broken;
        });
        request(NEVER, claim("c"));
        awaitResults(3);
        assertThat(results.get(2)).isSameAs(broken);
        store.onRead((keys, read) -> read);
        request(NEVER, claim("a"));
        awaitResults(4);
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void aReplyWithoutARowIsAnErrorThatNamesIt() {
        store.onRead((keys, read) -> read.map(reply -> new CompareAndWriteStore.Rows(reply.micros(), List.of())));
        request(NEVER, claim("a"));
        awaitResults(1);
        assertThat((Throwable) results.get(0))
                .isInstanceOf(LimitStoreException.class)
                .hasMessageContainingAll("HeldMapStore", key("a"), "new Row(key, new byte[0], 0)");
    }

    @Test
    void theBoundsAreChecked() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new HeldMapStore(rows, InstantSource.system(), 0, 3))
                .withMessageContainingAll("inFlight 0", "1 to 1,000", "2, 10_000");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new HeldMapStore(rows, InstantSource.system(), 2, 1_000_001))
                .withMessageContaining("1000001");
    }

    // Helpers

    private static Claim claim(String key) {
        return claim(key, LIMIT);
    }

    private static Claim claim(String key, Limit limit) {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Unprotected(LocalStore.bounded(16)))
                .build();
        return DecidedClaims.of(
                        requireNonNull(limiter.peek(Charge.of(key, limit)).block()))
                .get(0);
    }

    private static String key(String key) {
        return claim(key).identity();
    }

    private Disposable request(long deadline, Claim... claims) {
        return request(store, deadline, claims);
    }

    private Disposable request(LimitStore of, long deadline, Claim... claims) {
        return of.take(StoreRequest.take(Arrays.asList(claims), deadline)).subscribe(results::add, results::add);
    }

    private void awaitResults(int number) {
        await().until(() -> results.size() >= number);
    }

    private static long inMillis(long millis) {
        return Time.nanos() + Duration.ofMillis(millis).toNanos();
    }

    private long used(String key) {
        return used(InstantSource.system(), key);
    }

    private long used(InstantSource clock, String key) {
        return new MapStore(rows, clock)
                .take(StoreRequest.peek(List.of(claim(key))))
                .block()
                .usages()
                .get(0)
                .used();
    }
}
