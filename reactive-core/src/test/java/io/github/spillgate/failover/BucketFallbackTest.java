package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/**
 * Token buckets during an outage. A second bucket is charged with everything that is granted, wherever it is: its level
 * is the truth, to which the limit and the reconciled bucket are compared.
 */
class BucketFallbackTest {

    private static final int HISTORIES = 40;

    private final ManualClock clock = new ManualClock();

    /** The share of each instance is even, and before the outage each of them has learned of the use by all. */
    @ParameterizedTest
    @CsvSource({"1, 0.5", "1, 1", "1, 3", "3, 1", "3, 3"})
    void theLimitHoldsDuringAnOutageAndAfterIt(int instances, double demand) {
        long granted = 0;
        long asWithoutOutage = 0;
        for (int seed = 0; seed < HISTORIES; seed++) {
            History history = new History(new Random(seed), instances, demand);
            history.run();
            granted += history.grantedInOutage;
            asWithoutOutage += history.grantedWithoutOutage;
        }
        assertThat((double) granted / asWithoutOutage).isBetween(instances == 1 ? 0.9 : 0.75, 1.001);
    }

    @Test
    void aBucketReturnsPermitsDuringAnOutage() {
        Limit limit = Limit.perSecond(10).burst(160);
        Instance instance = new Instance(1);
        Claim claim = claim(limit, 160);
        StoreModel primary = new StoreModel(clock);
        assertThat(instance.fallback.confirm(now(primary.take(StoreRequest.take(List.of(claim))))))
                .isTrue();
        for (int second = 0; second <= 16; second++) {
            // Read at steps of a 16th.
            assertThat(instance.peek(claim.withPermits(1)).remaining()).isEqualTo(10L * second);
            clock.advanceMillis(1_000);
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {1, 0.25})
    void aDenialNamesTheTimeAtWhichItFits(double share) {
        Limit limit = Limit.perSecond(10).burst(40);
        Instance instance = new Instance(share);
        Claim claim = claim(limit, 10);
        instance.fallback.confirm(now(new StoreModel(clock).take(StoreRequest.take(List.of(claim.withPermits(20))))));
        clock.advanceMillis(700);
        while (instance.takes(claim.withPermits(1))) {
            clock.advanceMillis(3);
        }
        Claim some = claim.withPermits(3);
        Duration wait = instance.peek(some).retryAfter().orElseThrow();
        clock.advanceMillis(wait.toMillis() - 2);
        assertThat(instance.peek(some).isAllowed()).isFalse();
        clock.advanceMillis(2);
        assertThat(instance.peek(some).isAllowed()).isTrue();
    }

    /** What is refunded during the outage is not reconciled, and can be granted again. */
    @Test
    void aGrantIsRefundedAsIfItHadNotBeenTaken() {
        Limit limit = Limit.perSecond(1).burst(10);
        Instance instance = new Instance(1);
        Claim five = claim(limit, 5);
        StoreDecision first = now(instance.fallback.take(StoreRequest.take(List.of(five))));
        clock.advanceMillis(4_000);
        now(instance.fallback.take(StoreRequest.take(List.of(five))));
        LocalFallbackFixture.refundGrants(instance.fallback, first);
        // The other five are in use: the first ones had returned by four.
        assertThat(instance.peek(five).remaining()).isEqualTo(5);
        StoreModel primary = new StoreModel(clock);
        instance.reconcile(primary);
        assertThat(used(primary, five)).isEqualTo(5);
    }

    /** The grants return from 10 s on, when the confirmed permits have. A refund of these does not change that. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRefundOfWhatHasReturnedLetsNoGrantsReturnEarlier(boolean hasDecision) {
        Limit limit = Limit.perSecond(1).burst(10);
        Instance instance = new Instance(1);
        Claim one = claim(limit, 1);
        StoreModel primary = new StoreModel(clock);
        instance.fallback.confirm(now(primary.take(StoreRequest.take(List.of(one.withPermits(9))))));
        StoreDecision last = now(primary.take(StoreRequest.take(List.of(one))));
        instance.fallback.confirm(last);
        clock.advanceMillis(5_000);
        assertThat(instance.takes(one.withPermits(5))).isTrue();
        clock.advanceMillis(5_000);
        assertThat(instance.takes(one.withPermits(5))).isTrue();
        clock.advanceMillis(2_000);
        assertThat(instance.peek(one).remaining()).isEqualTo(2);
        if (hasDecision) {
            LocalFallbackFixture.refundConfirmed(instance.fallback, last);
        } else {
            instance.fallback.refundOldest(one);
        }
        assertThat(instance.peek(one).remaining()).isBetween(2L, 3L);
    }

    /** Redis forgets a bucket once it is empty, and how full it was when the first permits were granted here. */
    @ParameterizedTest
    @ValueSource(ints = {1_000, 1_010, 1_050, 1_090, 1_200, 1_245, 1_255, 1_500})
    void grantsAreReconciledInFullIfRedisHasForgottenTheBucket(int outage) {
        Instance instance = new Instance(1);
        Claim claim = claim(Limit.perSecond(50).burst(50), 1);
        instance.fallback.confirm(now(new StoreModel(clock).take(StoreRequest.take(List.of(claim.withPermits(50))))));
        for (int passed = 0; passed < outage; passed += 5) {
            clock.advanceMillis(5);
            while (instance.takes(claim)) {
                // until the bucket is full
            }
        }
        StoreModel forgetful = new StoreModel(clock);
        instance.reconcile(forgetful);
        // The level is rounded up.
        assertThat(used(forgetful, claim)).isBetween(50L, 51L);
    }

    @Test
    void lessIsLostThanWasGrantedIfPermitsHaveReturned() {
        Instance instance = new Instance(1);
        Claim claim = claim(Limit.perSecond(10).burst(10), 10);
        now(instance.fallback.take(StoreRequest.take(List.of(claim))));
        clock.advanceMillis(60_000);
        assertThat(instance.way.handOver(10, any -> false)).isEmpty();
        assertThat(instance.fallback.state().toReconcile()).isZero();
    }

    private static long used(LimitStore store, Claim claim) {
        return now(store.take(StoreRequest.peek(List.of(claim))))
                .usages()
                .get(0)
                .used();
    }

    private static StoreDecision now(Mono<? extends Decision> decision) {
        return (StoreDecision) requireNonNull(decision.block());
    }

    private static Claim claim(Limit limit, long permits) {
        return ClaimForTests.of("key", limit).withPermits(permits);
    }

    private final class Instance {

        private final LocalFallback fallback = Fallback.local(16, clock);
        private final ManualWay way = new ManualWay();

        Instance(double share) {
            fallback.share(share);
            fallback.bindTo(new Unprotected(LocalStore.bounded(16)), way);
        }

        boolean takes(Claim claim) {
            return now(fallback.take(StoreRequest.take(List.of(claim)))).isAllowed();
        }

        StoreDecision peek(Claim claim) {
            return now(fallback.take(StoreRequest.peek(List.of(claim))));
        }

        void reconcile(LimitStore primary) {
            List<Reconciliation> batch = way.handOver(10, claim -> false);
            if (!batch.isEmpty()) {
                List<Corrected> results = primary.correct(batch).block();
                IntStream.range(0, batch.size()).forEach(i -> way.charged(batch.get(i), results.get(i)));
            }
        }
    }

    /** Random requests to some instances before, during and after an outage. */
    private final class History {

        private final Random random;
        private final double demand;
        private final Limit limit;
        private final Claim claim;
        private final StoreModel primary = new StoreModel(clock);
        private final StoreModel undisturbed = new StoreModel(clock);
        private final List<Instance> instances = new ArrayList<>();

        private long truth;
        private long truthAt = clock.millis();
        private long grantedInOutage;
        private long grantedWithoutOutage;

        History(Random random, int number, double demand) {
            this.random = random;
            this.demand = demand;
            this.limit = Limit.bucket(
                    1 + random.nextInt(50),
                    Duration.ofMillis(50L << random.nextInt(4)),
                    4L * number + random.nextInt(60));
            this.claim = claim(limit, 1);
            for (int i = 0; i < number; i++) {
                instances.add(new Instance(1.0 / number));
            }
        }

        void run() {
            long reach = LimitKind.reach(limit);
            requests((double) reach * (0.2 + 2 * random.nextDouble()), false);
            for (Instance instance : instances) {
                instance.fallback.confirm(now(primary.take(StoreRequest.peek(List.of(claim)))));
            }
            requests((double) reach * (0.1 + 3 * random.nextDouble()), true);
            long before = level();
            for (Instance instance : instances) {
                instance.reconcile(primary);
            }
            long used = used(primary, claim);
            // All grants of a slot count from its last one on, and what is left of older ones is rounded up. Of the
            // youngest quarter, the grants of the second and the next instances count in full.
            long least = new BucketState(before, 0).used(limit);
            long most = least + limit.capacity() / 16 + 2 + (instances.size() == 1 ? 0 : limit.capacity() / 4 + 1);
            assertThat(used).as("%s", limit).isBetween(least, most);
            requests((double) reach, false);
        }

        private void requests(double millis, boolean isOutage) {
            double between = (double) limit.window().toMillis() / (demand * limit.permits());
            double next = (double) clock.millis();
            long end = clock.millis() + (long) millis;
            while (next < end) {
                next += between * 2 * random.nextDouble();
                clock.advanceMillis(Math.max(0, (long) next - clock.millis()));
                request(instances.get(random.nextInt(instances.size())), isOutage);
            }
        }

        private void request(Instance instance, boolean isOutage) {
            List<Claim> claims = List.of(claim.withPermits(1 + random.nextInt(3) / 2));
            boolean isAllowed = now(undisturbed.take(StoreRequest.take(claims))).isAllowed();
            StoreDecision decision = now(
                    isOutage
                            ? instance.fallback.take(StoreRequest.take(claims))
                            : primary.take(StoreRequest.take(claims)));
            if (!isOutage) {
                assertThat(instance.fallback.confirm(decision)).isTrue();
            }
            if (decision.isAllowed()) {
                truth = level() + claims.get(0).permits() * limit.window().toMillis();
                assertThat(truth)
                        .as("%s, during an outage: %s", limit, isOutage)
                        .isLessThanOrEqualTo(limit.capacity() * limit.window().toMillis());
            }
            if (isOutage) {
                grantedInOutage += decision.isAllowed() ? claims.get(0).permits() : 0;
                grantedWithoutOutage += isAllowed ? claims.get(0).permits() : 0;
            }
        }

        private long level() {
            truth = Math.max(0, truth - (clock.millis() - truthAt) * limit.permits());
            truthAt = clock.millis();
            return truth;
        }
    }
}
