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
import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.local.CachedLimits;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.MarkdownTable;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The defaults on the page of options, and the measured figures of the README. */
class ReadmeFiguresTest {

    private static final Pattern OPTION = Pattern.compile("(?m)^\\| [^|]*\\.(\\w+)\\(…\\)` \\| ([^|]+) \\| ");

    private static final Map<String, String> PEERS =
            Map.of("Bucket4j", "bucket4j", "Redisson", "redisson", "Spring Cloud Gateway", "spring gateway");

    /** Not one of a name, such as Bucket4j. */
    private static final Pattern NUMBER = Pattern.compile("(?<![A-Za-z0-9.])[0-9][0-9.,]*");

    private String readme = "";

    @BeforeEach
    void read() throws IOException {
        readme = Files.readString(ROOT.resolve("README.md"));
    }

    @Test
    void thePageOfOptionsStatesTheDefaultsOfTheCode() throws IOException {
        String[] sections = Files.readString(ROOT.resolve("docs/options.md")).split("\n## .+\n", -1);
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
        OutgoingRequests.Builder outgoing = OutgoingRequests.builder(
                RateLimiter.builder("test").store(LocalStore.bounded(100)).build());
        assertThat(options(sections[1]))
                .containsEntry("longestWait", seconds((Duration) in(outgoing, "longestWait")))
                .containsEntry("longestPause", ((Duration) in(outgoing, "longestPause")).toMinutes() + " min");
        assertThat(options(sections[2])).isEqualTo(ofCachedLimits());
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
        MarkdownTable table = MarkdownTable.only(part(readme, "Decisions a second", "\n!["));
        assertThat(table.head().subList(1, table.head().size())).containsExactlyInAnyOrderElementsOf(PEERS.keySet());
        assertThat(table.rows()).extracting(row -> row.get(0)).containsExactly("counter", "log");
        for (List<String> row : table.rows()) {
            for (int i = 1; i < row.size(); i++) {
                String peer = PEERS.get(table.head().get(i));
                assertThat(row.get(i)).as(peer).isEqualTo(times(rounds, "many-keys", "spillgate " + row.get(0), peer));
            }
        }
        assertThat(readme)
                .contains(
                        "On one hot key, a log makes " + times(rounds, "hot-key", "spillgate log", "bucket4j batching")
                                + " times the decisions of Bucket4j with batching");
    }

    /** People decide within a minute whether they read on. */
    @Test
    void theReadmeIsShort() {
        assertThat(readme.strip().split("\\s+", -1)).hasSizeLessThanOrEqualTo(800);
        assertThat(readme.split("]\\(", -1)).hasSizeLessThanOrEqualTo(26);
        for (MarkdownTable table : MarkdownTable.all(readme)) {
            assertThat(table.rows())
                    .allSatisfy(row -> assertThat(row)
                            .allSatisfy(cell -> assertThat(NUMBER.matcher(cell).results())
                                    .as(cell)
                                    .hasSizeLessThan(2)));
        }
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
