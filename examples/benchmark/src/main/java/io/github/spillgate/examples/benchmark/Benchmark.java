package io.github.spillgate.examples.benchmark;

import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.Topology;
import io.github.spillgate.examples.benchmark.measure.Servers;
import io.github.spillgate.examples.benchmark.report.Report;
import io.github.spillgate.examples.benchmark.report.ReportHeader;
import io.github.spillgate.examples.benchmark.report.Result;
import io.github.spillgate.examples.benchmark.simulate.Simulation;
import io.github.spillgate.examples.benchmark.work.Work;
import io.github.spillgate.examples.benchmark.work.Works;
import io.github.spillgate.examples.benchmark.wrk.Wrk;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Compares our limiter with others in one run, on servers that it starts. Figures vary between machines and minutes;
 * only the ratios within one run, and their spread, are comparable.
 */
public final class Benchmark {

    private static final int FAILED = 1;
    private static final int WRONG_ARGUMENTS = 2;

    private Benchmark() {}

    public static void main(String[] arguments) {
        int status = run(System.out, System.err, arguments);
        if (status != 0) {
            System.exit(status);
        }
    }

    static int run(PrintStream out, PrintStream err, String... arguments) {
        Arguments asked;
        Report report;
        try {
            asked = Arguments.parse(arguments);
            if (asked.help()) {
                help(out);
                return 0;
            }
            report = Report.in(asked.out());
        } catch (IllegalArgumentException e) {
            err.println(e.getMessage());
            return WRONG_ARGUMENTS;
        }
        try {
            if (asked.simulate()) {
                Simulation.write(asked.out(), asked.quick(), out);
            } else if (asked.wrk()) {
                Wrk.write(asked.out(), asked.quick(), out);
            } else if (asked.memory()) {
                showMemory(asked, out);
            } else {
                measure(asked, report, out);
            }
            return 0;
        } catch (IOException | RuntimeException e) {
            err.println("The benchmark has failed: " + e.getMessage());
            e.printStackTrace(err);
            return FAILED;
        }
    }

    private static void help(PrintStream out) {
        out.print(Arguments.USAGE);
        Works.all().forEach(work -> out.printf("  %-18s %s%n", work.name(), work.description()));
    }

    private static void showMemory(Arguments asked, PrintStream out) throws IOException {
        try (Servers servers = new Servers()) {
            out.println(servers.redis(Topology.ALONE).version());
            new Memory(servers, out, asked.quick()).show();
        }
    }

    private static void measure(Arguments asked, Report report, PrintStream out) throws IOException {
        List<Result> results = new ArrayList<>();
        try (Servers servers = new Servers()) {
            String versions = asked.works().stream()
                    .flatMap(work -> work.entrants().stream())
                    .map(Entrant::topology)
                    .filter(topology -> !topology.isCluster())
                    .distinct()
                    .map(topology -> servers.of(topology).get(0).version())
                    .collect(Collectors.joining("; "));
            ReportHeader head = ReportHeader.of(
                    versions, asked.pace().rounds(), asked.pace().slice());
            head.lines().forEach(out::println);
            out.printf("This takes about %s.%n", about(asked));
            Rounds rounds = new Rounds(servers, asked.pace(), out);
            for (Work work : asked.works()) {
                out.printf("%n%s: %s%n", work.name(), work.description());
                List<Result> ofWork = rounds.of(work);
                results.addAll(ofWork);
                Report.show(ofWork, out);
            }
            report.write(head, results);
        }
        out.printf("%nWritten to %s%n", asked.out().toAbsolutePath());
    }

    private static String about(Arguments asked) {
        Duration time = asked.works().stream()
                .map(work -> asked.pace().of(work.entrants().size()))
                .reduce(Duration.ZERO, Duration::plus)
                .multipliedBy(5)
                .dividedBy(4);
        return time.toMinutes() < 3 ? (time.toSeconds() + 1) + " s" : (time.toMinutes() + 1) + " minutes";
    }
}
