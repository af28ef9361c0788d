package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.measure.Slice;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The numbers for programs. No name in them has a comma. */
final class Csv {

    private static final String MEASURES =
            "decisions_per_s,p50_us,p99_us,redis_us_per_decision,redis_commands_per_decision,bytes_per_decision";

    private Csv() {}

    static List<String> medians(List<Result> results) {
        return lines(
                "work,contender," + MEASURES,
                results.stream()
                        .map(result -> name(result) + ","
                                + measures(
                                        result.median(Slice::perSecond),
                                        result.median(Slice::p50),
                                        result.median(Slice::p99),
                                        result.median(Slice::redisMicros),
                                        result.median(Slice::redisCommands),
                                        result.median(Slice::bytes))));
    }

    static List<String> slices(List<Result> results) {
        return lines(
                "round,work,contender,asked,allowed,denied,fell_back,failed," + MEASURES,
                results.stream()
                        .flatMap(result -> IntStream.range(0, result.slices().size())
                                .mapToObj(i ->
                                        slice(i + 1, result, result.slices().get(i)))));
    }

    private static String slice(int round, Result result, Slice slice) {
        return String.format(
                Locale.ROOT,
                "%d,%s,%d,%d,%d,%d,%d,%s",
                round,
                name(result),
                slice.asked(),
                slice.allowed(),
                slice.denied(),
                slice.fellBack(),
                slice.failed(),
                measures(
                        slice.perSecond(),
                        slice.p50(),
                        slice.p99(),
                        slice.redisMicros(),
                        slice.redisCommands(),
                        slice.bytes()));
    }

    private static List<String> lines(String header, Stream<String> rows) {
        return Stream.concat(Stream.of(header), rows).toList();
    }

    private static String name(Result result) {
        return result.work().name() + "," + result.entrant().title();
    }

    private static String measures(
            double perSecond, double p50, double p99, double redisMicros, double commands, double bytes) {
        return String.format(
                Locale.ROOT, "%.0f,%.2f,%.2f,%.3f,%.4f,%.0f", perSecond, p50, p99, redisMicros, commands, bytes);
    }
}
