package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;

/** One process of a service, in virtual time. Its connection to the store that all of them share can fail. */
class SimulatedInstance {

    static final Duration DEADLINE = Duration.ofMillis(100);

    private static final Long SEED = Long.getLong("spillgate.seed");

    final FaultyLink link;
    final ResilientStore store;
    final RateLimiter limiter;

    SimulatedInstance(LimitStore remote, FaultyLink.Observer observer, LocalFallback fallback, Limit limit) {
        link = new FaultyLink(remote, observer);
        store = ResilientStore.builder(link)
                .fallback(fallback)
                .deadline(DEADLINE)
                .cacheDenials(Duration.ZERO)
                .breaker(settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(100)))
                .build();
        limiter = RateLimiter.builder("api").store(store).limit(limit).debt(10).build();
    }

    /** Changes how the connection behaves. What has stalled stays so until {@link #reconnect()}. */
    void connection(FaultyLink.Mode mode) {
        link.mode(mode);
    }

    /** Sets by how much replies are late. */
    void delay(int millis) {
        link.delay(millis);
    }

    /** Connects again, and executes what has stalled. */
    void reconnect() {
        link.up();
    }

    /** Restores all connections, and lets time pass until everything is reconciled. */
    static void reconcile(
            VirtualTime time, List<? extends SimulatedInstance> instances, int mostSeconds, Runnable eachSecond) {
        instances.forEach(SimulatedInstance::reconnect);
        for (int second = 0; second < mostSeconds && toReconcile(instances) > 0; second++) {
            time.passMillis(1_000);
            eachSecond.run();
        }
        assertThat(toReconcile(instances)).as("not reconciled").isZero();
    }

    static void close(VirtualTime time, List<? extends SimulatedInstance> instances) {
        instances.forEach(one -> one.store.closeLater().subscribe());
        // Late replies are accepted for a minute.
        time.passMillis(62_000);
    }

    static long toReconcile(List<? extends SimulatedInstance> instances) {
        return instances.stream()
                .mapToLong(one -> one.store.state().toReconcile())
                .sum();
    }

    /**
     * Runs random histories, each from a seed of its own. A failure names its seed. To replay it, run the test with
     * {@code -Dspillgate.seed=<seed>}.
     *
     * @param seeds a generator with a fixed seed in the fast tier, so that a red test is about the change at hand, and
     *     a new one in the proof tier
     */
    static void runHistories(int histories, Random seeds, Consumer<Random> history) {
        for (int i = 0; i < histories; i++) {
            runHistory(SEED == null ? seeds.nextLong() : SEED, history);
        }
    }

    static void runHistory(long seed, Consumer<Random> history) {
        try {
            history.accept(new Random(seed));
        } catch (AssertionError | RuntimeException e) {
            throw new AssertionError("seed " + seed + ": " + e.getMessage(), e);
        }
    }
}
