package io.github.spillgate.testkit;

import io.github.spillgate.Source;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Corrected.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Results of corrections. */
public final class CorrectedForTests {

    private CorrectedForTests() {}

    /** Returns the result of a correction with this reply; it was applied now if the reply has a stamp. */
    public static Corrected of(StoreDecision reply) {
        StoreUsage usage = reply.usages().isEmpty() ? null : reply.usages().get(0);
        return new Corrected(
                reply.stamp() > 0 ? CorrectionOutcome.APPLIED : CorrectionOutcome.WITHOUT_EFFECT,
                new Reply(usage, reply.at().toEpochMilli(), reply.stamp()));
    }

    /** Returns the reply to a correction as a decision. */
    public static StoreDecision asDecision(Corrected result) {
        Reply reply = replyOf(result);
        StoreUsage usage = reply.usage();
        return StoreDecision.ofPeek(
                Source.OTHER, reply.at(), reply.stamp(), usage == null ? List.of() : List.of(usage));
    }

    /** Returns the usages in the replies, of those that have one. */
    public static List<StoreUsage> usages(@Nullable List<Corrected> results) {
        return Objects.requireNonNull(results).stream()
                .map(result -> Objects.requireNonNull(result.reply()).usage())
                .flatMap(Stream::ofNullable)
                .toList();
    }

    /** Returns the reply to a correction. */
    public static Reply replyOf(Corrected result) {
        return Objects.requireNonNull(result.reply());
    }
}
