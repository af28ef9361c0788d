package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Algorithm;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.ToLongFunction;
import reactor.core.Disposable;

/**
 * Instances of a service on one store, in virtual time: their connections stall, lose replies, are late or fail, and a
 * record of everything that callers were granted. All requests are for one key.
 */
final class FailoverHistory {

    private static final Duration DEADLINE = Duration.ofMillis(100);

    private final VirtualTime time;
    private final Limit limit;
    private final ControlledStore remote;
    private final List<Instance> instances = new ArrayList<>();
    private final List<Request> requests = new ArrayList<>();
    private long remoteAhead;

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
            case CONCURRENT -> throw new IllegalArgumentException("holds have a test of their own");
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

        private final FaultyLink link = new FaultyLink(remote, new Charges());
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
            link.mode(mode);
        }

        /** Sets by how much replies are late. */
        void delay(int millis) {
            link.delay(millis);
        }

        /** From now on other requests overtake refunds. */
        void pauseBeforeRefunds(Random random, int mostMillis) {
            link.pauseBeforeChanges(random, mostMillis);
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

    /** Notes which requests the store has charged. */
    private static final class Charges implements FaultyLink.Observer {

        @Override
        public void executed(Call call, StoreDecision reply) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (call.kind() == Call.Kind.TAKE && request != null && reply.isAllowed()) {
                request.executed = true;
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
}
