package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import net.jqwik.api.lifecycle.AfterContainer;
import net.jqwik.api.lifecycle.BeforeContainer;

/**
 * Counters of a size at which doubles are rounded: the script and the Java code still agree. {@code CounterStateTest}
 * shows that the Java code never grants too much, by exact arithmetic.
 */
class CounterScriptRoundingTest {

    private static final AtomicInteger RUNS = new AtomicInteger();

    private static RedisClient client;
    private static ScriptedClock scripted;
    private static RedisStore redis;

    @BeforeContainer
    static void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
        scripted = new ScriptedClock(client);
        redis = scripted.store(client, false);
    }

    @AfterContainer
    static void shutdown() {
        redis.close();
        scripted.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    @Property(tries = 50)
    void javaAndLuaAgree(@ForAll("limits") Limit limit, @ForAll("traffic") List<Step> traffic) {
        assertSame(limit, traffic);
    }

    @Property(tries = 200)
    @Tag("thorough")
    void javaAndLuaAgreeInManyRuns(@ForAll("limits") Limit limit, @ForAll("traffic") List<Step> traffic) {
        assertSame(limit, traffic);
    }

    private static void assertSame(Limit limit, List<Step> traffic) {
        ManualClock clock = new ManualClock();
        RateLimiter lua = limiter(redis, limit);
        RateLimiter java = limiter(LocalStore.bounded(64, clock), limit);
        for (Step step : traffic) {
            clock.advanceMillis((long) (step.pause * limit.window().toMillis()));
            scripted.show(clock);
            long remaining = java.peek("a").block().remaining();
            // Just what remains, one more, and some part of all.
            for (long cost : new long[] {remaining + 1, remaining, (long) (step.cost * limit.permits())}) {
                Decision expected = java.tryAcquire(Charge.of("a", cost)).block();
                Decision decision = lua.tryAcquire(Charge.of("a", cost)).block();
                assertThat(describe(decision)).isEqualTo(describe(expected));
                assertThat(decision.isAllowed()).isEqualTo(cost <= remaining);
                if (step.refund) {
                    java.refund(expected).block();
                    lua.refund(decision).block();
                }
                remaining = java.peek("a").block().remaining();
            }
        }
    }

    /** 2^53 + 1 is the first integer that a double has no room for, and 28,059,810,762,433 × 321. */
    @Example
    void aCostThatFitsOnlyByRoundingIsDenied() {
        Limit limit = Limit.counter(28_059_810_762_433L, Duration.ofMillis(512));
        ManualClock clock = new ManualClock();
        scripted.show(clock);
        RateLimiter limiter = limiter(redis, limit);
        assertThat(limiter.tryAcquire(Charge.of("a", limit.permits())).block().isAllowed())
                .isTrue();
        clock.advanceMillis(512 + 512 - 321);
        scripted.show(clock);
        long left = limit.permits() - (1L << 53) / 512 - 1;
        assertThat(limiter.tryAcquire(Charge.of("a", left + 1)).block().isAllowed())
                .isFalse();
        assertThat(limiter.tryAcquire(Charge.of("a", left)).block().isAllowed()).isTrue();
    }

    /** A limiter with counts of its own. */
    private static RateLimiter limiter(LimitStore store, Limit limit) {
        return RateLimiter.builder("big-" + RUNS.incrementAndGet())
                .store(new Unprotected(store))
                .limit(limit)
                .build();
    }

    private static String describe(Decision decision) {
        return decision.isAllowed() + " " + decision.retryAfter() + " " + decision.limits();
    }

    @Provide
    Arbitrary<Limit> limits() {
        Arbitrary<Long> permits = Arbitraries.oneOf(
                Arbitraries.longs().between(1, 1_000_000),
                Arbitraries.longs().between(1, Limit.MOST_COUNTER_PERMITS),
                Arbitraries.just(Limit.MOST_COUNTER_PERMITS));
        Arbitrary<Long> windows = Arbitraries.oneOf(
                Arbitraries.longs().between(1, 100_000),
                Arbitraries.longs().between(1, Limit.LONGEST_WINDOW.toMillis()),
                Arbitraries.just(Limit.LONGEST_WINDOW.toMillis()));
        return Combinators.combine(permits, windows, Arbitraries.of(true, false))
                .as((n, window, aligned) -> {
                    Limit limit = Limit.counter(n, Duration.ofMillis(window));
                    return aligned ? limit.alignedToClock() : limit;
                });
    }

    @Provide
    Arbitrary<List<Step>> traffic() {
        Arbitrary<Double> pause = Arbitraries.oneOf(
                Arbitraries.doubles().between(0, 0.01),
                Arbitraries.doubles().between(0, 2.5),
                Arbitraries.of(0.5, 1.0, 2.0));
        return Combinators.combine(pause, Arbitraries.doubles().between(0, 0.5), Arbitraries.of(false, false, true))
                .as(Step::new)
                .list()
                .ofMinSize(1)
                .ofMaxSize(20);
    }

    record Step(double pause, double cost, boolean refund) {}
}
