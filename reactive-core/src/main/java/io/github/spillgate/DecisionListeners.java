package io.github.spillgate;

import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/** The listeners of one limiter. Their exceptions are logged, and do not affect decisions. Thread-safe. */
final class DecisionListeners {

    private static final Logger LOG = Loggers.getLogger(DecisionListeners.class);
    private static final int LONGEST = 200;

    private final String limiter;
    private final List<DecisionListener> listeners;

    private final LoggedCauses loggedCauses = new LoggedCauses(Time::nanos);

    private DecisionListeners(String limiter, List<DecisionListener> listeners) {
        this.limiter = limiter;
        this.listeners = listeners;
    }

    /** Returns the listeners; null if there are none, so that decisions without listeners cost nothing more. */
    static @Nullable DecisionListeners of(String limiter, List<DecisionListener> listeners) {
        return listeners.isEmpty() ? null : new DecisionListeners(limiter, List.copyOf(listeners));
    }

    /** Returns a Mono that reports the decision just before it emits it, unless the subscriber has cancelled. */
    Mono<Decision> reporting(Mono<Decision> decision) {
        return Mono.defer(() -> {
            long since = Time.nanos();
            AtomicBoolean isCancelled = new AtomicBoolean();
            return decision.doOnNext(made -> {
                        if (!isCancelled.get()) {
                            report(made, since);
                        }
                    })
                    .doOnCancel(() -> isCancelled.set(true));
        });
    }

    /** Reports a decision that is emitted now. */
    void report(Decision decision, long since) {
        Duration took = Duration.ofNanos(Math.max(0, Time.nanos() - since));
        for (DecisionListener listener : listeners) {
            try {
                listener.decided(limiter, decision, took);
            } catch (Throwable e) {
                // Errors too, such as a missing class: whatever a listener does, the decision is emitted.
                log(e);
            }
        }
    }

    private void log(Throwable e) {
        if (loggedCauses.add("", e)) {
            LOG.warn(
                    "A listener of limiter {} failed; decisions are not affected: {}",
                    limiter,
                    Text.quote(e.toString(), LONGEST));
        }
    }
}
