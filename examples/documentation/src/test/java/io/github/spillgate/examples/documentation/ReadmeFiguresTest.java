package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import com.github.benmanes.caffeine.cache.Cache;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.LocalFallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.io.IOException;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
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
        Map<String, String> stated = new TreeMap<>();
        Matcher option = OPTION.matcher(Files.readString(ROOT.resolve("docs/options.md")));
        while (option.find()) {
            stated.put(option.group(1), option.group(2));
        }
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
        assertThat(stated).isEqualTo(taken);
    }

    private static Map<String, String> ofLimiters(RedisStore store) {
        RateLimiter.Builder builder = RateLimiter.builder("test").store(store);
        try (RateLimiter limiter = builder.build()) {
            LimitStore resilient = (LimitStore) in(limiter, "store");
            LocalFallback fallback = (LocalFallback) in(resilient, "fallback");
            Cache<?, ?> counts = (Cache<?, ?>) in(fallback, "ledgers", "cache");
            Object gate = in(resilient, "gates", "whole");
            return Map.of(
                    "lookup",
                    in(builder, "lookup") == null ? "none" : "another",
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
                    number(((Semaphore) in(gate, "places")).availablePermits()));
        }
    }

    private static String breaker(Object gate) {
        CircuitBreakerConfig settings = ((CircuitBreaker) in(gate, "breaker")).getCircuitBreakerConfig();
        float rate = settings.getFailureRateThreshold();
        return (rate == 50 ? "half" : rate + " %") + " of " + settings.getSlidingWindowSize() + " failed, for "
                + seconds((Duration) in(gate, "PAUSE"));
    }

    private static Map<String, String> ofRedis(RedisStore store) {
        boolean isParallel = in(store, "delivery", "scheduler") == Schedulers.parallel();
        Object bounds = in(store, "bounds");
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
        Rounds rounds = Rounds.read();
        List<List<String>> table = rows(part(readme, "**Speed**", "\n!["));
        List<String> peers = table.get(0);
        int compared = 0;
        for (List<String> row : table.subList(1, table.size())) {
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
                                rounds.times(work, "spillgate counter", peer),
                                rounds.times(work, "spillgate log", peer));
                compared++;
            }
        }
        assertThat(compared).isEqualTo(WORKS.size() * PEERS.size() - 1);
        assertThat(readme)
                .contains("the log makes " + timesEvalsha("in-flight-4") + " and " + timesEvalsha("in-flight-64")
                        + " times the decisions of a plain")
                .contains("it serves " + rounds.times("filter", "spillgate redis filter", "spring gateway filter")
                        + " times the requests of Gateway with 64 connections, and "
                        + rounds.times("filter-one", "spillgate redis filter", "spring gateway filter")
                        + " times with one");
    }

    /** Few decisions in flight were measured in a separate run; its table is on the page. */
    private static String timesEvalsha(String work) throws IOException {
        String page = Files.readString(ROOT.resolve("docs/benchmarks.md"));
        return rows(part(page, "\n### " + work + "\n", "\n#")).stream()
                .filter(row -> row.get(0).startsWith("**spillgate log**"))
                .map(row -> row.get(2).replaceAll(" .*", ""))
                .findFirst()
                .orElseThrow();
    }

    /** The page compares all contenders with only one; its figures must be of the same rounds. */
    @Test
    void thePageOfAllFiguresMatchesTheRounds() throws IOException {
        String page = Files.readString(ROOT.resolve("docs/benchmarks.md"));
        Rounds rounds = Rounds.read();
        for (String work : WORKS.values()) {
            List<List<String>> table = rows(part(page, "\n## " + work + "\n", "\n## "));
            String best = table.get(0).get(2).replaceAll(".*, ", "");
            for (List<String> row : table.subList(1, table.size())) {
                String contender = row.get(0).replace("*", "");
                assertThat(row.get(1)).startsWith(number(rounds.median(work, contender)) + " (");
                BigDecimal times = rounds.ratio(work, contender, best).setScale(2, RoundingMode.HALF_UP);
                assertThat(row.get(2)).as("%s, %s", work, contender).startsWith(times + " (");
            }
        }
    }

    /**
     * Every slice of the run.
     *
     * @param decisions the decisions a second in each round, by workload and contender
     */
    private record Rounds(Map<String, List<BigDecimal>> decisions) {

        static Rounds read() throws IOException {
            List<String> lines = Files.readAllLines(ROOT.resolve("docs/benchmarks/rounds.csv"));
            List<String> columns = List.of(lines.get(0).split(",", -1));
            Map<String, List<BigDecimal>> decisions = new HashMap<>();
            for (String line : lines.subList(1, lines.size())) {
                String[] cells = line.split(",", -1);
                decisions
                        .computeIfAbsent(
                                key(cells[columns.indexOf("work")], cells[columns.indexOf("contender")]),
                                key -> new ArrayList<>())
                        .add(new BigDecimal(cells[columns.indexOf("decisions_per_s")]));
            }
            return new Rounds(decisions);
        }

        BigDecimal median(String work, String contender) {
            return middle(decisions.get(key(work, contender)));
        }

        /** The median of the ratios of each round. */
        BigDecimal ratio(String work, String contender, String other) {
            List<BigDecimal> ours = decisions.get(key(work, contender));
            List<BigDecimal> theirs = decisions.get(key(work, other));
            List<BigDecimal> ratios = new ArrayList<>();
            for (int i = 0; i < ours.size(); i++) {
                ratios.add(ours.get(i).divide(theirs.get(i), MathContext.DECIMAL64));
            }
            return middle(ratios);
        }

        /** Rounds to two significant digits. */
        String times(String work, String contender, String other) {
            BigDecimal rounded = ratio(work, contender, other).round(new MathContext(2, RoundingMode.HALF_UP));
            return String.format(Locale.ROOT, "%,." + Math.max(0, rounded.scale()) + "f", rounded);
        }

        private static String key(String work, String contender) {
            return work + ": " + contender;
        }

        private static BigDecimal middle(List<BigDecimal> odd) {
            return odd.stream().sorted().toList().get(odd.size() / 2);
        }
    }

    /** Returns the cells of a table with its head, without the delimiter row. */
    private static List<List<String>> rows(String text) {
        return text.lines()
                .filter(line -> line.startsWith("| "))
                .map(line -> Arrays.stream(line.substring(1, line.length() - 1).split("\\|", -1))
                        .map(String::strip)
                        .toList())
                .toList();
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
