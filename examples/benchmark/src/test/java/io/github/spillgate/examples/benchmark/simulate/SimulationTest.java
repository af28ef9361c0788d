package io.github.spillgate.examples.benchmark.simulate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.examples.benchmark.simulate.Scenario.Algorithm;
import io.github.spillgate.examples.benchmark.simulate.SimulationCounts.OfCounter;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.DoubleSupplier;
import java.util.stream.DoubleStream;
import java.util.stream.LongStream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.w3c.dom.Document;

/** The statements, pictures and the table of the page on the simulation, compared with the simulation. */
@Tag("proof")
class SimulationTest {

    private static final Path DOCS =
            Path.of("..", "..", "docs", "background").toAbsolutePath().normalize();
    private static final int MINUTE = 60_000;

    @TempDir
    Path temp;

    @Test
    void aFixedWindowAdmitsTwiceItsLimitWithinASecond() {
        assertThat(Scenario.twoBursts().most(Algorithm.FIXED_WINDOW, 1_000)).isEqualTo(199);
        assertThat(Scenario.twoBursts().most(Algorithm.FIXED_WINDOW, MINUTE)).isEqualTo(200);
    }

    @Test
    void aLogNeverExceedsItsLimit() {
        for (Scenario scenario : List.of(Scenario.twoBursts(), Scenario.goingOn())) {
            assertThat(scenario.most(Algorithm.LOG, MINUTE)).isEqualTo(100);
            assertThat(scenario.most(Algorithm.LOG_COUNTING_DENIED, MINUTE)).isEqualTo(100);
        }
    }

    @Test
    void aCounterHoldsForTwoBursts() {
        assertThat(Scenario.twoBursts().most(Algorithm.COUNTER, MINUTE)).isEqualTo(100);
        assertThat(Scenario.twoBursts().most(Algorithm.COUNTER_ALIGNED, MINUTE)).isEqualTo(100);
    }

    @Test
    void aCounterAdmitsAlmostTwiceItsLimitInTheWorstCaseButNeverAtOnce() {
        for (Algorithm counter : List.of(Algorithm.COUNTER, Algorithm.COUNTER_ALIGNED)) {
            assertThat(Scenario.goingOn().most(counter, MINUTE)).isBetween(190, 199);
            assertThat(Scenario.goingOn().most(counter, 1_000)).isLessThanOrEqualTo(100);
        }
    }

    @Test
    void countingDeniedKeepsDenyingAClientThatContinues() {
        assertThat(Scenario.goingOn().admitted(Algorithm.LOG_COUNTING_DENIED)).allMatch(at -> at < MINUTE);
        assertThat(Scenario.goingOn().admitted(Algorithm.LOG)).anyMatch(at -> at > MINUTE);
    }

    @ParameterizedTest
    @EnumSource
    void aLogDecidesLikeBruteForce(ArrivalPattern pattern) {
        Limit limit = Limit.perMinute(100);
        Mix exactlyAtTheLimit = new Mix("at the limit", limit, 10, List.of(pattern), chance -> limit.permits());
        SimulationCounts tally = new MixSimulation(exactlyAtTheLimit, 20).decide();
        assertThat(tally.denied).isPositive();
        assertThat(tally.wrongOfLog).isZero();
    }

    @Test
    void bruteForceDetectsALogThatIsOffByAMillisecond() {
        Limit limit = Limit.of(2, Duration.ofMillis(10));
        Admission exact = new BruteForce(limit);
        assertThat(LongStream.of(0, 4, 10, 11, 14, 15, 16).filter(exact::admits))
                .containsExactly(0L, 4L, 11L, 15L);
    }

    @Test
    void aCounterDeniesOtherRequestsThanALogButAdmitsAsMany() {
        SimulationCounts tally = new MixSimulation(Mix.heavyTailed(100, Limit.perMinute(100), 240), 60).decide();
        assertThat(tally.asked).isGreaterThan(50_000);
        for (OfCounter counter : List.of(tally.fromFirstHit, tally.aligned)) {
            double log = tally.asked - tally.denied;
            assertThat(counter.allowed / log).isBetween(0.99, 1.01);
            assertThat(counter.wronglyAllowed + counter.wronglyDenied).isBetween(1L, tally.asked / 5);
            assertThat(counter.mostInAWindow).isBetween(101L, 199L);
        }
    }

    @ParameterizedTest
    @EnumSource
    void everyPatternHasTheSameRate(ArrivalPattern pattern) {
        Limit limit = Limit.perMinute(100);
        long requests = LongStream.range(0, 100)
                .map(client -> {
                    DoubleSupplier gaps = pattern.gaps(30, limit, new SeededRandom(client));
                    return DoubleStream.iterate(gaps.getAsDouble(), time -> time + gaps.getAsDouble())
                            .takeWhile(time -> time < 100 * MINUTE)
                            .count();
                })
                .sum();
        assertThat(requests / (100 * 100 * 30.0)).isBetween(0.95, 1.05);
    }

    @ParameterizedTest
    @ValueSource(ints = {10, 1_000})
    void theStatedShareOfClientsIsAboveTheLimit(int oneIn) {
        Mix mix = Mix.heavyTailed(oneIn, Limit.perMinute(100), 1);
        long above = LongStream.range(0, 100_000)
                .filter(seed -> mix.rate().applyAsDouble(new SeededRandom(seed)) > 100)
                .count();
        assertThat(above / (100_000.0 / oneIn)).isBetween(0.75, 1.25);
    }

    @Test
    void thePicturesOfThePageMatchTheSimulation() throws Exception {
        for (Scenario scenario : List.of(Scenario.twoBursts(), Scenario.goingOn())) {
            Path picture = DOCS.resolve("simulation").resolve(scenario.name() + ".svg");
            assertThat(picture).content().isEqualTo(scenario.svg());
            Document svg =
                    DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(picture.toFile());
            assertThat(svg.getElementsByTagName("title").item(0).getTextContent())
                    .isEqualTo(scenario.title());
            assertThat(svg.getElementsByTagName("desc").item(0).getTextContent())
                    .contains(scenario.caption());
        }
    }

    /** Checks one row, because the whole table takes a minute. */
    @Test
    void theFiguresOfThePageMatchTheSimulation() throws Exception {
        Mix oneInTen = MixTable.mixes().get(6);
        assertThat(Files.readAllLines(DOCS.resolve("simulation.md"))).contains(new MixTable(1).row(oneInTen));
    }

    @Test
    void theTableIsReplacedInPlace() throws Exception {
        Path file = temp.resolve("simulation.md");
        Files.writeString(file, "Before.\n\n<!-- simulated: limiting -->\n| old |\n<!-- end -->\n\nAfter.\n");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Simulation.write(temp, true, new PrintStream(out, true, StandardCharsets.UTF_8));

        String head = Files.readAllLines(DOCS.resolve("simulation.md")).stream()
                .filter(line -> line.startsWith("| rate of the clients"))
                .findFirst()
                .orElseThrow();
        assertThat(file)
                .content()
                .startsWith("Before.\n\n<!-- simulated: limiting -->\n" + head)
                .contains("|\n<!-- end -->\n\nAfter.\n")
                .doesNotContain("old");
        assertThat(out.toString(StandardCharsets.UTF_8)).contains("1 in 10,000 above it", temp.toString());
    }
}
