package io.github.spillgate.examples.documentation;

import static io.github.spillgate.examples.documentation.BenchmarkRounds.CPU;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.DECISIONS;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.P50;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.P99;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.SWITCHES;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.rounded;
import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The figures in all tables of the pages on benchmarks follow from the measured rounds. */
class BenchmarkPagesTest {

    private static final Pattern SECTION = Pattern.compile("(?m)^## ");

    private static final Pattern LINK = Pattern.compile("\\[([^\\]]*)]\\([^)]*\\)");

    private static final Pattern COMPARISON = Pattern.compile("(?:(p50|added p50) of )?(.+) ÷ (.+)");

    private static final Pattern GOAL = Pattern.compile("([≥≤]) ([\\d.]+)(?:, as (.+))?");

    private static final String SERVER_WITHOUT_LIMITER = "webflux none";

    /** The columns of the table of costs, and the connections in each of its cells. */
    private static final Map<String, String> COSTS =
            Map.of("requests/s", DECISIONS, "p99, µs", P99, "CPU, µs", CPU, "context switches", SWITCHES);

    private static final List<String> CONNECTIONS = List.of("wrk-64", "wrk-8", "wrk-1");

    private BenchmarkRounds rounds = new BenchmarkRounds(Map.of());

    @BeforeEach
    void read() throws IOException {
        rounds = BenchmarkRounds.read();
    }

    @Test
    void theGeneratedTablesMatchTheRounds() throws IOException {
        int works = 0;
        for (String section : SECTION.split(Files.readString(ROOT.resolve("docs/benchmarks/tables.md")), -1)) {
            for (MarkdownTable table : MarkdownTable.all(section)) {
                if (table.head().get(1).equals("decisions/s")) {
                    assertGenerated(section.lines().findFirst().orElseThrow(), table);
                    works++;
                }
            }
        }
        assertThat(works).isEqualTo(worksOfTheBenchmark());
    }

    private long worksOfTheBenchmark() {
        return rounds.values().keySet().stream()
                .filter(key -> key.startsWith(DECISIONS))
                .map(key -> key.replaceAll(":.*", ""))
                .filter(work -> !work.contains("wrk-"))
                .distinct()
                .count();
    }

    /** A generated table compares all contenders with the one that its head names. */
    private void assertGenerated(String work, MarkdownTable table) {
        String compared = table.head().get(2);
        String base = compared.replaceAll(".*× (the best peer, )?", "");
        for (List<String> row : table.rows()) {
            // A mark shows that the report has a warning.
            String contender = row.get(0).replace("*", "").replace(" (!)", "");
            String decisions = String.format(Locale.ROOT, "%,.0f", rounds.median(DECISIONS, work, contender));
            assertThat(row.get(1)).as("%s, %s", work, contender).startsWith(decisions + " (");
            if (!base.equals("–")) {
                BigDecimal ratio = rounds.ratio(compared.startsWith("p50") ? P50 : DECISIONS, work, contender, base)
                        .setScale(2, RoundingMode.HALF_UP);
                assertThat(row.get(2)).as("%s, %s", work, contender).startsWith(ratio + " (");
            }
        }
    }

    @Test
    void allTablesOnThePagesMatchTheRounds() throws IOException {
        String goals = Files.readString(ROOT.resolve("docs/benchmarks/goals.md"));
        String page = Files.readString(ROOT.resolve("docs/benchmarks.md"));
        Map<String, Integer> tables = new HashMap<>();
        for (MarkdownTable table : MarkdownTable.all(page + "\n" + goals)) {
            String kind = table.head().get(1);
            switch (kind) {
                case "goal" -> assertGoals(List.of(page, goals), table);
                case "requests/s" -> assertCosts(table);
                default -> assertRatios(table);
            }
            tables.merge(kind.contains("÷") ? "÷" : kind, 1, Integer::sum);
        }
        assertThat(tables).isEqualTo(Map.of("goal", 1, "requests/s", 1, "÷", 6));
    }

    /** Each column compares two contenders, or the contender of the row with another one. Slower ones are bold. */
    private void assertRatios(MarkdownTable table) {
        for (List<String> row : table.rows()) {
            String[] label = LINK.matcher(row.get(0)).replaceAll("$1").split(": ", 2);
            for (int i = 1; i < row.size(); i++) {
                String head = table.head().get(i);
                String comparison = head.startsWith("÷") ? label[1] + " " + head : head;
                String ratio = rounded(ratio(rounds, label[0], comparison));
                boolean isSlower = new BigDecimal(ratio.replace(",", "")).compareTo(BigDecimal.ONE) < 0;
                assertThat(row.get(i))
                        .as("%s: %s", label[0], comparison)
                        .isEqualTo(isSlower ? "**" + ratio + "**" : ratio);
            }
        }
    }

    private void assertGoals(List<String> pages, MarkdownTable table) {
        int met = 0;
        for (List<String> row : table.rows()) {
            String[] label = LINK.matcher(row.get(0)).replaceAll("$1").split(": ", 2);
            BigDecimal result = ratio(rounds, label[0], label[1]);
            assertThat(row.get(2)).as(row.get(0)).isEqualTo(rounded(result));
            Matcher goal = GOAL.matcher(row.get(1));
            assertThat(goal.matches()).as(row.get(1)).isTrue();
            if (goal.group(3) != null) {
                assertThat(goal.group(2)).as(row.get(1)).isEqualTo(rounded(ratio(rounds, label[0], goal.group(3))));
            }
            int compared = result.compareTo(new BigDecimal(goal.group(2)));
            boolean isMet = goal.group(1).equals("≥") ? compared >= 0 : compared <= 0;
            assertThat(row.get(3)).as(row.get(0)).isEqualTo(isMet ? "yes" : "no");
            met += isMet ? 1 : 0;
        }
        String sentence = "\n" + met + " of " + table.rows().size() + " goals are met.";
        assertThat(pages)
                .allSatisfy(
                        page -> assertThat(LINK.matcher(page).replaceAll("$1")).contains(sentence));
    }

    private void assertCosts(MarkdownTable table) {
        for (List<String> row : table.rows()) {
            for (int i = 1; i < row.size(); i++) {
                String column = COSTS.get(table.head().get(i));
                assertThat(row.get(i))
                        .as("%s, %s", row.get(0), column)
                        .isEqualTo(CONNECTIONS.stream()
                                .map(work -> rounded(rounds.median(column, work, row.get(0))))
                                .collect(Collectors.joining(" · ")));
            }
        }
    }

    /** Returns the ratio of two contenders in a workload, or of two workloads of one contender. */
    private static BigDecimal ratio(BenchmarkRounds rounds, String work, String comparison) {
        if (work.contains(" ÷ ")) {
            List<BigDecimal> medians = Stream.of(work.split(" ÷ ", -1))
                    .map(one -> rounds.median(DECISIONS, one, comparison))
                    .toList();
            return medians.get(0).divide(medians.get(1), MathContext.DECIMAL64);
        }
        Matcher named = COMPARISON.matcher(comparison);
        assertThat(named.matches()).as(comparison).isTrue();
        if ("added p50".equals(named.group(1))) {
            return rounds.added(P50, work, named.group(2), named.group(3), SERVER_WITHOUT_LIMITER);
        }
        return rounds.ratio(named.group(1) == null ? DECISIONS : P50, work, named.group(2), named.group(3));
    }
}
