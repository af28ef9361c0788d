package io.github.spillgate.examples.benchmark;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.examples.benchmark.work.Work;
import io.github.spillgate.examples.benchmark.work.Works;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BenchmarkTest {

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    @Test
    @Tag("proof")
    void everyContenderRunsInEachWorkload(@TempDir Path directory) throws Exception {
        int status = run("--rounds", "1", "--seconds", "0.02", "--out", directory.toString());

        assertReported(status, Works.all(), directory);
        assertThat(directory.resolve("results.md")).content().contains("| decisions in a command |");
    }

    /** One workload on Redis, and one without. */
    @Test
    void everyContenderRunsInTheNamedWorkloads(@TempDir Path directory) throws Exception {
        String only = "denied,local-one-thread";

        int status = run("--rounds", "1", "--seconds", "0.02", "--only", only, "--out", directory.toString());

        assertReported(status, Arguments.parse("--only", only).works(), directory);
    }

    private void assertReported(int status, List<Work> works, Path directory) throws Exception {
        assertThat(err.toString(StandardCharsets.UTF_8)).isEmpty();
        assertThat(status).isZero();
        List<String> expected = new ArrayList<>();
        works.forEach(work -> work.entrants().forEach(one -> expected.add(work.name() + "," + one.title())));
        List<String> results = Files.readAllLines(directory.resolve("results.csv"));
        assertThat(results.get(0))
                .isEqualTo("work,contender,decisions_per_s,p50_us,p99_us,server_us_per_decision,"
                        + "commands_per_decision,bytes_per_decision,client_us_per_decision");
        assertThat(results.stream().skip(1).map(row -> columns(row, 0, 2))).containsExactlyElementsOf(expected);
        List<String> rounds = Files.readAllLines(directory.resolve("rounds.csv"));
        assertThat(rounds.stream().skip(1).map(row -> columns(row, 1, 3))).containsExactlyElementsOf(expected);
        rounds.stream().skip(1).forEach(BenchmarkTest::countsAreConsistent);
        List<String> nodes = new ArrayList<>();
        works.forEach(work -> work.entrants()
                .forEach(one -> IntStream.rangeClosed(1, one.topology().primaries())
                        .forEach(node -> nodes.add(work.name() + "," + one.title() + "," + node))));
        List<String> shares = Files.readAllLines(directory.resolve("nodes.csv"));
        assertThat(shares.stream().skip(1).map(row -> columns(row, 1, 4))).containsExactlyElementsOf(nodes);
        // On a busy machine, a contender may get no reply within the short time that is measured here.
        Set<String> loaded = shares.stream()
                .filter(row -> row.contains(",cluster,spillgate")
                        && !columns(row, 4, 5).equals("0.0000"))
                .map(row -> columns(row, 3, 4))
                .collect(Collectors.toSet());
        assertThat(loaded)
                .as("primaries with a share of the load")
                .hasSize(works.stream().anyMatch(work -> work.name().equals("cluster")) ? 3 : 0);
        assertThat(directory.resolve("results.md"))
                .content()
                .contains("## " + works.get(0).name(), "| **spillgate counter** |", "bucket4j 8");
        for (Work work : works) {
            Path chart = directory.resolve(work.kind() + ".svg");
            DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(chart.toFile());
            assertThat(chart).content().contains(work.description());
        }
    }

    private static void countsAreConsistent(String row) {
        String[] columns = row.split(",", -1);
        long asked = Long.parseLong(columns[3]);
        long allowed = Long.parseLong(columns[4]);
        long denied = Long.parseLong(columns[5]);
        long fellBack = Long.parseLong(columns[6]);
        long failed = Long.parseLong(columns[7]);
        assertThat(asked).as(row).isPositive().isEqualTo(allowed + denied + fellBack + failed);
        assertThat(failed).as(row).isZero();
    }

    private static String columns(String row, int from, int to) {
        return String.join(",", List.of(row.split(",", -1)).subList(from, to));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                "--only nope; --only \"nope\" is no work; --only hot-key,denied",
                "--only hot-key,; --only \"\" is no work; --only hot-key,denied",
                "--rounds 0; --rounds \"0\" is out of range; --rounds 5",
                "--rounds 2.5; --rounds \"2.5\" is out of range; --rounds 5",
                "--seconds soon; --seconds \"soon\" is out of range; --seconds 0.5",
                "--seconds NaN; --seconds \"NaN\" is out of range; --seconds 0.5",
                "--out; --out has no value; --out target/benchmark",
                "--out pom.xml; --out \"pom.xml\" cannot be written to; --out target/benchmark",
                "--fast; \"--fast\" is unknown; --quick --only hot-key"
            })
    void aWrongArgumentIsReportedWithAnExample(String arguments, String complaint, String example) {
        assertThat(run(arguments.split(" ", -1))).isEqualTo(2);
        assertThat(err.toString(StandardCharsets.UTF_8)).contains(complaint, "expected", "for example " + example);
        assertThat(out.toString(StandardCharsets.UTF_8)).isEmpty();
    }

    @Test
    @Tag("thorough")
    void theMemoryOfKeysIsShown() {
        assertThat(run("--memory", "--quick")).isZero();
        assertThat(err.toString(StandardCharsets.UTF_8)).isEmpty();
        List<String> rows = out.toString(StandardCharsets.UTF_8)
                .lines()
                .filter(line -> line.matches("\\| [a-z].*"))
                .toList();
        assertThat(rows).hasSize(9).allMatch(row -> row.matches("\\|[^|]*\\|( [1-9][0-9,]* \\|){4}"));
    }

    @Test
    void helpListsEveryOptionAndWorkload() {
        assertThat(run("--help")).isZero();
        assertThat(out.toString(StandardCharsets.UTF_8))
                .contains("--quick", "--only", "--rounds", "--seconds", "--memory", "--simulate", "--out")
                .contains(Works.all().stream().map(Work::name).toList());
    }

    @Test
    void aKindSelectsAllItsWorkloads() {
        assertThat(Arguments.parse("--only", "keys,denied").works().stream().map(Work::name))
                .containsExactly("denied", "keys-1000", "keys-10000", "keys-100000", "keys-1000000");
    }

    private int run(String... arguments) {
        return Benchmark.run(
                new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(err, true, StandardCharsets.UTF_8),
                arguments);
    }
}
