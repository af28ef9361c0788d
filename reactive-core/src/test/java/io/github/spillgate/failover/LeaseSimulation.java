package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Exchanges;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import reactor.core.publisher.Mono;

/**
 * Several instances that lease from one store, in virtual time: requests arrive at random, and each trip takes a while.
 * A single exact limiter gets the same requests, for comparison.
 */
final class LeaseSimulation implements AutoCloseable {

    private static final Duration ONE_WAY = Duration.ofNanos(500_000);

    private final VirtualTime time = new VirtualTime();
    private final Random random;
    private final List<ResilientStore> stores;
    private final List<RateLimiter> limiters;
    private final RateLimiter exact;
    private final GrantedPermits granted;
    private final List<Grant> late = new ArrayList<>();
    private final List<DelayedSync> models = new ArrayList<>();
    private int highestCost = 1;
    private long nanosPassed;
    private long trips;
    private long refunds;

    /** What came of the requests. */
    record Result(
            long requests,
            long granted,
            long grantedExactly,
            long fromLeases,
            long trips,
            long refunds,
            long mostInWindow) {

        double part() {
            return (double) granted / grantedExactly;
        }

        double tripsPerRequest() {
            return (double) trips / requests;
        }
    }

    private record Grant(long at, long permits) {}

    LeaseSimulation(Limit limit, int instances, long seed) {
        this.random = new Random(seed);
        this.granted = new GrantedPermits(limit);
        LocalStore shared = LocalStore.bounded(200_000, time);
        stores = IntStream.range(0, instances)
                .mapToObj(i ->
                        ResilientStore.builder(new Remote(shared, instances)).build())
                .toList();
        limiters = stores.stream()
                .map(store ->
                        RateLimiter.builder("api").store(store).limit(limit).build())
                .toList();
        exact = RateLimiter.builder("exact")
                .store(new Unprotected(LocalStore.bounded(200_000, time)))
                .limit(limit)
                .build();
        time.pass(Fleet.INTERVAL.plusSeconds(1));
    }

    /**
     * Runs for a time.
     *
     * @param perSecond the requests of all instances
     * @param parts the part of each instance
     * @param keys returns the key of a request for a random number
     */
    Result run(Duration length, double perSecond, double[] parts, IntFunction<String> keys) {
        long[] sums = send(length, perSecond, parts, keys);
        time.passMillis(1_000);
        addAllBut(0);
        return new Result(sums[0], sums[1], sums[3], sums[2], trips, refunds, granted.most());
    }

    /** Lets requests ask for several permits, with the same probability for each number up to this one. */
    void costUpTo(int permits) {
        highestCost = permits;
    }

    /** Gives the same requests, each for the same instance, to a model of another limiter. */
    void compareWith(DelayedSync model) {
        models.add(model);
    }

    /** Runs for a time, so that leases are as usual when the next run begins. */
    void warmUp(Duration length, double perSecond, double[] parts, IntFunction<String> keys) {
        send(length, perSecond, parts, keys);
    }

    /** Returns the requests, the permits granted, the requests granted from leases, and the permits granted exactly. */
    private long[] send(Duration length, double perSecond, double[] parts, IntFunction<String> keys) {
        long end = time.instant().plus(length).toEpochMilli();
        long[] sums = new long[4];
        double due = 0;
        trips = 0;
        refunds = 0;
        while (time.millis() < end) {
            double pause = -Math.log(1 - random.nextDouble()) * 1e9 / perSecond;
            due += pause;
            long nanos = (long) due;
            due -= nanos;
            nanosPassed += nanos;
            if (nanos > 0) {
                time.pass(Duration.ofNanos(nanos));
            }
            sums[0]++;
            String key = keys.apply(random.nextInt(Integer.MAX_VALUE));
            int cost = highestCost == 1 ? 1 : 1 + random.nextInt(highestCost);
            int instance = instance(parts);
            models.forEach(model -> model.ask(instance, nanosPassed));
            limiters.get(instance).tryAcquire(Charge.of(key, cost)).subscribe(decision -> {
                if (decision.isAllowed()) {
                    sums[1] += cost;
                    granted(new Grant(decision.at().toEpochMilli(), cost));
                }
                if (decision.source() == Source.LEASE) {
                    sums[2]++;
                }
            });
            exact.tryAcquire(Charge.of(key, cost)).subscribe(decision -> sums[3] += decision.isAllowed() ? cost : 0);
        }
        return sums;
    }

    /** Replies are late by the time of a trip, so the newest are kept apart. */
    private void granted(Grant grant) {
        late.add(grant);
        if (late.size() > 1_000) {
            addAllBut(500);
        }
    }

    /** Adds all but the newest, of which later replies may be older. */
    private void addAllBut(int newest) {
        late.sort(Comparator.comparingLong(Grant::at));
        List<Grant> old = late.subList(0, late.size() - newest);
        old.forEach(grant -> granted.take(grant.at, grant.permits));
        old.clear();
    }

    private int instance(double[] parts) {
        double at = random.nextDouble();
        for (int i = 0; i < parts.length - 1; i++) {
            at -= parts[i];
            if (at < 0) {
                return i;
            }
        }
        return parts.length - 1;
    }

    @Override
    public void close() {
        stores.forEach(ResilientStore::close);
        time.close();
    }

    /** A store at a distance. */
    private final class Remote extends WithoutDeadline {

        private final int instances;

        Remote(LocalStore store, int instances) {
            super(store);
            this.instances = instances;
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return Mono.delay(ONE_WAY)
                    .then(Mono.defer(() -> {
                        trips++;
                        return super.take(claims);
                    }))
                    .delayElement(ONE_WAY);
        }

        @Override
        protected Mono<StoreDecision> lease(StoreRequest request) {
            return Mono.delay(ONE_WAY)
                    .then(Mono.defer(() -> super.lease(request)))
                    .delayElement(ONE_WAY);
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return Mono.delay(ONE_WAY).then(Mono.defer(() -> {
                refunds++;
                return super.correct(corrections);
            }));
        }

        @Override
        public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
            return Mono.fromCallable(() -> Exchanges.counted(request, instances));
        }
    }
}
