package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Algorithm;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreRefusedException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Instances of a service on one store, in virtual time: their connections stall, lose replies, are late or fail, and a
 * record of everything that callers were granted. All requests are for one key.
 */
final class FailoverHistory {

    private static final List<Mode> MODES = List.of(Mode.values());
    private static final Duration DEADLINE = Duration.ofMillis(100);

    private final VirtualTime time;
    private final Limit limit;
    private final ControlledStore remote;
    private final List<Instance> instances = new ArrayList<>();
    private final List<Request> requests = new ArrayList<>();
    private long remoteAhead;

    /** How the connection of an instance behaves. */
    enum Mode {
        /** Executes requests and replies at once. */
        UP,

        /** Executes requests at once, and replies later, in any order. */
        LATE,

        /** Executes requests when the stall ends, those after their deadline not at all, and replies then. */
        STALLED,

        /** Executes requests, and never replies. */
        LOSES_REPLIES,

        /** Executes nothing, and reports an error. */
        DOWN,

        /** Executes everything but resets, which it refuses. */
        REFUSES_RESETS
    }

    FailoverHistory(VirtualTime time, Limit limit, int instances) {
        this.time = time;
        this.limit = limit;
        this.remote = new ControlledStore(() -> time.instant().plusMillis(remoteAhead));
        for (int i = 0; i < instances; i++) {
            this.instances.add(new Instance());
        }
        // Their first connection is made.
        time.passMillis(1);
    }

    /** Returns a limit with the permits of a log. A bucket returns none of them during a history. */
    static Limit ofKind(Algorithm algorithm, Limit log) {
        return switch (algorithm) {
            case LOG -> log;
            case COUNTER -> log.counter();
            case BUCKET -> Limit.bucket(1, Duration.ofDays(10), log.permits());
        };
    }

    Instance instance(int index) {
        return instances.get(index);
    }

    /** Does something at random. */
    void step(Random random) {
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

    /** Checks that every grant is charged once, and that no instance exceeded the limit. Nothing must have expired. */
    void check() {
        assertThat(toReconcile()).as("not reconciled").isZero();
        assertThat(sum(instance -> instance.store.state().lost())).as("lost").isZero();
        long unknown = sum(instance -> instance.store.state().unknown());
        // A charge that no caller uses may stay if its refund is lost: that errs towards denying.
        assertThat(used()).as("charged").isBetween(granted(), granted() + unknown + chargedInVain());
        assertThat(granted()).as("granted").isLessThanOrEqualTo(limit.burst() + grantedWithoutCharge());
        for (Instance instance : instances) {
            assertThat(instance.granted()).as("granted by one").isLessThanOrEqualTo(limit.burst());
        }
    }

    /** The next reconciliation is rejected, and its permits are lost. */
    void rejectsAReconciliation() {
        remote.refusesToReconcile(1);
    }

    /** Sets the clock of the store ahead of the others. */
    void setRemoteAhead(Duration ahead) {
        remoteAhead = ahead.toMillis();
    }

    /** Returns the permits in use, by the store. */
    long used() {
        RateLimiter exact = remote.unprotected("api").limit(limit).build();
        return exact.peek("key").block().limits().get(0).used();
    }

    /** Returns the permits that were granted and not refunded. */
    long granted() {
        return grantedSince(0);
    }

    long granted(Source source) {
        return requests.stream()
                .filter(request -> request.source == source)
                .mapToLong(Request::granted)
                .sum();
    }

    /** Returns the number of requests so far. */
    int requests() {
        return requests.size();
    }

    /** Returns the permits that were granted and not refunded, without those of the first requests. */
    long grantedSince(int first) {
        return requests.stream().skip(first).mapToLong(Request::granted).sum();
    }

    private long toReconcile() {
        return sum(instance -> instance.store.state().toReconcile());
    }

    private long sum(ToLongFunction<Instance> what) {
        return instances.stream().mapToLong(what).sum();
    }

    /** Local grants of requests that the store did not charge: nothing can tell other instances of them. */
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

    /** One process. */
    final class Instance {

        private final Link link = new Link();
        private final ResilientStore store = ResilientStore.builder(link)
                .fallback(Fallback.local(100, time))
                .deadline(DEADLINE)
                .cacheDenials(Duration.ZERO)
                .breaker(settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(100)))
                .build();
        private final RateLimiter limiter =
                RateLimiter.builder("api").store(store).limit(limit).build();

        /** Changes how the connection behaves. What has stalled stays so until {@link #endStall()}. */
        void connection(Mode mode) {
            link.mode = mode;
        }

        /** Sets by how much replies are late. */
        void delay(int millis) {
            link.delays = () -> millis;
        }

        /** From now on other requests overtake refunds. */
        void pauseBeforeRefunds(Random random, int mostMillis) {
            link.pauses = () -> random.nextInt(mostMillis + 1);
        }

        /** Executes the requests that have stalled. */
        void endStall() {
            link.up();
        }

        void acquire(int permits) {
            Request request = new Request(this, permits);
            requests.add(request);
            request.subscription = limiter.tryAcquire(Charge.of("key").permits(permits))
                    .contextWrite(context -> context.put(Request.class, request))
                    .subscribe(request::decided);
        }

        /** Tries to take more than the limit, one permit at a time. */
        void acquireAll() {
            for (int i = 0; i < 2 * limit.permits(); i++) {
                acquire(1);
            }
            time.passMillis(10);
        }

        /** Takes permits from the fallback during an outage, which are charged afterwards. */
        void acquireReconciled(int permits) {
            connection(Mode.DOWN);
            acquire(permits);
            connection(Mode.UP);
            time.passMillis(3_000);
        }

        void peek() {
            limiter.peek("key").subscribe();
            time.passMillis(1);
        }

        void reset() {
            limiter.reset("key").subscribe(null, error -> {});
            time.passMillis(1);
        }

        /** Refunds the first request of all. */
        void refundFirst() {
            refund(requests.get(0));
        }

        void refundOne(Random random) {
            List<Request> granted = requests.stream()
                    .filter(request -> request.instance == this && request.granted() > 0)
                    .toList();
            if (!granted.isEmpty()) {
                refund(granted.get(random.nextInt(granted.size())));
            }
        }

        private void refund(Request request) {
            request.refunded = true;
            limiter.refund(request.decision).subscribe(done -> {}, error -> {});
        }

        private void cancelOne(Random random) {
            List<Request> waiting = requests.stream()
                    .filter(request -> request.instance == this && request.decision == null && !request.cancelled)
                    .toList();
            if (!waiting.isEmpty()) {
                Request request = waiting.get(random.nextInt(waiting.size()));
                request.cancelled = true;
                request.subscription.dispose();
            }
        }

        /** Returns the permits that this instance granted and that were not refunded. */
        long granted() {
            return requests.stream()
                    .filter(request -> request.instance == this)
                    .mapToLong(Request::granted)
                    .sum();
        }

        long lost() {
            return store.state().lost();
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

        private final List<Runnable> stalled = new ArrayList<>();
        private Mode mode = Mode.UP;
        private IntSupplier delays = () -> 1;
        private IntSupplier pauses = () -> 0;

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
                        : remote.take(claims).doOnNext(decision -> {
                            if (request != null && decision.isAllowed()) {
                                request.executed = true;
                            }
                        }));
            });
        }

        @Override
        public Mono<StoreDecision> peek(List<Claim> claims) {
            return ask(() -> remote.peek(claims));
        }

        @Override
        public Mono<Void> refund(StoreDecision decision) {
            return later(ask(() -> remote.refund(decision)));
        }

        @Override
        public Mono<Void> refund(List<Claim> claims) {
            return later(ask(() -> remote.refund(claims)));
        }

        @Override
        public Mono<Void> refundCharged(List<ChargedPermits> permits) {
            return later(ask(() -> remote.refundCharged(permits)));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims) {
            return reset(claims, Long.MAX_VALUE);
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long deadline) {
            if (mode == Mode.REFUSES_RESETS) {
                return Mono.error(new LimitStoreRefusedException("no permission", null));
            }
            return ask(() -> Deadlines.now() > deadline
                    ? Mono.error(new LimitStoreDeadlineException("late"))
                    : remote.reset(claims));
        }

        @Override
        public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
            return ask(() -> remote.reconcile(reconciliations));
        }

        /** Sends a request after a pause: the thread was suspended before. */
        private <T> Mono<T> later(Mono<T> request) {
            return Mono.defer(() -> {
                int pause = pauses.getAsInt();
                return pause == 0
                        ? request
                        : request.delaySubscription(Duration.ofMillis(pause), Schedulers.parallel());
            });
        }

        private <T> Mono<T> ask(Supplier<Mono<T>> request) {
            return Mono.defer(() -> switch (mode) {
                case UP, REFUSES_RESETS -> request.get();
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
