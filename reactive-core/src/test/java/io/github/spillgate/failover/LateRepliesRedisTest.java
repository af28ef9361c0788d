package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.LimitTraffic.Instance;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * What two instances admit together if 5 % of the replies of a healthy Redis arrive after the deadline. The traffic of
 * all limits runs at once, once as high as the limit, and once three times as high.
 */
@Proof
class LateRepliesRedisTest {

    private static final List<String> LIMITS = List.of("10/1s", "60/3s", "100/10s", "60/3s counter", "20/1s burst=30");
    private static final List<Integer> LOADS = List.of(1, 3);
    private static final int KEYS = 5;
    private static final double LATE = 0.05;

    /** The longest window. */
    private static final Duration BEFORE = Duration.ofSeconds(11);

    private static final Duration MEASURED = Duration.ofSeconds(30);

    @Test
    void nearlyTheWholeLimitIsGrantedAndNoMore() {
        try (RedisForTests redis = RedisForTests.startOwn();
                RedisClient client = RedisClient.create(redis.uri())) {
            RedisCommands<String, String> admin = client.connect().sync();
            List<LimitTraffic> traffic = new ArrayList<>();
            LOADS.forEach(
                    load -> LIMITS.forEach(limit -> traffic.add(new LimitTraffic(Limit.parse(limit), load, KEYS))));
            List<Instance> all = IntStream.range(0, 2)
                    .mapToObj(i -> new Instance(redis.uri(), traffic, LateRepliesRedisTest::late).awaitReady())
                    .toList();
            long start = System.nanoTime();
            LimitTraffic.run(traffic, all, false, start, BEFORE);
            Chaos.report("late replies", keys(admin));
            long from = System.currentTimeMillis();
            LimitTraffic.run(traffic, all, false, start, BEFORE.plus(MEASURED));
            long to = System.currentTimeMillis();
            Chaos.report("late replies", keys(admin));
            all.forEach(
                    one -> Chaos.report("late replies", one.limiters().get(0).state()));
            all.forEach(Instance::close);
            traffic.forEach(one -> report(one, from, to));
            for (LimitTraffic one : traffic) {
                assertThat(one.worst(from, to).get(KEYS / 2)).as("%s", one).isLessThanOrEqualTo(1.25);
                assertThat(one.granted(from, to)).as("%s", one).isGreaterThanOrEqualTo(0.75);
            }
        }
    }

    private static void report(LimitTraffic traffic, long from, long to) {
        List<Double> worst = traffic.worst(from, to);
        Chaos.report(
                "late replies",
                "%s: %.3f of the rate granted; worst window, median %.2f, highest %.2f of the limit"
                        .formatted(traffic, traffic.granted(from, to), worst.get(KEYS / 2), worst.get(KEYS - 1)));
    }

    /** Delays some decisions until after the deadline. */
    private static LimitStore late(LimitStore store) {
        return (LimitStore) Proxy.newProxyInstance(
                LimitStore.class.getClassLoader(), new Class<?>[] {LimitStore.class}, (proxy, method, arguments) -> {
                    Object result = method.invoke(store, arguments);
                    return method.getName().equals("take") && result instanceof Mono<?> reply ? late(reply) : result;
                });
    }

    private static <T> Mono<T> late(Mono<T> reply) {
        return Mono.defer(() -> {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            return random.nextDouble() < LATE ? reply.delayElement(Duration.ofMillis(random.nextInt(110, 300))) : reply;
        });
    }

    /** Returns the number of keys of each kind, and their memory in bytes. */
    private static Map<String, String> keys(RedisCommands<String, String> admin) {
        Map<String, long[]> sums = new TreeMap<>();
        for (String key : admin.keys("*")) {
            Long bytes = admin.memoryUsage(key);
            long[] sum = sums.computeIfAbsent(kind(key, admin.type(key)), kind -> new long[2]);
            sum[0]++;
            sum[1] += bytes == null ? 0 : bytes;
        }
        Map<String, String> texts = new TreeMap<>();
        sums.forEach((kind, sum) -> texts.put(kind, sum[0] + " keys, " + sum[1] + " bytes"));
        return texts;
    }

    private static String kind(String key, String type) {
        if (!type.equals("string")) {
            return "instances";
        } else if (key.endsWith("!!")) {
            return "marks of restored permits";
        } else if (key.endsWith("!")) {
            return "marks of resets";
        }
        return key.contains("!") ? "marks of reconciliations" : "counts";
    }
}
