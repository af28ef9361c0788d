package io.github.spillgate.store;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Two stores on the same rows, as in two processes, each with 64 callers. Requests and replies take any time. */
class ContentionTest {

    private static final int CALLERS = 64;

    private final Map<String, Stored> rows = new ConcurrentHashMap<>();
    private final Random random = new Random(7);
    private final HeldMapStore first = slow();
    private final HeldMapStore second = slow();
    private final List<RateLimiter> limiters = List.of(limiter(first), limiter(second));

    private HeldMapStore slow() {
        return new HeldMapStore(rows, InstantSource.system())
                .onRead((keys, read) -> late().then(read).delayUntil(reply -> late()))
                .onWrite((changes, write) -> late().then(write).delayUntil(reply -> late()));
    }

    private synchronized Mono<?> late() {
        return Mono.delay(Duration.ofNanos(random.nextInt(1_500_000)));
    }

    private static RateLimiter limiter(HeldMapStore store) {
        return RateLimiter.builder("api").store(new Unprotected(store)).build();
    }

    @ParameterizedTest
    @ValueSource(strings = {"20/5h", "20/5h counter", "20/5h counter aligned", "20/5h burst=20", "20 concurrent"})
    void aHotKeyGetsNoMoreThanItsLimit(String text) {
        Charge hot = Charge.of("hot", Limit.parse(text));
        List<Decision> decisions = decide(1_000, i -> List.of(hot));
        assertThat(decisions).hasSize(1_000);
        assertThat(decisions.stream().filter(Decision::isAllowed)).hasSize(20);
        assertThat(used(hot)).isEqualTo(20);
    }

    @ParameterizedTest
    @ValueSource(strings = {"1/5h", "1/5h counter", "1/5h burst=1", "1 concurrent"})
    void eachNewKeyIsGrantedOnce(String text) {
        Limit limit = Limit.parse(text);
        List<Decision> allowed = decide(2_000, i -> List.of(Charge.of("key-" + i / 4, limit))).stream()
                .filter(Decision::isAllowed)
                .toList();
        assertThat(allowed).hasSize(500);
        assertThat(allowed.stream().map(decision -> decision.limits().get(0).key()))
                .doesNotHaveDuplicates();
    }

    @Test
    void severalLimitsAndKeysInAnyOrderAreChargedTogetherOrNotAtAll() {
        Limit log = Limit.of(40, Duration.ofHours(5));
        Limit counter = Limit.counter(30, Duration.ofHours(5));
        List<List<Charge>> asked = List.of(
                List.of(Charge.of("a", log, counter), Charge.of("b", log, counter)),
                List.of(Charge.of("b", log, counter), Charge.of("c", log, counter)),
                List.of(Charge.of("c", counter, log), Charge.of("a", counter, log)),
                List.of(Charge.of("c", log), Charge.of("b", counter), Charge.of("a", log)));
        List<Decision> allowed = decide(400, i -> asked.get(i % 4)).stream()
                .filter(Decision::isAllowed)
                .toList();
        for (String key : List.of("a", "b", "c")) {
            for (Limit limit : List.of(log, counter)) {
                long taken = allowed.stream()
                        .flatMap(decision -> DecidedClaims.of(decision).stream())
                        .filter(claim ->
                                claim.key().equals(key) && claim.limit().equals(limit))
                        .mapToLong(Claim::permits)
                        .sum();
                assertThat(used(Charge.of(key, limit))).isEqualTo(taken).isLessThanOrEqualTo(limit.permits());
            }
        }
        assertThat(allowed).hasSizeGreaterThanOrEqualTo(30);
    }

    /** Each store changes the row between the read and the first write of the other one. */
    @Test
    void aDecisionThatConflictsIsComputedAgain() {
        Charge hot = Charge.of("hot", Limit.of(50, Duration.ofHours(5)));
        RateLimiter other = limiter(new HeldMapStore(rows, InstantSource.system()));
        AtomicInteger conflicts = new AtomicInteger();
        first.onWrite((changes, write) ->
                conflicts.incrementAndGet() % 2 == 1 ? other.tryAcquire(hot).then(write) : write);
        RateLimiter limiter = limiters.get(0);
        for (int i = 1; i <= 25; i++) {
            Decision decision = requireNonNull(limiter.tryAcquire(hot).block());
            assertThat(decision.isAllowed()).isTrue();
            assertThat(decision.limits().get(0).used()).isEqualTo(2L * i);
        }
        assertThat(limiter.tryAcquire(hot).map(Decision::isAllowed).block()).isFalse();
        assertThat(conflicts).hasValue(50);
    }

    @Test
    void aKeyThatChangesBeforeEachWriteIsAnErrorThatSaysSo() {
        Charge hot = Charge.of("hot", Limit.of(500, Duration.ofHours(5)));
        RateLimiter other = limiter(new HeldMapStore(rows, InstantSource.system()));
        first.onWrite((changes, write) -> other.tryAcquire(hot).then(write));
        assertThat(limiters.get(0).tryAcquire(hot).materialize().block().getThrowable())
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("HeldMapStore", "hot", "each of 100 attempts", "leased()");
        // And none after the last attempt.
        assertThat(first.renumberings).hasValue(12);
        assertThat(used(hot)).isEqualTo(100);
    }

    @Test
    void aDenialGivesNoNewVersions() {
        Charge hot = Charge.of("hot", Limit.of(8, Duration.ofHours(5)));
        RateLimiter other = limiter(new HeldMapStore(rows, InstantSource.system()));
        first.onWrite((changes, write) -> other.tryAcquire(hot).then(write));
        assertThat(limiters.get(0).tryAcquire(hot).map(Decision::isAllowed).block())
                .isFalse();
        assertThat(first.writes).hasSize(8);
        assertThat(first.renumberings).hasValue(0);
    }

    @Test
    void aDecisionThatIsTooLateGivesNoNewVersions() {
        Charge hot = Charge.of("hot", Limit.of(500, Duration.ofHours(5)));
        RateLimiter other = limiter(new HeldMapStore(rows, InstantSource.system()));
        Claim claim = DecidedClaims.of(requireNonNull(other.peek(hot).block())).get(0);
        long deadline = Time.nanos() + Duration.ofSeconds(2).toNanos();
        first.onWrite((changes, write) -> {
            Duration left = Duration.ofNanos(deadline - Time.nanos()).plusMillis(1);
            Mono<?> wait = first.writes.size() < 8 ? Mono.empty() : Mono.delay(left);
            return wait.then(other.tryAcquire(hot)).then(write);
        });
        assertThat(first.take(StoreRequest.take(List.of(claim), deadline))
                        .materialize()
                        .block()
                        .getThrowable())
                .is(kind(Kind.LATE));
        assertThat(first.writes).hasSize(8);
        assertThat(first.renumberings).hasValue(0);
    }

    @Test
    void aProcessThatFindsANewVersionOfTheSameValueWaitsForARoundTrip() {
        Charge hot = Charge.of("hot", Limit.of(500, Duration.ofHours(5)));
        limiters.get(0).tryAcquire(hot).block();
        List<Long> sent = new CopyOnWriteArrayList<>();
        Duration trip = Duration.ofMillis(10);
        first.onWrite((changes, write) -> {
            sent.add(Time.nanos());
            if (sent.size() == 1) {
                rows.replaceAll((key, row) -> new Stored(row.value(), row.version() + 1, row.expiresAt()));
            }
            return Mono.delay(trip).then(write);
        });
        assertThat(limiters.get(0).tryAcquire(hot).map(Decision::isAllowed).block())
                .isTrue();
        assertThat(sent).hasSize(2);
        assertThat(sent.get(1) - sent.get(0)).isGreaterThanOrEqualTo(2 * trip.toNanos());
    }

    /** A batch on many keys, each of which another process has changed once. */
    @Test
    void conflictsOfSeveralKeysDoNotAddUp() {
        Limit limit = Limit.of(500, Duration.ofHours(5));
        RateLimiter other = limiter(new HeldMapStore(rows, InstantSource.system()));
        Sinks.Empty<Void> gate = first.holdReads();
        AtomicBoolean isChanged = new AtomicBoolean();
        first.onWrite((changes, write) -> changes.size() == 20 && isChanged.compareAndSet(false, true)
                ? Flux.range(0, 20)
                        .flatMap(i -> other.tryAcquire(Charge.of("key-" + i, limit)))
                        .then(write)
                : write);
        // Two batches are in flight, so the others wait, and are one batch.
        List<CompletableFuture<Decision>> decisions = IntStream.range(-2, 20)
                .mapToObj(i ->
                        limiters.get(0).tryAcquire(Charge.of("key-" + i, limit)).toFuture())
                .toList();
        gate.tryEmitEmpty();
        assertThat(decisions).allSatisfy(decision -> assertThat(decision).succeedsWithin(Duration.ofSeconds(30)));
        assertThat(isChanged).isTrue();
        assertThat(used(Charge.of("key-7", limit))).isEqualTo(2);
        assertThat(first.renumberings).hasValue(0);
    }

    /** The row is written, or not, and the reply is lost: the caller gets the error, and no permit is granted twice. */
    @Test
    void aLostReplyIsAnErrorAndGrantsNothingTwice() {
        Limit limit = Limit.of(200, Duration.ofHours(5));
        LimitStoreException lost = new LimitStoreException(Kind.UNANSWERED, "no reply");
        AtomicInteger number = new AtomicInteger();
        for (HeldMapStore store : List.of(first, second)) {
            store.onWrite((changes, write) -> switch (number.incrementAndGet() % 8) {
                case 3 -> late().then(write).then(Mono.error(lost));
                case 6 -> late().then(Mono.error(lost));
                default -> late().then(write).delayUntil(reply -> late());
            });
        }
        AtomicInteger errors = new AtomicInteger();
        List<Decision> decisions = decide(2_000, i -> List.of(Charge.of("key-" + i % 5, limit)), error -> {
            assertThat(error).isSameAs(lost);
            errors.incrementAndGet();
        });
        assertThat(errors).hasPositiveValue();
        assertThat(decisions).hasSize(2_000 - errors.get());
        for (int i = 0; i < 5; i++) {
            String key = "key-" + i;
            long allowed = decisions.stream()
                    .filter(decision -> decision.isAllowed()
                            && decision.limits().get(0).key().equals(key))
                    .count();
            assertThat(used(Charge.of(key, limit))).isBetween(allowed, 200L);
        }
    }

    private List<Decision> decide(int number, IntFunction<List<Charge>> charges) {
        return decide(number, charges, error -> assertThat(error).isNull());
    }

    private List<Decision> decide(int number, IntFunction<List<Charge>> charges, Consumer<Throwable> onError) {
        List<Flux<Decision>> all = new ArrayList<>();
        for (int k = 0; k < 2; k++) {
            int store = k;
            all.add(Flux.range(0, number / 2)
                    .map(i -> 2 * i + store)
                    .flatMap(
                            i -> limiters.get(store)
                                    .tryAcquire(charges.apply(i).toArray(Charge[]::new))
                                    .subscribeOn(Schedulers.boundedElastic())
                                    .onErrorResume(error -> {
                                        onError.accept(error);
                                        return Mono.empty();
                                    }),
                            CALLERS));
        }
        return requireNonNull(Flux.merge(all).collectList().block(Duration.ofMinutes(2)));
    }

    private long used(Charge charge) {
        Usage usage = requireNonNull(limiter(new HeldMapStore(rows, InstantSource.system()))
                        .peek(charge)
                        .block())
                .limits()
                .get(0);
        return usage.used();
    }
}
