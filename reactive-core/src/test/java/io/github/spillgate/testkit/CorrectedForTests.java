package io.github.spillgate.testkit;

import io.github.spillgate.Source;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Results of corrections. */
public final class CorrectedForTests {

    private CorrectedForTests() {}

    /** Returns the result of a correction with this usage; it was applied now if the reply has a stamp. */
    public static Corrected of(StoreUsage usage) {
        return new Corrected(
                usage.reply().stamp() > 0 ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT, usage);
    }

    /** Returns the reply to a correction as a decision. */
    public static StoreDecision asDecision(Corrected result) {
        StoreUsage usage = result.usage();
        return usage == null
                ? StoreDecision.ofPeek(new Reply(Source.OTHER, 0), List.of())
                : StoreDecision.ofPeek(usage.reply(), List.of(usage));
    }

    /** Returns the usages in the replies, of those that have one. */
    public static List<StoreUsage> usages(@Nullable List<Corrected> results) {
        return Objects.requireNonNull(results).stream()
                .flatMap(result -> Stream.ofNullable(result.usage()))
                .toList();
    }

    /** Returns the usage in the reply to a correction. */
    public static StoreUsage usageOf(Corrected result) {
        return Objects.requireNonNull(result.usage());
    }
}
