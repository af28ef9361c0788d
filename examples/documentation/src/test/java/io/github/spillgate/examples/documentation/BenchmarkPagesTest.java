package io.github.spillgate.examples.documentation;

import static io.github.spillgate.examples.documentation.BenchmarkRounds.CPU;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.DECISIONS;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.P50;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.P99;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.SWITCHES;
import static io.github.spillgate.examples.documentation.BenchmarkRounds.rounded;
import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.MarkdownTable;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The figures in all tables of the pages on benchmarks follow from the measured rounds. */
class BenchmarkPagesTest {

    private static final Pattern SECTION = Pattern.compile("(?m)^## ");

    private static final Pattern LINK = Pattern.compile("\\[([^\\]]*)]\\([^)]*\\)");

    private static final Pattern COMPARISON = Pattern.compile("(.+) ÷ (.+)");

    private static final Pattern CONNECTIONS = Pattern.compile("(\\d+) connections?");

    /** The columns of the tables of costs. */
    private static final Map<String, String> COSTS =
            Map.of("requests/s", DECISIONS, "p99, µs", P99, "CPU, µs", CPU, "context switches", SWITCHES);

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
        List<MarkdownTable> tables = MarkdownTable.all(Files.readString(ROOT.resolve("docs/benchmarks.md")));
        tables.forEach(this::assertRatios);
        assertThat(tables).hasSize(6);
    }

    @Test
    void theCostsOfARequestMatchTheRounds() throws IOException {
        List<String> works = new ArrayList<>();
        for (String section : SECTION.split(Files.readString(ROOT.resolve("docs/benchmarks/http.md")), -1)) {
            Matcher connections =
                    CONNECTIONS.matcher(section.lines().findFirst().orElseThrow());
            if (connections.matches()) {
                works.add("wrk-" + connections.group(1));
                assertCosts(
                        works.get(works.size() - 1), MarkdownTable.all(section).get(0));
            }
        }
        assertThat(works).containsExactly("wrk-64", "wrk-8", "wrk-1");
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

    private void assertCosts(String work, MarkdownTable table) {
        for (List<String> row : table.rows()) {
            for (int i = 1; i < row.size(); i++) {
                String column = COSTS.get(table.head().get(i));
                assertThat(row.get(i))
                        .as("%s, %s, %s", work, row.get(0), column)
                        .isEqualTo(rounded(rounds.median(column, work, row.get(0))));
            }
        }
    }

    /** Returns the ratio of two contenders in a workload. */
    private static BigDecimal ratio(BenchmarkRounds rounds, String work, String comparison) {
        Matcher named = COMPARISON.matcher(comparison);
        assertThat(named.matches()).as(comparison).isTrue();
        return rounds.ratio(DECISIONS, work, named.group(1), named.group(2));
    }
}
