package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.measure.Slice;
import io.github.spillgate.examples.benchmark.work.Baseline.Measure;
import io.github.spillgate.examples.benchmark.work.Work;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;

/** The results of one contender in all turns of a workload. */
public record Result(Work work, Entrant entrant, List<Slice> slices) {

    /** A token bucket refills during the measurement, and so allows a few requests. */
    private static final double A_FEW = 0.001;

    public Result {
        slices = List.copyOf(slices);
    }

    double median(ToDoubleFunction<Slice> what) {
        return median(slices.stream().mapToDouble(what).toArray());
    }

    static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    double least(ToDoubleFunction<Slice> what) {
        return slices.stream().mapToDouble(what).min().orElse(0);
    }

    double most(ToDoubleFunction<Slice> what) {
        return slices.stream().mapToDouble(what).max().orElse(0);
    }

    /** Returns the measure of the workload. */
    ToDoubleFunction<Slice> measure() {
        return work.baseline().measure() == Measure.DECISIONS ? Slice::perSecond : Slice::p50;
    }

    double measured(int round) {
        return measure().applyAsDouble(slices.get(round));
    }

    /** Returns warnings if the numbers do not measure this contender or this workload. */
    List<String> warnings() {
        List<String> warnings = new ArrayList<>();
        double all = Math.max(1, sum(Slice::asked));
        long fellBack = sum(Slice::fellBack);
        if (fellBack > 0) {
            long slicesWith =
                    slices.stream().filter(slice -> slice.fellBack() > 0).count();
            warnings.add(warning(
                    "%,d of %,.0f decisions, in %d of %d slices, came from the fallback and not from the server",
                    fellBack, all, slicesWith, slices.size()));
        }
        long failed = sum(Slice::failed);
        if (failed > 0) {
            warnings.add(warning(
                    "%,d of %,.0f decisions failed: %s",
                    failed, all, firstError().orElse("")));
        }
        long wrong = sum(work.denied() ? Slice::allowed : Slice::denied);
        if (entrant.isLimiter() && wrong / all > A_FEW) {
            warnings.add(warning("%,d of %,.0f decisions were %s", wrong, all, work.denied() ? "allowed" : "denied"));
        }
        return warnings;
    }

    private Optional<String> firstError() {
        return slices.stream().flatMap(slice -> slice.error().stream()).findFirst();
    }

    private long sum(ToLongFunction<Slice> what) {
        return slices.stream().mapToLong(what).sum();
    }

    private String warning(String text, Object... values) {
        return work.name() + ", " + entrant.title() + ": " + String.format(Locale.ROOT, text, values);
    }
}
