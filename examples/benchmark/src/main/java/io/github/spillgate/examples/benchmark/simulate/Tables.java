package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.examples.benchmark.simulate.SimulationCounts.OfCounter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The differences between a counter and a log on simulated traffic: the mixes, and their tables. */
final class Tables {

    /** The number of windows in which each client sends requests. */
    private static final int WINDOWS = 60;

    private static final double[] TIMES = {0.5, 0.8, 1, 1.25, 2, 5};

    private static final int REQUESTS_OF_ONE_KIND = 1_000_000;

    private final int part;
    private long requests;

    /** Creates tables of one client in {@code part}. */
    Tables(int part) {
        this.part = part;
    }

    /** Returns the number of requests that were decided for these tables. */
    long requests() {
        return requests;
    }

    private static List<Mix> mixes() {
        Limit limit = Limit.perMinute(100);
        return List.of(
                Mix.below("below a quarter of the limit", 0.25, limit, 270_000),
                Mix.below("below half of it", 0.5, limit, 270_000),
                Mix.below("below it", 1, limit, 270_000),
                Mix.heavyTailed(10_000, limit, 270_000),
                Mix.heavyTailed(1_000, limit, 54_000),
                Mix.heavyTailed(100, limit, 8_000),
                Mix.heavyTailed(10, limit, 1_200),
                Mix.heavyTailed(1_000, Limit.perMinute(10), 300_000),
                Mix.heavyTailed(1_000, Limit.perMinute(1_000), 5_400));
    }

    private record Decided(Mix mix, SimulationCounts tally) {}

    private Decided decide(Mix mix) {
        Mix some = mix.of(Math.max(1, mix.clients() / part));
        SimulationCounts tally = new MixSimulation(some, WINDOWS).decide();
        requests += tally.asked;
        return new Decided(some, tally);
    }

    /**
     * Returns two tables of the same simulations: the estimates of counters that count all requests, and the decisions
     * of counters compared with the log.
     */
    List<List<String>> ofMixes() {
        List<Decided> all = mixes().stream().map(this::decide).toList();
        return List.of(counting(all), limiting(all));
    }

    private static List<String> counting(List<Decided> all) {
        return table(
                List.of(
                        "rate of the clients",
                        "limit",
                        "clients",
                        "requests",
                        "counter: wrong",
                        "off by",
                        "counter aligned: wrong",
                        "off by"),
                all,
                decided -> List.of(
                        decided.mix.title(),
                        decided.mix.limit().toString(),
                        number(decided.mix.clients()),
                        number(decided.tally.asked),
                        percent(wrong(decided.tally.fromFirstHit), decided.tally.asked),
                        off(decided.tally.fromFirstHit, decided.tally.asked),
                        percent(wrong(decided.tally.aligned), decided.tally.asked),
                        off(decided.tally.aligned, decided.tally.asked)));
    }

    private static List<String> limiting(List<Decided> all) {
        return table(
                List.of(
                        "rate of the clients",
                        "limit",
                        "denied by the log",
                        "wrong",
                        "counter: allowed instead",
                        "denied instead",
                        "in all",
                        "most in a minute",
                        "counter aligned: allowed instead",
                        "denied instead",
                        "in all",
                        "most in a minute"),
                all,
                decided -> {
                    SimulationCounts tally = decided.tally;
                    List<String> cells = new ArrayList<>(List.of(
                            decided.mix.title(),
                            decided.mix.limit().toString(),
                            percent(tally.denied, tally.asked),
                            number(tally.wrongOfLog)));
                    cells.addAll(beside(tally, tally.fromFirstHit));
                    cells.addAll(beside(tally, tally.aligned));
                    return cells;
                });
    }

    private static List<String> beside(SimulationCounts tally, OfCounter counter) {
        return List.of(
                percent(counter.wronglyAllowed, tally.asked),
                percent(counter.wronglyDenied, tally.asked),
                more(counter, tally),
                number(counter.mostInAWindow));
    }

    /** Returns the errors by the rate of a client, relative to its limit, and by its pattern. */
    List<String> near() {
        List<String> head = new ArrayList<>(List.of("rate, × the limit"));
        for (ArrivalPattern pattern : ArrivalPattern.values()) {
            head.addAll(List.of(pattern.title() + ": wrong", "not as the log", "in all"));
        }
        return table(head, Arrays.stream(TIMES).boxed().toList(), this::near);
    }

    private List<String> near(double times) {
        List<String> cells = new ArrayList<>(List.of(String.format(Locale.ROOT, "%.2f", times)));
        for (ArrivalPattern pattern : ArrivalPattern.values()) {
            cells.addAll(near(times, pattern));
        }
        return cells;
    }

    /** Returns the cells of clients with this multiple of the limit and this pattern. */
    List<String> near(double times, ArrivalPattern pattern) {
        Limit limit = Limit.perMinute(100);
        int clients = (int) Math.ceil(REQUESTS_OF_ONE_KIND / (times * limit.permits() * WINDOWS));
        SimulationCounts tally = decide(Mix.alike(times, pattern, limit, clients)).tally;
        OfCounter counter = tally.fromFirstHit;
        return List.of(
                percent(wrong(counter), tally.asked),
                percent(counter.wronglyAllowed + counter.wronglyDenied, tally.asked),
                more(counter, tally));
    }

    /** A line of a table. */
    private static String line(List<String> cells) {
        return "| " + String.join(" | ", cells) + " |";
    }

    private static <T> List<String> table(List<String> head, List<T> rows, Function<T, List<String>> cells) {
        List<String> lines = new ArrayList<>();
        lines.add(line(head));
        lines.add("|---|" + head.stream().skip(1).map(cell -> "---:|").collect(Collectors.joining()));
        rows.forEach(row -> lines.add(line(cells.apply(row))));
        return lines;
    }

    private static long wrong(OfCounter counter) {
        return counter.wronglyOver + counter.wronglyUnder;
    }

    private static String off(OfCounter counter, long asked) {
        return String.format(Locale.ROOT, "%.1f %%", 100 * counter.off / asked);
    }

    private static String percent(long some, long all) {
        return some == 0 ? "0" : String.format(Locale.ROOT, "%.3f %%", 100.0 * some / all);
    }

    private static String more(OfCounter counter, SimulationCounts tally) {
        double percent = 100.0 * counter.allowed / (tally.asked - tally.denied) - 100;
        return Math.abs(percent) < 0.005 ? "0" : String.format(Locale.ROOT, "%+.2f %%", percent);
    }

    private static String number(long number) {
        return String.format(Locale.ROOT, "%,d", number);
    }
}
