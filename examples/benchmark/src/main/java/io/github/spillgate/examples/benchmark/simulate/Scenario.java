package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.examples.benchmark.report.StepChart;
import io.github.spillgate.examples.benchmark.report.StepChart.Mark;
import io.github.spillgate.examples.benchmark.report.StepChart.Row;
import io.github.spillgate.examples.benchmark.report.StepChart.Step;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * The requests of one client, and what each algorithm admits of them.
 *
 * @param name the name of the file of the picture
 * @param title the title of the picture
 * @param caption what the client does
 * @param requests the instants of requests, in milliseconds from the start
 * @param marks the same requests, marked in the picture
 * @param seconds the duration of the picture
 * @param algorithms the algorithms that decide
 */
record Scenario(
        String name,
        String title,
        String caption,
        List<Long> requests,
        List<Mark> marks,
        int seconds,
        List<Algorithm> algorithms) {

    /** The limit of every client. */
    static final Limit LIMIT = Limit.perMinute(100);

    private static final int BURST = (int) LIMIT.permits();
    private static final long WINDOW = LIMIT.window().toMillis();

    /**
     * An algorithm.
     *
     * @param title the title in the picture
     * @param limit the limit
     * @param ours whether the algorithm is ours or the bad example
     */
    record Algorithm(String title, Limit limit, boolean ours) {

        static final Algorithm FIXED_WINDOW = new Algorithm("fixed window", LIMIT, false);
        static final Algorithm LOG = new Algorithm("log", LIMIT, true);
        static final Algorithm LOG_COUNTING_DENIED =
                new Algorithm("log, counting denied", LIMIT.countingDenied(), true);
        static final Algorithm COUNTER = new Algorithm("counter", LIMIT.counter(), true);
        static final Algorithm COUNTER_ALIGNED =
                new Algorithm("counter aligned", LIMIT.counter().alignedToClock(), true);

        private Admission admission() {
            return ours ? new LocalLimiter(limit, 1).of("client") : new FixedWindow(limit);
        }
    }

    /**
     * Two full bursts around the end of a minute of the clock, and two around the end of a minute since the first
     * request.
     */
    static Scenario twoBursts() {
        return new Scenario(
                "two-bursts",
                "Two bursts, half a second apart",
                "A client asks once, half a minute later " + BURST + " times at once, and " + BURST
                        + " times again half a second later, when a new minute of the clock has begun; and the same"
                        + " once more around the end of a minute since its first request.",
                all(LongStream.of(30_000), burst(59_750), burst(60_250), burst(149_750), burst(150_250)),
                List.of(
                        new Mark(30, 30, "1"),
                        new Mark(59.75, 60.25, BURST + " and " + BURST + ", 0.5 s apart"),
                        new Mark(149.75, 150.25, BURST + " and " + BURST + ", 0.5 s apart")),
                240,
                List.of(Algorithm.FIXED_WINDOW, Algorithm.LOG, Algorithm.COUNTER, Algorithm.COUNTER_ALIGNED));
    }

    /**
     * The worst case of a counter: a full burst at the end of a window, which then fades as if it had been spread
     * evenly.
     */
    static Scenario goingOn() {
        return new Scenario(
                "going-on",
                "A burst at the end of a window, and then without a pause",
                "A client asks once, a minute later " + BURST + " times at once, and then four times a second"
                        + " for three minutes, also after denials.",
                all(
                        LongStream.of(0),
                        burst(59_500),
                        LongStream.range(0, 4 * 180).map(i -> 59_750 + 250 * i)),
                List.of(
                        new Mark(0, 0, "1"),
                        new Mark(59.5, 59.5, BURST + ", then 4 a second"),
                        new Mark(59.75, 239.75, "")),
                330,
                List.of(
                        Algorithm.FIXED_WINDOW,
                        Algorithm.LOG,
                        Algorithm.LOG_COUNTING_DENIED,
                        Algorithm.COUNTER,
                        Algorithm.COUNTER_ALIGNED));
    }

    private static LongStream burst(long at) {
        return LongStream.range(0, BURST).map(i -> at + i / 2);
    }

    private static List<Long> all(LongStream... requests) {
        return Stream.of(requests).flatMap(LongStream::boxed).toList();
    }

    /** Returns the instants at which an algorithm admitted a request, in milliseconds from the start. */
    List<Long> admitted(Algorithm algorithm) {
        Admission admission = algorithm.admission();
        return requests.stream()
                .filter(at -> admission.admits(VirtualClock.START + at))
                .toList();
    }

    /** Returns the most requests that an algorithm admitted in any window of this length. */
    int most(Algorithm algorithm, long millis) {
        SlidingCount count = new SlidingCount(millis);
        return admitted(algorithm).stream().mapToInt(count::add).max().orElse(0);
    }

    String svg() {
        String note = "admitted within the last minute, at each moment; the limit is " + LIMIT.permits() + " a minute";
        String outcome = algorithms.stream()
                .map(algorithm -> algorithm.title + " " + most(algorithm, WINDOW))
                .collect(Collectors.joining(", "));
        String description = caption + " The most admitted in any minute: " + outcome + ".";
        List<Row> rows = algorithms.stream().map(this::row).toList();
        return new StepChart(title, note, description, "the client asks", BURST, seconds, marks, rows).svg();
    }

    private Row row(Algorithm algorithm) {
        // An admitted request counts until it is older than a window.
        TreeMap<Long, Integer> changes = new TreeMap<>();
        for (long at : admitted(algorithm)) {
            changes.merge(at, 1, Integer::sum);
            changes.merge(at + WINDOW + 1, -1, Integer::sum);
        }
        List<Step> steps = new ArrayList<>();
        int height = 0;
        for (Map.Entry<Long, Integer> change : changes.entrySet()) {
            height += change.getValue();
            steps.add(new Step(change.getKey() / 1_000.0, height));
        }
        String most = most(algorithm, WINDOW) + " in a minute, " + most(algorithm, 1_000) + " in a second";
        return new Row(algorithm.title, algorithm.ours, most, steps);
    }
}
