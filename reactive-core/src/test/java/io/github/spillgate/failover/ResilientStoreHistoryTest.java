package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Algorithm;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Random histories of several instances on one store, in virtual time: connections stall, lose replies, are late or
 * fail, callers cancel, and decisions are refunded. Everything that callers were granted is added up.
 *
 * <p>The limit's window is longer than a history, so that nothing expires and the sums are exact.
 */
class ResilientStoreHistoryTest {

    private static final int HISTORIES = 150;
    private static final int MANY_HISTORIES = 5_000;
    private static final int MILLIS = 1_000;
    private static final int MOST_PERMITS = 60;
    private static final List<Mode> MODES = List.of(Mode.values());
    private static final Duration DEADLINE = Duration.ofMillis(100);

    private final VirtualTime time = new VirtualTime();

    @AfterEach
    void backToRealTime() {
        time.close();
    }

    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void everyGrantIsChargedAndNoneTwice(Algorithm algorithm) {
        run(algorithm, HISTORIES);
    }

    @Proof
    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void everyGrantIsChargedAndNoneTwiceInManyHistories(Algorithm algorithm) {
        run(algorithm, MANY_HISTORIES);
    }

    /** A refund of the late charges would let the other instance in: 150 of 100. */
    @Test
    void aLateChargeIsNotRefundedWhileItsLocalGrantIsInUse() {
        History history = new History(Limit.perHour(100), new Random(1), 2);
        Instance first = history.instances.get(0);
        Instance second = history.instances.get(1);
        IntStream.range(0, 50).forEach(i -> first.acquire(1));
        first.link.mode = Mode.LATE;
        first.link.delays = () -> 200;
        IntStream.range(0, 50).forEach(i -> first.acquire(1));
        time.passMillis(150);
        assertThat(history.granted(Source.LOCAL)).isEqualTo(50);
        time.passMillis(100);
        first.link.mode = Mode.UP;
        IntStream.range(0, 50).forEach(i -> second.acquire(1));
        history.end();
        assertThat(history.granted()).isEqualTo(100);
        assertThat(history.used()).isEqualTo(100);
    }

    /** Before its charge, the refund would remove the permits of the other instance, and let it take two more. */
    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void aGrantInFlightIsRefundedOnceItIsCharged(Algorithm algorithm) {
        Limit log = Limit.perHour(2);
        History history = new History(algorithm == Algorithm.LOG ? log : log.counter(), new Random(1), 2);
        Instance first = history.instances.get(0);
        Instance second = history.instances.get(1);
        first.link.mode = Mode.DOWN;
        first.acquire(2);
        // The grant is handed over, and cannot be charged.
        time.passMillis(1_100);
        second.acquire(2);
        first.refundOne(new Random(1));
        time.passMillis(1_000);
        first.link.mode = Mode.UP;
        time.passMillis(10);
        second.acquire(2);
        history.end();
        second.acquire(1);
        assertThat(history.granted()).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    /** A refund that waits in the store while a count is reset would remove permits that were taken after the reset. */
    @ParameterizedTest
    @CsvSource({"LOG, 0", "LOG, 1", "COUNTER, 0", "COUNTER, 1"})
    void aRefundThatArrivesAfterAResetRemovesNoLaterPermits(Algorithm algorithm, int resets) {
        Limit log = Limit.perHour(2);
        History history = new History(algorithm == Algorithm.LOG ? log : log.counter(), new Random(1), 2);
        Instance first = history.instances.get(0);
        Instance second = history.instances.get(1);
        first.acquireReconciled(2);
        first.link.mode = Mode.STALLED;
        first.refundOne(new Random(1));
        first.link.mode = Mode.UP;
        history.instances.get(resets).limiter.reset("key").subscribe();
        time.passMillis(1);
        second.acquire(2);
        time.passMillis(1);
        assertThat(history.granted(second)).isEqualTo(2);
        first.link.up();
        second.acquire(1);
        time.passMillis(200);
        assertThat(history.granted(second)).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    @Test
    void aRefundThatArrivesAfterItsPermitsExpiredRemovesNoLaterPermits() {
        History history = new History(Limit.of(2, Duration.ofSeconds(10)), new Random(1), 2);
        Instance first = history.instances.get(0);
        Instance second = history.instances.get(1);
        first.acquireReconciled(2);
        first.link.mode = Mode.STALLED;
        first.refundOne(new Random(1));
        time.passMillis(10_000);
        second.acquire(2);
        time.passMillis(1);
        first.link.up();
        second.acquire(1);
        time.passMillis(200);
        assertThat(history.granted(second)).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    private void run(Algorithm algorithm, int histories) {
        for (int i = 0; i < histories; i++) {
            long seed = new Random().nextLong();
            try {
                runOne(algorithm, new Random(seed));
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError("seed " + seed, e);
            }
        }
    }

    private void runOne(Algorithm algorithm, Random random) {
        Limit log = Limit.perHour(1 + random.nextInt(MOST_PERMITS));
        Limit limit = algorithm == Algorithm.LOG ? log : log.counter();
        History history = new History(limit, random, 1 + random.nextInt(3));
        for (int passed = 0; passed < MILLIS; ) {
            history.step();
            int pause = random.nextInt(40);
            time.passMillis(pause);
            passed += pause;
        }
        history.end();
        history.check();
    }

    /** How a connection behaves. */
    private enum Mode {
        /** Executes requests and replies at once. */
        UP,

        /** Executes requests at once, and replies later, in any order. */
        LATE,

        /** Executes requests when the stall ends, those after their deadline not at all, and replies then. */
        STALLED,

        /** Executes requests, and never replies. */
        LOSES_REPLIES,

        /** Executes nothing, and reports an error. */
        DOWN
    }

    private final class History {

        private final Limit limit;
        private final Random random;
        private final ControlledStore remote = new ControlledStore(time);
        private final List<Instance> instances = new ArrayList<>();
        private final List<Request> requests = new ArrayList<>();

        History(Limit limit, Random random, int number) {
            this.limit = limit;
            this.random = random;
            for (int i = 0; i < number; i++) {
                instances.add(new Instance(this));
            }
            // Their first connection is made.
            time.passMillis(1);
        }

        void step() {
            Instance instance = instances.get(random.nextInt(instances.size()));
            switch (random.nextInt(8)) {
                case 0 -> instance.link.change(random);
                case 1 -> instance.link.up();
                case 2 -> instance.refundOne(random);
                case 3 -> instance.cancelOne(random);
                default -> {
                    int together = 1 + random.nextInt(12);
                    for (int i = 0; i < together; i++) {
                        instance.acquire(1 + random.nextInt((int) Math.min(3, limit.permits())));
                    }
                }
            }
        }

        /** All connections work again, and everything is reconciled. */
        void end() {
            instances.forEach(instance -> instance.link.up());
            for (int second = 0; second < 90 && toReconcile() > 0; second++) {
                time.passMillis(1_000);
            }
            // Late replies are accepted for a minute.
            time.passMillis(61_000);
            instances.forEach(instance -> instance.store.closeLater().subscribe());
            time.passMillis(2_000);
        }

        void check() {
            assertThat(toReconcile()).as("not reconciled").isZero();
            assertThat(sum(instance -> instance.store.state().lost()))
                    .as("lost")
                    .isZero();
            long unknown = sum(instance -> instance.store.state().unknown());
            // A charge that no caller uses may stay if its refund is lost: that errs towards denying.
            assertThat(used()).as("charged").isBetween(granted(), granted() + unknown + chargedInVain());
            assertThat(granted()).as("granted").isLessThanOrEqualTo(limit.permits() + grantedWithoutCharge());
            for (Instance instance : instances) {
                assertThat(granted(instance)).as("granted by one").isLessThanOrEqualTo(limit.permits());
            }
        }

        private long toReconcile() {
            return sum(instance -> instance.store.state().toReconcile());
        }

        private long sum(ToLongFunction<Instance> what) {
            return instances.stream().mapToLong(what).sum();
        }

        long used() {
            RateLimiter exact = remote.unprotected("api").limit(limit).build();
            return exact.peek("key").block().limits().get(0).used();
        }

        /** Returns the permits that were granted and not refunded. */
        long granted() {
            return requests.stream().mapToLong(Request::granted).sum();
        }

        long granted(Source source) {
            return requests.stream()
                    .filter(request -> request.source == source)
                    .mapToLong(Request::granted)
                    .sum();
        }

        private long granted(Instance instance) {
            return requests.stream()
                    .filter(request -> request.instance == instance)
                    .mapToLong(Request::granted)
                    .sum();
        }

        /** Local grants of requests that the remote store did not charge: nothing can tell other instances of them. */
        private long grantedWithoutCharge() {
            return requests.stream()
                    .filter(request -> request.source == Source.LOCAL && !request.executed)
                    .mapToLong(Request::granted)
                    .sum();
        }

        /** Charges that no caller uses; their refunds may be lost. */
        private long chargedInVain() {
            return requests.stream()
                    .filter(request -> request.granted() == 0 && (request.executed || request.refunded))
                    .mapToLong(request -> request.permits)
                    .sum();
        }
    }

    /** One process. */
    private final class Instance {

        private final History history;
        private final Link link;
        private final ResilientStore store;
        private final RateLimiter limiter;

        Instance(History history) {
            this.history = history;
            this.link = new Link(history);
            this.store = ResilientStore.builder(link)
                    .fallback(Fallback.local(100, time))
                    .deadline(DEADLINE)
                    .cacheDenials(Duration.ZERO)
                    .breaker(settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(100)))
                    .build();
            this.limiter =
                    RateLimiter.builder("api").store(store).limit(history.limit).build();
        }

        void acquire(int permits) {
            Request request = new Request(this, permits);
            history.requests.add(request);
            request.subscription = limiter.tryAcquire(Charge.of("key").permits(permits))
                    .contextWrite(context -> context.put(Request.class, request))
                    .subscribe(request::decided);
        }

        /** Takes permits from the fallback, which are charged a little later. */
        void acquireReconciled(int permits) {
            link.mode = Mode.DOWN;
            acquire(permits);
            link.mode = Mode.UP;
            time.passMillis(3_000);
            assertThat(history.used()).isEqualTo(permits);
        }

        void refundOne(Random random) {
            List<Request> granted = history.requests.stream()
                    .filter(request -> request.instance == this && request.granted() > 0)
                    .toList();
            if (!granted.isEmpty()) {
                Request request = granted.get(random.nextInt(granted.size()));
                request.refunded = true;
                limiter.refund(request.decision).subscribe(done -> {}, error -> {});
            }
        }

        void cancelOne(Random random) {
            List<Request> waiting = history.requests.stream()
                    .filter(request -> request.instance == this && request.decision == null && !request.cancelled)
                    .toList();
            if (!waiting.isEmpty()) {
                Request request = waiting.get(random.nextInt(waiting.size()));
                request.cancelled = true;
                request.subscription.dispose();
            }
        }
    }

    /** One request and its outcome. */
    private static final class Request {

        private final Instance instance;
        private final long permits;
        private Disposable subscription;
        private Decision decision;
        private Source source;
        private boolean executed;
        private boolean cancelled;
        private boolean refunded;

        Request(Instance instance, long permits) {
            this.instance = instance;
            this.permits = permits;
        }

        void decided(Decision decision) {
            this.decision = decision;
            this.source = decision.source();
        }

        long granted() {
            return decision != null && decision.isAllowed() && !refunded ? permits : 0;
        }
    }

    /** The connection of one instance to the store that all of them share. */
    private final class Link implements LimitStore {

        private final History history;
        private final List<Runnable> stalled = new ArrayList<>();
        private Mode mode = Mode.UP;
        private IntSupplier delays = () -> 1;

        Link(History history) {
            this.history = history;
        }

        void change(Random random) {
            up();
            mode = MODES.get(random.nextInt(MODES.size()));
            delays = () -> 1 + random.nextInt(250);
        }

        void up() {
            mode = Mode.UP;
            List<Runnable> now = List.copyOf(stalled);
            stalled.clear();
            now.forEach(Runnable::run);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return take(claims, Long.MAX_VALUE);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims, long deadline) {
            return Mono.deferContextual(context -> {
                Request request = context.getOrDefault(Request.class, null);
                return ask(() -> Deadlines.now() > deadline
                        ? Mono.error(new LimitStoreDeadlineException("late"))
                        : history.remote.take(claims).doOnNext(decision -> {
                            if (request != null && decision.isAllowed()) {
                                request.executed = true;
                            }
                        }));
            });
        }

        @Override
        public Mono<StoreDecision> peek(List<Claim> claims) {
            return ask(() -> history.remote.peek(claims));
        }

        @Override
        public Mono<Void> refund(StoreDecision decision) {
            return ask(() -> history.remote.refund(decision));
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return ask(() -> history.remote.refund(claims));
        }

        @Override
        public Mono<Void> refundCharged(List<ChargedPermits> permits) {
            return ask(() -> history.remote.refundCharged(permits));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return ask(() -> history.remote.reset(claims));
        }

        @Override
        public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
            return ask(() -> history.remote.reconcile(reconciliations));
        }

        private <T> Mono<T> ask(Supplier<Mono<T>> request) {
            return Mono.defer(() -> switch (mode) {
                case UP -> request.get();
                case LATE ->
                    executed(request).delaySubscription(Duration.ofMillis(delays.getAsInt()), Schedulers.parallel());
                case STALLED ->
                    Mono.<T>create(sink ->
                            stalled.add(() -> request.get().subscribe(sink::success, sink::error, sink::success)));
                case LOSES_REPLIES -> {
                    executed(request);
                    yield Mono.error(new LimitStoreUnansweredException("the reply was lost", null));
                }
                case DOWN -> Mono.error(new LimitStoreUnavailableException("the connection is down", null));
            });
        }

        private static <T> Mono<T> executed(Supplier<Mono<T>> request) {
            Mono<T> reply = request.get().cache();
            reply.subscribe(done -> {}, error -> {});
            return reply;
        }

        @Override
        public String toString() {
            return "Link";
        }
    }
}
