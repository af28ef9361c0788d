package io.github.spillgate.examples.benchmark;

import io.github.spillgate.examples.benchmark.work.Work;
import io.github.spillgate.examples.benchmark.work.Works;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.stream.Collectors;

/** The parsed arguments of the command line. */
record Arguments(
        boolean help,
        boolean quick,
        boolean memory,
        boolean simulate,
        boolean wrk,
        Path out,
        List<Work> works,
        Pace pace) {

    static final String USAGE = """
            Usage: mvn -q -pl examples/benchmark -am test-compile exec:exec -Dexec.args="[options]"

              --quick              fewer and shorter slices, in about four minutes, for a first look
              --only WORK[,WORK]   only these workloads, or kinds of workloads
              --rounds N           how often each contender is measured, 1 to 100 (5; quick: 3)
              --seconds S          the duration of a measurement, 0.01 to 60 (1; quick: 0.15)
              --memory             measures the memory of keys in Redis instead, in five minutes
              --simulate           simulates what each algorithm admits instead, without Redis, in a minute
              --wrk                measures HTTP servers with wrk instead, which must be installed, in ten minutes
              --out DIR            the directory of results.csv, rounds.csv, nodes.csv, results.md and the charts
              --help               prints this text

            Workloads:
            """;

    private static final String OUT = "spillgate.benchmark.out";

    static Arguments parse(String... arguments) {
        boolean help = false;
        boolean memory = false;
        boolean simulate = false;
        boolean quick = false;
        boolean wrk = false;
        Path out = Path.of(System.getProperty(OUT, "target/benchmark"));
        List<Work> works = Works.all();
        double rounds = 0;
        double seconds = 0;
        Deque<String> left = new ArrayDeque<>(Arrays.asList(arguments));
        while (!left.isEmpty()) {
            String option = left.remove();
            switch (option) {
                case "--help", "-h" -> help = true;
                case "--memory" -> memory = true;
                case "--simulate" -> simulate = true;
                case "--quick" -> quick = true;
                case "--wrk" -> wrk = true;
                case "--out" -> out = path(value(option, left, "a directory", "--out target/benchmark"));
                case "--only" -> works = only(value(option, left, "names of works", "--only hot-key,denied"), works);
                case "--rounds" ->
                    rounds = number(option, left, "a whole number from 1 to 100", "--rounds 5", 1, 100, true);
                case "--seconds" ->
                    seconds = number(option, left, "a number from 0.01 to 60", "--seconds 0.5", 0.01, 60, false);
                default ->
                    throw new IllegalArgumentException(
                            "argument \"" + option + "\" is unknown: expected one of --quick, --only,"
                                    + " --rounds, --seconds, --memory, --simulate, --wrk, --out and --help,"
                                    + " for example --quick --only hot-key");
            }
        }
        Pace pace = quick ? Pace.QUICK : Pace.FULL;
        pace = rounds == 0 ? pace : pace.rounds((int) rounds);
        pace = seconds == 0 ? pace : pace.slice(Duration.ofNanos((long) (seconds * 1e9)));
        return new Arguments(help, quick, memory, simulate, wrk, out, works, pace);
    }

    private static String value(String option, Deque<String> left, String what, String example) {
        String value = left.poll();
        if (value == null) {
            throw new IllegalArgumentException(
                    "argument " + option + " has no value: expected " + what + ", for example " + example);
        }
        return value;
    }

    private static Path path(String text) {
        try {
            return Path.of(text);
        } catch (InvalidPathException e) {
            throw new IllegalArgumentException(
                    "--out \"" + text + "\" is no path: expected a directory, for example --out target/benchmark", e);
        }
    }

    private static List<Work> only(String text, List<Work> all) {
        List<String> names = List.of(text.split(",", -1));
        for (String name : names) {
            if (all.stream().noneMatch(work -> isMeant(name, work))) {
                throw new IllegalArgumentException("--only \"" + name + "\" is no work: expected one or more of "
                        + all.stream()
                                .flatMap(work -> List.of(work.kind(), work.name()).stream())
                                .distinct()
                                .collect(Collectors.joining(", "))
                        + ", for example --only hot-key,denied");
            }
        }
        return all.stream()
                .filter(work -> names.stream().anyMatch(name -> isMeant(name, work)))
                .toList();
    }

    private static boolean isMeant(String name, Work work) {
        return name.equals(work.kind()) || name.equals(work.name());
    }

    private static double number(
            String option, Deque<String> left, String what, String example, double least, double most, boolean whole) {
        String text = value(option, left, what, example);
        double number;
        try {
            number = Double.parseDouble(text);
        } catch (NumberFormatException e) {
            number = Double.NaN;
        }
        if (!(number >= least && number <= most) || (whole && number != Math.rint(number))) {
            throw new IllegalArgumentException(
                    option + " \"" + text + "\" is out of range: expected " + what + ", for example " + example);
        }
        return number;
    }
}
