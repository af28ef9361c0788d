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
 * @param says what the client does
 * @param asks the instants of requests, in milliseconds from the start
 * @param marks the same requests, marked in the picture
 * @param seconds the duration of the picture
 * @param contenders the algorithms that decide
 */
record Scene(
        String name,
        String title,
        String says,
        List<Long> asks,
        List<Mark> marks,
        int seconds,
        List<Contender> contenders) {

    /** The limit of every client. */
    static final Limit LIMIT = Limit.perMinute(100);

    private static final int BURST = (int) LIMIT.permits();
    private static final long WINDOW = LIMIT.window().toMillis();

    /**
     * An algorithm.
     *
     * @param says the name in the picture
     * @param limit the limit
     * @param ours whether the algorithm is ours or the bad example
     */
    record Contender(String says, Limit limit, boolean ours) {

        static final Contender FIXED_WINDOW = new Contender("fixed window", LIMIT, false);
        static final Contender LOG = new Contender("log", LIMIT, true);
        static final Contender LOG_COUNTING_DENIED =
                new Contender("log, counting denied", LIMIT.countingDenied(), true);
        static final Contender COUNTER = new Contender("counter", LIMIT.counter(), true);
        static final Contender COUNTER_ALIGNED =
                new Contender("counter aligned", LIMIT.counter().alignedToClock(), true);

        private Admission admission() {
            return ours ? new Ours(limit, 1).of("client") : new FixedWindow(limit);
        }
    }

    /**
     * Two full bursts around the end of a minute of the clock, and two around the end of a minute since the first
     * request.
     */
    static Scene twoBursts() {
        return new Scene(
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
                List.of(Contender.FIXED_WINDOW, Contender.LOG, Contender.COUNTER, Contender.COUNTER_ALIGNED));
    }

    /**
     * The worst case of a counter: a full burst at the end of a window, which then fades as if it had been spread
     * evenly.
     */
    static Scene goingOn() {
        return new Scene(
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
                        Contender.FIXED_WINDOW,
                        Contender.LOG,
                        Contender.LOG_COUNTING_DENIED,
                        Contender.COUNTER,
                        Contender.COUNTER_ALIGNED));
    }

    private static LongStream burst(long at) {
        return LongStream.range(0, BURST).map(i -> at + i / 2);
    }

    private static List<Long> all(LongStream... asks) {
        return Stream.of(asks).flatMap(LongStream::boxed).toList();
    }

    /** Returns the instants at which a contender admitted a request, in milliseconds from the start. */
    List<Long> admitted(Contender contender) {
        Admission admission = contender.admission();
        return asks.stream()
                .filter(at -> admission.admits(VirtualClock.START + at))
                .toList();
    }

    /** Returns the most requests that a contender admitted in any window of this length. */
    int most(Contender contender, long millis) {
        Lately lately = new Lately(millis);
        return admitted(contender).stream().mapToInt(lately::add).max().orElse(0);
    }

    String svg() {
        String note = "admitted within the last minute, at each moment; the limit is " + LIMIT.permits() + " a minute";
        String outcome = contenders.stream()
                .map(contender -> contender.says + " " + most(contender, WINDOW))
                .collect(Collectors.joining(", "));
        String description = says + " The most admitted in any minute: " + outcome + ".";
        List<Row> rows = contenders.stream().map(this::row).toList();
        return new StepChart(title, note, description, BURST, seconds, marks, rows).svg();
    }

    private Row row(Contender contender) {
        // An admitted request counts until it is older than a window.
        TreeMap<Long, Integer> changes = new TreeMap<>();
        for (long at : admitted(contender)) {
            changes.merge(at, 1, Integer::sum);
            changes.merge(at + WINDOW + 1, -1, Integer::sum);
        }
        List<Step> steps = new ArrayList<>();
        int height = 0;
        for (Map.Entry<Long, Integer> change : changes.entrySet()) {
            height += change.getValue();
            steps.add(new Step(change.getKey() / 1_000.0, height));
        }
        String most = most(contender, WINDOW) + " in a minute, " + most(contender, 1_000) + " in a second";
        return new Row(contender.says, contender.ours, most, steps);
    }
}
