package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.LimitTraffic.Instance;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * What several instances admit together when Redis returns to all of them at the same time. The traffic of all limits
 * runs at once, once as high as the limit, and once ten times as high.
 */
@Proof
class OutageEndRedisTest {

    private static final List<String> LIMITS = List.of("60/3s", "10/1s", "100/10s", "20/1s burst=30");
    private static final List<Integer> LOADS = List.of(1, 10);
    private static final int KEYS = 5;

    /** The longest window, and what instances need to know of each other. */
    private static final Duration BEFORE = Duration.ofSeconds(12);

    private static final Duration AFTER = Duration.ofSeconds(12);

    @ParameterizedTest
    @CsvSource({
        "2, 700, false, false",
        "4, 700, false, false",
        "2, 3000, false, false",
        "4, 3000, false, false",
        "2, 15000, true, false",
        "4, 15000, true, false",
        "4, 3000, false, true"
    })
    void togetherTheyStayNearTheLimit(int instances, int millis, boolean isKilled, boolean isAllAtOne) {
        try (RedisForTests redis = RedisForTests.startOwn()) {
            List<LimitTraffic> traffic = new ArrayList<>();
            LOADS.forEach(
                    load -> LIMITS.forEach(limit -> traffic.add(new LimitTraffic(Limit.parse(limit), load, KEYS))));
            List<Instance> all = IntStream.range(0, instances)
                    .mapToObj(i -> new Instance(redis.uri(), traffic).awaitReady())
                    .toList();
            long start = System.nanoTime();
            LimitTraffic.run(traffic, all, isAllAtOne, start, BEFORE);
            all.forEach(one -> one.assertKnows(instances));
            long from = System.currentTimeMillis();
            Duration outage = Duration.ofMillis(millis);
            during(redis, isKilled, () -> LimitTraffic.run(traffic, all, isAllAtOne, start, BEFORE.plus(outage)));
            long back = System.currentTimeMillis();
            LimitTraffic.run(
                    traffic, all, isAllAtOne, start, BEFORE.plus(outage).plus(AFTER));
            all.forEach(Instance::close);
            String what = "%d instances, %s %d ms%s"
                    .formatted(instances, isKilled ? "kill" : "stop", millis, isAllAtOne ? ", all traffic at one" : "");
            for (LimitTraffic one : traffic) {
                List<Double> worst = one.worst(from, Long.MAX_VALUE);
                report(what, one, worst, back);
                if (!isAllAtOne) {
                    assertThat(worst.get(KEYS / 2)).as("%s, %s", what, one).isLessThanOrEqualTo(1.25);
                }
            }
        }
    }

    private static void report(String what, LimitTraffic traffic, List<Double> worst, long back) {
        Chaos.report(
                "end of outage",
                "%s, %s: worst window, median %.2f, highest %.2f of the limit; after it %.2f of the rate"
                        .formatted(
                                what,
                                traffic,
                                worst.get(KEYS / 2),
                                worst.get(KEYS - 1),
                                traffic.granted(back, back + 10_000)));
    }

    private static void during(RedisForTests redis, boolean isKilled, Runnable work) {
        if (isKilled) {
            redis.kill();
        } else {
            redis.pause();
        }
        work.run();
        if (isKilled) {
            redis.restart();
        } else {
            redis.resume();
        }
    }
}
