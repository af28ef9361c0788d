package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import com.github.benmanes.caffeine.cache.Cache;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.failover.LocalFallback;
import io.github.spillgate.local.CachedLimits;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.time.Duration;
import java.util.DoubleSummaryStatistics;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The defaults on the page of options, and the measured figures of the README. */
class ReadmeFiguresTest {

    private static final Pattern OPTION = Pattern.compile("(?m)^\\| [^|]*\\.(\\w+)\\(…\\)` \\| ([^|]+) \\| ");

    /** The workloads of the README, by their names on the page of all figures. */
    private static final Map<String, String> WORKS = Map.of(
            "10,000 keys, all allowed", "many-keys",
            "one hot key, allowed", "hot-key",
            "one hot key, denied", "denied");

    /** Bucket4j without batching is not compared on one hot key. */
    private static final String NOT_COMPARED = "–";

    private static final Map<String, String> PEERS = Map.of(
            "Bucket4j", "bucket4j",
            "Bucket4j, batching", "bucket4j batching",
            "Redisson", "redisson",
            "Spring Cloud Gateway", "spring gateway");

    private String readme = "";

    @BeforeEach
    void read() throws IOException {
        readme = Files.readString(ROOT.resolve("README.md"));
    }

    @Test
    void thePageOfOptionsStatesTheDefaultsOfTheCode() throws IOException {
        String[] sections = Files.readString(ROOT.resolve("docs/options.md")).split("\n## Cached limits\n", -1);
        Map<String, String> taken = new TreeMap<>();
        RedisClient client = RedisClient.create(RedisForTests.first().uri());
        try (RedisStore store = RedisStore.create(client)) {
            taken.putAll(ofLimiters(store));
            taken.putAll(ofRedis(store));
            boolean isAny = in(RedisStore.builder(client), "nodes").equals(List.of());
            taken.put("nodes", isAny ? "as the client says" : "others");
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
        }
        LimitLookup lookup = LimitLookup.of(key -> Mono.empty());
        taken.put("timeout", seconds((Duration) in(lookup, "timeout")));
        assertThat(options(sections[0])).isEqualTo(taken);
        assertThat(options(sections[1])).isEqualTo(ofCachedLimits());
    }

    private static Map<String, String> options(String page) {
        Map<String, String> stated = new TreeMap<>();
        Matcher option = OPTION.matcher(page);
        while (option.find()) {
            stated.put(option.group(1), option.group(2));
        }
        return stated;
    }

    private static Map<String, String> ofCachedLimits() {
        CachedLimits.Builder builder = CachedLimits.builder(key -> Mono.empty());
        return Map.of(
                "maximumKeys",
                number(in(builder, "maximumKeys")),
                "freshFor",
                ((Duration) in(builder, "freshFor")).toMinutes() + " min",
                "staleFor",
                ((Duration) in(builder, "staleFor")).toMinutes() + " min",
                "lookupTimeout",
                seconds((Duration) in(builder, "lookupTimeout")),
                "maxInFlight",
                number(in(builder, "maxInFlight")));
    }

    private static Map<String, String> ofLimiters(RedisStore store) {
        RateLimiterBuilder builder = RateLimiter.builder("test").store(store);
        try (RateLimiter limiter = builder.build()) {
            LimitStore resilient = (LimitStore) in(limiter, "ownStore");
            LocalFallback fallback = (LocalFallback) in(resilient, "failover", "fallback");
            Cache<?, ?> counts = (Cache<?, ?>) in(fallback, "ledgers", "cache");
            Object gate = in(resilient, "failover", "gates", "whole");
            Map<String, String> defaults = new TreeMap<>(Map.of(
                    "lookup",
                    in(builder, "lookup") == null ? "none" : "another",
                    "listener",
                    in(limiter, "listeners") == null ? "none" : "another",
                    "fallback",
                    "`Fallback.local("
                            + number(counts.policy().eviction().orElseThrow().getMaximum())
                                    .replace(',', '_')
                            + ")`",
                    "share",
                    fallback.share().isEmpty()
                            ? "[automatic](when-redis-fails.md#the-share-of-an-instance)"
                            : fallback.share().toString(),
                    "deadline",
                    resilient.deadline().orElseThrow().toMillis() + " ms",
                    "cacheDenials",
                    seconds(Duration.ofNanos((long) in(resilient, "failover", "denials", "longest"))),
                    "waiters",
                    number(in(limiter, "queues", "maxPerQueue")) + " for a key, "
                            + number(in(limiter, "queues", "maxInTotal")) + " in all",
                    "breaker",
                    breaker(gate),
                    "maxInFlight",
                    number(((Semaphore) in(gate, "capacity")).availablePermits())));
            defaults.put("debt", number((long) (double) in(limiter, "settlements", "debt")));
            defaults.put(
                    "longestHold",
                    Duration.ofNanos((long) in(limiter, "holds", "longest")).toHours() + " h");
            return defaults;
        }
    }

    private static String breaker(Object gate) {
        CircuitBreakerConfig settings = ((CircuitBreaker) in(gate, "breaker")).getCircuitBreakerConfig();
        float rate = settings.getFailureRateThreshold();
        return (rate == 50 ? "half" : rate + " %") + " of " + settings.getSlidingWindowSize() + " failed, for "
                + seconds((Duration) in(gate, "PAUSE"));
    }

    private static Map<String, String> ofRedis(RedisStore store) {
        boolean isParallel = in(store, "deliverOn") == Schedulers.parallel();
        Object bounds = in(store, "waiting", "bounds");
        return Map.of(
                "namespace",
                "`" + part(store.toString(), "[", ":") + "`",
                "deliverOn",
                isParallel ? "`Schedulers.parallel()`" : "another",
                "batching",
                number(in(bounds, "counts")) + ", " + number(in(bounds, "inFlight")) + ", "
                        + number(in(bounds, "waiting")));
    }

    @Test
    void theReadmeStatesTheMeasuredSpeed() throws IOException {
        BenchmarkRounds rounds = BenchmarkRounds.read();
        MarkdownTable table = MarkdownTable.only(part(readme, "**Speed**", "\n!["));
        List<String> peers = table.head();
        int compared = 0;
        for (List<String> row : table.rows()) {
            String work = WORKS.get(row.get(0).replace(": counter, log", ""));
            for (int i = 1; i < row.size(); i++) {
                if (row.get(i).equals(NOT_COMPARED)) {
                    continue;
                }
                String peer = PEERS.get(peers.get(i));
                List<String> stated = List.of(row.get(i).replace("*", "").split(", ", -1));
                assertThat(stated)
                        .as("%s, × %s", row.get(0), peers.get(i))
                        .containsExactly(
                                times(rounds, work, "spillgate counter", peer),
                                times(rounds, work, "spillgate log", peer));
                compared++;
            }
        }
        assertThat(compared).isEqualTo(WORKS.size() * PEERS.size() - 1);
        DoubleSummaryStatistics onManyKeys = PEERS.values().stream()
                .flatMap(peer -> Stream.of("spillgate counter", "spillgate log")
                        .map(ours -> times(rounds, "many-keys", ours, peer)))
                .collect(Collectors.summarizingDouble(Double::parseDouble));
        assertThat(readme)
                .contains("On many keys " + onManyKeys.getMin() + " to " + onManyKeys.getMax() + " times the decisions")
                .contains("the counter makes " + timesEvalsha(rounds, "spillgate counter loop")
                        + " times its decisions, and the log " + timesEvalsha(rounds, "spillgate log loop"))
                .contains("serves " + timesGateway(rounds, "wrk-64") + ", " + timesGateway(rounds, "wrk-8") + " and "
                        + timesGateway(rounds, "wrk-1") + " times the requests of one with Spring Cloud Gateway's "
                        + "limiter, at 64, 8 and 1 connections");
    }

    private static String timesEvalsha(BenchmarkRounds rounds, String contender) {
        return times(rounds, "in-flight-4", contender, "evalsha each") + " and "
                + times(rounds, "in-flight-16", contender, "evalsha each");
    }

    private static String timesGateway(BenchmarkRounds rounds, String work) {
        return times(rounds, work, "webflux redis", "webflux gateway");
    }

    private static String times(BenchmarkRounds rounds, String work, String contender, String other) {
        return BenchmarkRounds.rounded(rounds.ratio(BenchmarkRounds.DECISIONS, work, contender, other));
    }

    private static String part(String text, String after, String before) {
        assertThat(text).contains(after);
        int from = text.indexOf(after) + after.length();
        assertThat(text.indexOf(before, from)).as(before).isNotNegative();
        return text.substring(from, text.indexOf(before, from));
    }

    private static String number(Object number) {
        return String.format(Locale.ROOT, "%,d", ((Number) number).longValue());
    }

    private static String seconds(Duration duration) {
        return duration.toMillis() % 1_000 == 0 ? duration.toSeconds() + " s" : duration.toMillis() + " ms";
    }

    /** Reads nested fields, because builders do not expose their defaults. */
    private static Object in(Object object, String... fields) {
        Object found = object;
        try {
            for (String name : fields) {
                Field field = found.getClass().getDeclaredField(name);
                field.setAccessible(true);
                found = field.get(found);
            }
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("a field was renamed in " + object, e);
        }
        return found;
    }
}
