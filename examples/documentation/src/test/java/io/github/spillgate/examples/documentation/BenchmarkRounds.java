package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * The measured rounds of the benchmark pages.
 *
 * @param values the values of each round, by column, workload and contender
 */
record BenchmarkRounds(Map<String, List<BigDecimal>> values) {

    static final String DECISIONS = "decisions_per_s";
    static final String P50 = "p50_us";
    static final String P99 = "p99_us";
    static final String CPU = "client_us_per_decision";
    static final String SWITCHES = "context_switches";

    private static final BigDecimal TWO = BigDecimal.valueOf(2);

    /** Columns of the HTTP load test, by the columns of the benchmark with the same meaning. */
    private static final Map<String, String> OF_WRK = Map.of(
            DECISIONS, "requests_per_s",
            P50, P50,
            P99, P99,
            CPU, "cpu_us_per_request",
            SWITCHES, "context_switches_per_request");

    /** Reads the run of the benchmark, and the HTTP load test as the workloads wrk-64, wrk-8 and wrk-1. */
    static BenchmarkRounds read() throws IOException {
        BenchmarkRounds rounds = new BenchmarkRounds(new HashMap<>());
        for (Map<String, String> row : rows("rounds.csv")) {
            for (String column : List.of(DECISIONS, P50, P99, CPU)) {
                rounds.add(column, row.get("work"), row.get("contender"), row.get(column));
            }
        }
        for (Map<String, String> row : rows("wrk.csv")) {
            OF_WRK.forEach((column, ofWrk) ->
                    rounds.add(column, "wrk-" + row.get("connections"), row.get("server"), row.get(ofWrk)));
        }
        return rounds;
    }

    private static List<Map<String, String>> rows(String file) throws IOException {
        List<String> lines = Files.readAllLines(ROOT.resolve("docs/benchmarks/" + file));
        List<String> columns = List.of(lines.get(0).split(",", -1));
        return lines.stream()
                .skip(1)
                .map(line -> line.split(",", -1))
                .map(cells -> {
                    Map<String, String> row = new HashMap<>();
                    IntStream.range(0, cells.length).forEach(i -> row.put(columns.get(i), cells[i]));
                    return row;
                })
                .toList();
    }

    private void add(String column, String work, String contender, String value) {
        values.computeIfAbsent(key(column, work, contender), key -> new ArrayList<>())
                .add(new BigDecimal(value));
    }

    /** Returns the values of all rounds. A contender of ours may lack the name of the project. */
    List<BigDecimal> all(String column, String work, String contender) {
        List<BigDecimal> found = values.get(key(column, work, contender));
        List<BigDecimal> all = found != null ? found : values.get(key(column, work, "spillgate " + contender));
        assertThat(all).as("rounds of %s, %s", work, contender).isNotEmpty();
        return all;
    }

    BigDecimal median(String column, String work, String contender) {
        return middle(all(column, work, contender));
    }

    /** Returns the median of the ratios of each round. */
    BigDecimal ratio(String column, String work, String contender, String base) {
        return ratio(all(column, work, contender), all(column, work, base));
    }

    private static BigDecimal ratio(List<BigDecimal> ours, List<BigDecimal> theirs) {
        return middle(IntStream.range(0, ours.size())
                .mapToObj(i -> ours.get(i).divide(theirs.get(i), MathContext.DECIMAL64))
                .toList());
    }

    private static BigDecimal middle(List<BigDecimal> all) {
        List<BigDecimal> sorted = all.stream().sorted().toList();
        int half = sorted.size() / 2;
        return sorted.size() % 2 == 1
                ? sorted.get(half)
                : sorted.get(half - 1).add(sorted.get(half)).divide(TWO, MathContext.DECIMAL64);
    }

    /** Rounds to two significant digits, as on the pages. */
    static String rounded(BigDecimal number) {
        BigDecimal rounded = number.round(new MathContext(2, RoundingMode.HALF_UP));
        int digitsBeforePoint = rounded.precision() - rounded.scale();
        return String.format(Locale.ROOT, "%,." + Math.max(0, 2 - digitsBeforePoint) + "f", rounded);
    }

    private static String key(String column, String work, String contender) {
        return column + " " + work + ": " + contender;
    }
}
