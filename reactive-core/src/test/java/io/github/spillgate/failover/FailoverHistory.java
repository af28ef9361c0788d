package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FaultyLink.Call;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.ToLongFunction;
import reactor.core.Disposable;

/**
 * Instances of a service on one store, in virtual time: their connections stall, lose replies, are late or fail, and a
 * record of everything that callers were granted. All requests are for one key. All that is random follows from one
 * seed.
 */
final class FailoverHistory {

    private final VirtualTime time;
    private final Limit limit;
    private final Random random;
    private final LossyStore remote;
    private final List<Instance> instances = new ArrayList<>();
    private final List<Request> requests = new ArrayList<>();
    private long remoteAhead;
    private Limit present;

    FailoverHistory(VirtualTime time, Limit limit, int instances) {
        this(time, limit, instances, new Random(0));
    }

    FailoverHistory(VirtualTime time, Limit limit, int instances, Random random) {
        this.time = time;
        this.limit = limit;
        this.present = limit;
        this.random = random;
        this.remote = new LossyStore(() -> time.instant().plusMillis(remoteAhead));
        for (int i = 0; i < instances; i++) {
            this.instances.add(new Instance(new Charges()));
        }
        // Their first connection is made.
        time.passMillis(1);
    }

    /** The kinds of rate limits. Concurrency limits have tests of their own. */
    enum Rate {
        LOG,
        COUNTER,
        BUCKET,
        QUOTA;

        /** Returns a limit with the permits of a log. A bucket returns none of them during a history. */
        Limit like(Limit log) {
            return switch (this) {
                case LOG -> log;
                case COUNTER -> log.counter();
                case QUOTA -> Limit.yearly(log.permits());
                case BUCKET -> Limit.bucket(1, Duration.ofDays(10), log.permits());
            };
        }
    }

    Instance instance(int index) {
        return instances.get(index);
    }

    List<Instance> instances() {
        return instances;
    }

    /** Repeats a step for so many milliseconds, with random pauses. */
    void run(int millis, int longestPause, Runnable step) {
        for (int passed = 0; passed < millis; ) {
            step.run();
            int pause = random.nextInt(longestPause);
            time.passMillis(pause);
            passed += pause;
        }
    }

    /** Does something at random. */
    void step() {
        Instance instance = instances.get(random.nextInt(instances.size()));
        switch (random.nextInt(8)) {
            case 0 -> instance.link.change(random);
            case 1 -> instance.reconnect();
            case 2 -> instance.refundOne();
            case 3 -> instance.cancelOne();
            default -> instance.acquireSome();
        }
    }

    /** All connections work again, and everything is reconciled. */
    void end() {
        SimulatedInstance.reconcile(time, instances, 90, () -> {});
        // Late replies are accepted for a minute.
        time.passMillis(61_000);
        instances.forEach(one -> one.store.closeLater().subscribe());
        time.passMillis(2_000);
    }

    /** Checks that every grant is charged once, and that no instance exceeded the limit. Nothing must have expired. */
    void check() {
        assertThat(sum(instance -> instance.store.state().lost())).as("lost").isZero();
        long unknown = sum(instance -> instance.store.state().unknown());
        // A charge that no caller uses may stay if its refund is lost: that errs towards denying.
        long leasedInVain = sum(instance -> instance.charges.leasedInVain);
        assertThat(used()).as("charged").isBetween(granted(), granted() + unknown + chargedInVain() + leasedInVain);
        assertThat(sum(instance -> instance.charges.restorations))
                .as("restored")
                .isZero();
        assertThat(sum(Instance::reserved))
                .as("granted")
                .isLessThanOrEqualTo(limit.capacity() + grantedWithoutCharge());
        for (Instance instance : instances) {
            assertThat(instance.reserved()).as("granted by one").isLessThanOrEqualTo(limit.capacity());
        }
    }

    /** From now on, all instances decide under another limit, with the same count. */
    void replaceLimit(Limit other) {
        present = other;
        instances.forEach(one -> one.limiter.replaceLimits(List.of(other)));
    }

    /**
     * Checks each grant of a single instance: with all permits that were in use at its time, it fits into the limit
     * under which it was requested.
     */
    void checkEachGrant() {
        assertThat(requests).allMatch(request -> request.inUse <= request.most);
    }

    /** The next reconciliation is rejected, and its permits are lost. */
    void rejectsAReconciliation() {
        remote.rejectsAReconciliation();
    }

    /** Sets the clock of the store ahead of the others. */
    void setRemoteAhead(Duration ahead) {
        remoteAhead = ahead.toMillis();
    }

    /** The store loses all data. */
    void loseAll() {
        remote.loseAll();
    }

    /** Returns the permits in use, by the store. */
    long used() {
        return Unprotected.limiter(remote, limit)
                .peek("key")
                .block()
                .limits()
                .get(0)
                .used();
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
                        .sum()
                + requests.stream().mapToLong(Request::settledInVain).sum();
    }

    /** One process, and what its callers were granted. */
    final class Instance extends SimulatedInstance {

        private final Charges charges;

        private Instance(Charges charges) {
            super(remote, charges, new LocalFallback(100, time), limit);
            this.charges = charges;
        }

        /** From now on other requests overtake refunds and restorations. */
        void pauseBeforeChanges(int mostMillis) {
            link.pauseBeforeChanges(random, mostMillis);
        }

        void acquireSome() {
            int together = 1 + random.nextInt(12);
            for (int i = 0; i < together; i++) {
                acquire(1 + random.nextInt((int) Math.min(3, limit.capacity())));
            }
        }

        void acquire(int permits) {
            Request request = new Request(this, permits, present.capacity());
            requests.add(request);
            request.subscription = limiter.tryAcquire(Charge.of("key", permits))
                    .contextWrite(context -> context.put(Request.class, request))
                    .subscribe(decision -> {
                        request.decided(decision);
                        request.inUse = decision.isAllowed() ? granted() : 0;
                    });
        }

        /** Takes permits one at a time, at once. */
        void acquireSingly(long permits) {
            for (int i = 0; i < permits; i++) {
                acquire(1);
            }
        }

        /** Tries to take more than the limit, one permit at a time. */
        void acquireAll() {
            acquireSingly(2 * present.permits());
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
            refund(0);
        }

        /**
         * Refunds a request.
         *
         * @param index its number among all requests, from 0
         */
        void refund(int index) {
            refund(requests.get(index));
        }

        void refundOne() {
            List<Request> granted = unsettledGrants();
            if (!granted.isEmpty()) {
                refund(granted.get(random.nextInt(granted.size())));
            }
        }

        void refund(Request request) {
            request.refunded = true;
            limiter.refund(request.decision).subscribe(done -> {}, error -> {});
        }

        /** Settles the cost of one request, which may be lower or higher than its estimate. */
        void settleOne() {
            List<Request> granted = unsettledGrants();
            if (!granted.isEmpty()) {
                Request request = granted.get(random.nextInt(granted.size()));
                settle(request, random.nextInt(2 * (int) request.permits + 1));
            }
        }

        /** Settles all that this instance has granted itself. */
        void settleLocal(long actual) {
            unsettledGrants().stream()
                    .filter(request -> request.source == Source.LOCAL)
                    .forEach(request -> settle(request, actual));
        }

        private void settle(Request request, long actual) {
            request.actual = actual;
            request.settled = true;
            limiter.settle(request.decision, actual).subscribe();
        }

        private List<Request> unsettledGrants() {
            return grants().stream().filter(request -> !request.settled).toList();
        }

        void cancelOne() {
            List<Request> waiting = requests.stream()
                    .filter(request -> request.instance == this && request.decision == null && !request.cancelled)
                    .toList();
            if (!waiting.isEmpty()) {
                Request request = waiting.get(random.nextInt(waiting.size()));
                request.cancelled = true;
                request.subscription.dispose();
            }
        }

        /** Returns what this instance granted and was not refunded. */
        List<Request> grants() {
            return requests.stream()
                    .filter(request -> request.instance == this && request.granted() > 0)
                    .toList();
        }

        long granted() {
            return grants().stream().mapToLong(Request::granted).sum();
        }

        /** Returns the granted permits without additional costs, which may exceed the limit. */
        private long reserved() {
            return grants().stream()
                    .mapToLong(request -> Math.min(request.permits, request.granted()))
                    .sum();
        }

        long lost() {
            return store.state().lost();
        }
    }

    /** Notes which requests the store has charged. */
    private static final class Charges implements FaultyLink.Observer {

        private int restorations;

        /** Leased permits that may stay charged, because the reply or the refund was lost. */
        private long leasedInVain;

        @Override
        public void executed(Call call, StoreDecision reply) {
            Request request = call.context().getOrDefault(Request.class, null);
            if (call.action() == Call.Action.TAKE && request != null && reply.isAllowed()) {
                request.executed = true;
            }
            leasedInVain += leased(call, reply);
            restorations += (int) call.reconciliations().stream()
                    .filter(one -> !one.lost().isEmpty())
                    .count();
        }

        @Override
        public void replied(Call call, StoreDecision reply) {
            leasedInVain -= leased(call, reply);
        }

        @Override
        public void refundLost(Refund refund) {
            StoreUsage usage = refund.usage();
            boolean isLeased = usage.limit().isLeased()
                    && usage.chargedAt() > usage.reply().at();
            leasedInVain += isLeased ? refund.claim().permits() : 0;
        }

        private static long leased(Call call, StoreDecision reply) {
            return call.action() == Call.Action.LEASE ? reply.claims().get(0).permits() : 0;
        }
    }

    /** One request and its outcome. */
    static final class Request {

        private final Instance instance;
        private final long permits;
        private final long most;
        private Disposable subscription;
        private Decision decision;
        private Source source;
        private boolean executed;
        private boolean cancelled;
        private boolean refunded;
        private boolean settled;
        private long actual;

        /** The permits of its instance that were in use after it was granted. */
        private long inUse;

        Request(Instance instance, long permits, long most) {
            this.instance = instance;
            this.permits = permits;
            this.most = most;
        }

        private void decided(Decision decision) {
            this.decision = decision;
            this.source = decision.source();
        }

        long at() {
            return decision.at().toEpochMilli();
        }

        long granted() {
            return decision != null && decision.isAllowed() && !refunded ? settled ? actual : permits : 0;
        }

        /** Permits that stay charged if the refund of a settlement is lost. */
        private long settledInVain() {
            return settled ? Math.max(0, permits - actual) : 0;
        }

        @Override
        public String toString() {
            return source + " " + permits + " at " + at();
        }
    }
}
