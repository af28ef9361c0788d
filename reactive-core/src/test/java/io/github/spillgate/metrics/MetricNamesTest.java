package io.github.spillgate.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleListener.Outcome;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.SentRequest;
import io.github.spillgate.http.client.OutgoingRequests;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Snippets;
import io.github.spillgate.testkit.StoreForTests;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** Metrics and their tags have the names that the page on operations gives them. */
class MetricNamesTest {

    private static final long AT = 1_790_000_000_000L;
    private static final Pattern METER_ROW =
            Pattern.compile("(?m)^\\| `(spillgate\\.[a-z.]+)` \\| ([^|]+) \\| ([^|]+) \\|");
    private static final Pattern CODE = Pattern.compile("`([^`]+)`");
    private static final Pattern SAMPLE = Pattern.compile("(?m)^(spillgate_\\w+)\\{([^}]*)}");
    private static final Pattern METRIC = Pattern.compile("spillgate_\\w+");
    private static final Pattern SELECTED = Pattern.compile("(spillgate_\\w+)\\{([^}]*)}");
    private static final Pattern GROUPED = Pattern.compile("\\b(?:by|on) \\(([a-z_, ]+)\\)");
    private static final String OBSERVABILITY = "examples/observability/";
    private static final Pattern LABEL = Pattern.compile("(\\w+)=~?\"([^\"]*)\"");

    private final PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private final RateLimiter limiter =
            RateLimiter.builder("test").store(LocalStore.bounded(1_000)).build();
    private final Map<String, Map<String, Set<String>>> scraped = new TreeMap<>();
    private String page = "";

    @BeforeEach
    void scrapeAll() throws IOException {
        page = Files.readString(Snippets.ROOT.resolve("docs/operations.md"));
        LimiterMetrics.of(limiter, "test").bindTo(registry);
        OutgoingMetrics.of(OutgoingRequests.builder(limiter).build()).bindTo(registry);
        RuleMetrics rules = RuleMetrics.of(registry);
        Rule rule = Rule.named("page")
                .key(KeySource.constant("all"))
                .limit(Limit.perMinute(100))
                .limit(Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10)))
                .build();
        RuleMatch match = new RuleMatch(rule, SentRequest.get("/"), Map.of());
        for (Outcome outcome : Outcome.values()) {
            for (Source source : Source.values()) {
                rules.decided(match, outcome, nearlyUsedUp(rule, source), Duration.ofMillis(1));
            }
        }
        Rule shadow = Rule.named("shadow")
                .key(KeySource.constant("all"))
                .limit(Limit.perMinute(100))
                .shadow(true)
                .build();
        rules.decided(
                new RuleMatch(shadow, SentRequest.get("/"), Map.of()),
                Outcome.DENIED,
                nearlyUsedUp(shadow, Source.REDIS),
                Duration.ofMillis(1));
        DecisionMetrics.of(registry).decided("test", nearlyUsedUp(rule, Source.REDIS), Duration.ofMillis(1));
        rules.refused(match);
        rules.lookupFailed(match, SentRequest.failedLookup());
        rules.undecided(match, new IllegalStateException("broken"));
        rules.expired(match, new HoldExpiredException(rule.limits(), Duration.ofMinutes(1), "broken"));
        Matcher sample = SAMPLE.matcher(registry.scrape());
        while (sample.find()) {
            Map<String, Set<String>> labels = scraped.computeIfAbsent(sample.group(1), name -> new TreeMap<>());
            Matcher label = LABEL.matcher(sample.group(2));
            while (label.find()) {
                labels.computeIfAbsent(label.group(1), name -> new TreeSet<>()).add(label.group(2));
            }
        }
        assertThat(scraped).hasSizeGreaterThan(10);
    }

    @AfterEach
    void close() {
        limiter.close();
        registry.close();
    }

    @Test
    void thePageListsEveryMeterWithItsTags() {
        Set<String> meters = new TreeSet<>();
        Set<String> metrics = new TreeSet<>();
        for (Matcher row = METER_ROW.matcher(page); row.find(); ) {
            meters.add(row.group(1));
            for (String metric : codes(row.group(2))) {
                metrics.add(metric);
                assertThat(scraped).containsKey(metric);
                assertThat(scraped.get(metric).keySet())
                        .as(metric)
                        .containsExactlyInAnyOrderElementsOf(codes(row.group(3)));
            }
        }
        assertThat(meters)
                .isEqualTo(new TreeSet<>(registry.getMeters().stream()
                        .map(meter -> meter.getId().getName())
                        .toList()));
        assertThat(metrics).isEqualTo(scraped.keySet());
    }

    @Test
    void theJavadocOfAStateListsEachOfItsMeters() throws IOException {
        String source = Files.readString(
                Snippets.ROOT.resolve("reactive-core/src/main/java/io/github/spillgate/metrics/LimiterMetrics.java"));
        SimpleMeterRegistry own = new SimpleMeterRegistry();
        LimiterMetrics.of(limiter, "test").bindTo(own);
        assertThat(own.getMeters())
                .isNotEmpty()
                .allSatisfy(meter -> assertThat(source)
                        .contains("<td>{@code " + meter.getId().getName() + "}"));
        own.close();
    }

    /** Prometheus would drop the second of two meters with one name and other tags. */
    @Test
    void decisionsOfALimiterInCodeAreExportedBesideThoseOfRules() {
        assertThat(scraped.get("spillgate_decisions_seconds_count").get("rule")).contains("page", "limiter:test");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"docs/operations.md", OBSERVABILITY + "alerts.yml", OBSERVABILITY + "grafana-dashboard.json"})
    void allQueriesUseExistingMetrics(String file) throws IOException {
        String queries = read(file);
        int metrics = 0;
        for (Matcher metric = METRIC.matcher(queries); metric.find(); metrics++) {
            assertThat(scraped).containsKey(metric.group());
        }
        assertThat(metrics).isGreaterThan(10);
        for (Matcher selected = SELECTED.matcher(queries); selected.find(); ) {
            for (Matcher label = LABEL.matcher(selected.group(2)); label.find(); ) {
                Map<String, Set<String>> labels = scraped.get(selected.group(1));
                assertThat(labels).as(selected.group()).containsKey(label.group(1));
                if (!label.group(2).startsWith("$")) {
                    assertThat(labels.get(label.group(1)))
                            .as(selected.group())
                            .containsAll(List.of(label.group(2).split("\\\\?\\|", -1)));
                }
            }
        }
    }

    /** Labels that Prometheus adds to a target are the other ones. */
    @ParameterizedTest
    @ValueSource(strings = {"alerts.yml", "grafana-dashboard.json"})
    void allQueriesGroupByExistingLabels(String file) throws IOException {
        Set<String> labels = new TreeSet<>(Set.of("instance"));
        scraped.values().forEach(metric -> labels.addAll(metric.keySet()));
        int grouped = 0;
        for (Matcher group = GROUPED.matcher(read(OBSERVABILITY + file)); group.find(); grouped++) {
            assertThat(labels)
                    .as(group.group())
                    .containsAll(List.of(group.group(1).split(", ", -1)));
        }
        assertThat(grouped).isGreaterThan(5);
    }

    @Test
    void theDashboardShowsEveryMetric() throws IOException {
        Set<String> shown = new TreeSet<>();
        METRIC.matcher(read(OBSERVABILITY + "grafana-dashboard.json"))
                .results()
                .forEach(metric -> shown.add(metric.group()));
        assertThat(shown).isEqualTo(scraped.keySet());
    }

    /** Returns a file with the quotes of JSON removed from queries. */
    private static String read(String file) throws IOException {
        return Files.readString(Snippets.ROOT.resolve(file)).replace("\\\"", "\"");
    }

    @Test
    void allValuesOfTagsAreNamed() {
        assertNamed("outcome", Outcome.values());
        assertNamed("source", Source.values());
        assertNamed("spillgate.breaker", Breaker.values());
    }

    private void assertNamed(String what, Enum<?>[] values) {
        String row = page.lines()
                .filter(line -> line.startsWith("| `" + what + "` |"))
                .findFirst()
                .orElseThrow();
        for (Enum<?> value : values) {
            assertThat(row).contains("`" + value.name().toLowerCase(Locale.ROOT) + "`");
        }
    }

    private static List<String> codes(String cell) {
        return CODE.matcher(cell).results().map(code -> code.group(1)).toList();
    }

    private static Decision nearlyUsedUp(Rule rule, Source source) {
        LimitStore store = StoreForTests.taking(LocalStore.bounded(16), claims -> {
            Reply reply = new Reply(source, AT);
            List<StoreUsage> usages = claims.stream()
                    .map(claim -> StoreUsage.of(reply, claim, 99, false, AT, AT + 1_000))
                    .toList();
            return Mono.just(StoreDecision.ofTake(reply, usages));
        });
        try (RateLimiter asked = RateLimiter.builder("test").store(store).build()) {
            return Objects.requireNonNull(
                    asked.tryAcquire(Charge.of("all", rule.limits())).block());
        }
    }
}
