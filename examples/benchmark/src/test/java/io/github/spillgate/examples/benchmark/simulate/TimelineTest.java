package io.github.spillgate.examples.benchmark.simulate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.examples.benchmark.report.StepChart.Step;
import io.github.spillgate.examples.benchmark.report.TimelineChart;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The pictures on the page on limits, compared with the decisions of the limiter. */
class TimelineTest {

    private static final Path DOCS = Path.of("..", "..", "docs");
    private static final double DAY = 86_400;

    private final Map<String, TimelineChart> charts = all().collect(Collectors.toMap(Timeline::name, Timeline::chart));

    static Stream<Timeline> all() {
        return Timeline.all().stream();
    }

    @ParameterizedTest
    @MethodSource("all")
    void thePageShowsThePictureOfTheDecisions(Timeline timeline) throws Exception {
        String picture = "background/simulation/" + timeline.name() + ".svg";
        TimelineChart chart = timeline.chart();
        assertThat(DOCS.resolve(picture)).content().isEqualTo(chart.svg());
        assertThat(Files.readString(DOCS.resolve("limits.md")))
                .contains("![" + chart.description() + "](" + picture + ")");
    }

    @Test
    void onlyAQuotaReturnsAllPermitsAtMidnight() {
        assertThat(usedAtMidnight("quota")).isZero();
        assertThat(List.of("log", "counter", "bucket"))
                .allSatisfy(kind -> assertThat(usedAtMidnight(kind)).isPositive());
    }

    private int usedAtMidnight(String kind) {
        Map<Double, Integer> used = charts.get(kind).used().stream().collect(Collectors.toMap(Step::at, Step::height));
        return used.get(DAY);
    }

    @Test
    void onlyALogAllowsNoMoreThanItsPermitsInAnyDay() {
        Function<String, Integer> most = kind -> {
            SlidingCount count = new SlidingCount((long) DAY);
            return charts.get(kind).allowed().stream()
                    .mapToInt(at -> count.add(at.longValue()))
                    .max()
                    .orElseThrow();
        };
        assertThat(most.apply("log")).isEqualTo(10);
        assertThat(List.of("counter", "bucket", "quota"))
                .allSatisfy(kind -> assertThat(most.apply(kind)).isGreaterThan(10));
    }
}
