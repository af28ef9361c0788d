package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.examples.benchmark.simulate.SimulationCounts.OfCounter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The table of the decisions of counters that differ from those of a log, on simulated traffic of many clients. */
final class MixTable {

    /** The number of windows in which each client sends requests. */
    private static final int WINDOWS = 60;

    private static final List<String> HEAD = List.of(
            "| rate of the clients | limit | denied by the log | wrong | counter: allowed instead | denied instead"
                    + " | in all | most in a minute | counter aligned: allowed instead | denied instead | in all"
                    + " | most in a minute |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");

    private final int part;
    private long requests;

    /** Creates a table of one client in {@code part}. */
    MixTable(int part) {
        this.part = part;
    }

    /** Returns the number of requests that were decided for this table. */
    long requests() {
        return requests;
    }

    static List<Mix> mixes() {
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

    List<String> lines() {
        List<String> lines = new ArrayList<>(HEAD);
        mixes().forEach(mix -> lines.add(row(mix)));
        return lines;
    }

    /** Returns the row of a mix, with the whole or a part of its clients. */
    String row(Mix mix) {
        SimulationCounts counts = new MixSimulation(mix.of(Math.max(1, mix.clients() / part)), WINDOWS).decide();
        requests += counts.asked;
        List<String> cells = new ArrayList<>(List.of(
                mix.title(),
                mix.limit().toString(),
                percent(counts.denied, counts.asked),
                String.format(Locale.ROOT, "%,d", counts.wrongOfLog)));
        for (OfCounter counter : List.of(counts.fromFirstHit, counts.aligned)) {
            cells.add(percent(counter.wronglyAllowed, counts.asked));
            cells.add(percent(counter.wronglyDenied, counts.asked));
            cells.add(more(counter, counts));
            cells.add(String.format(Locale.ROOT, "%,d", counter.mostInAWindow));
        }
        return "| " + String.join(" | ", cells) + " |";
    }

    private static String percent(long some, long all) {
        return some == 0 ? "0" : String.format(Locale.ROOT, "%.3f %%", 100.0 * some / all);
    }

    private static String more(OfCounter counter, SimulationCounts counts) {
        double percent = 100.0 * counter.allowed / (counts.asked - counts.denied) - 100;
        return Math.abs(percent) < 0.005 ? "0" : String.format(Locale.ROOT, "%+.2f %%", percent);
    }
}
