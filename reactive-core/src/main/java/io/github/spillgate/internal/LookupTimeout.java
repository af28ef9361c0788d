package io.github.spillgate.internal;

import java.time.Duration;
import java.util.function.Consumer;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The timeout of a lookup, which runs a function of the user. */
public final class LookupTimeout {

    /** The context key of Reactor's hook for dropped errors. Reactor's own constant is not public. */
    private static final String ON_ERROR_DROPPED = "reactor.onErrorDropped.local";

    private static final Duration LONGEST = Duration.ofDays(366); // a timer counts in nanoseconds

    private LookupTimeout() {}

    /**
     * Cancels a lookup after its timeout, and emits another result instead. If the lookup fails after that, the error
     * is ignored: Reactor would log it with a stack trace.
     *
     * @param lookup the lookup
     * @param timeout the timeout; zero or less is immediate
     * @param late the other result
     * @param <T> the type of the result
     * @return the result, emitted on the thread of the lookup or on {@code Schedulers.parallel()}
     */
    public static <T> Mono<T> apply(Mono<T> lookup, Duration timeout, Mono<T> late) {
        Consumer<Throwable> ignore = LookupTimeout::ignore;
        Duration held = timeout.isNegative() ? Duration.ZERO : timeout.compareTo(LONGEST) > 0 ? LONGEST : timeout;
        return lookup.contextWrite(context -> context.put(ON_ERROR_DROPPED, ignore))
                .timeout(held, late, Schedulers.parallel());
    }

    private static void ignore(Throwable late) {
        // The timeout has been reported.
    }
}
