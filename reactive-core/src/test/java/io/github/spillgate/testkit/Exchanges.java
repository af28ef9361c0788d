package io.github.spillgate.testkit;

import io.github.spillgate.internal.Time;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Exchanges of processes with a store. */
public final class Exchanges {

    private Exchanges() {}

    /** Returns the reply of a store without published values, with so many instances of each limiter. */
    public static FleetExchange.FleetReply counted(FleetExchange request, int instances) {
        return new FleetExchange.FleetReply(
                Time.millis() * 1_000,
                Collections.nCopies(request.limiters().size(), instances),
                0,
                PublishOutcome.NONE,
                request.known() == 0 ? null : List.of());
    }

    /** Lets this process know how many instances of a limiter a store has. */
    public static void count(LimitStore store, String limiter) {
        Fleet.Member member = Fleet.of(store).joinLimiter(new Object(), limiter, values -> {});
        member.beat().block();
        member.leave().block();
    }

    /** Registers a process with one limiter, and returns the number of its instances; null if there is none. */
    public static @Nullable Integer register(LimitStore store, String limiter, UUID instance, Duration lifetime) {
        List<Integer> numbers = Objects.requireNonNull(
                        store.exchange(new FleetExchange(instance, lifetime, List.of(limiter), 0, List.of(), null))
                                .block())
                .instances();
        return numbers.isEmpty() || numbers.get(0) == 0 ? null : numbers.get(0);
    }
}
