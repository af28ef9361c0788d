package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.http.RuleListener.Outcome;
import io.github.spillgate.http.RuleTracer.Span;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Dropped;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.Text;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * The instrumentation of rules: listeners, tracers, and warnings in the log.
 *
 * <pre>{@code
 * RuleInstrumentation.none()
 *         .listener(RuleMetrics.of(meters))
 *         .tracer(RuleObservations.of(observations))
 * }</pre>
 *
 * <p>Immutable.
 */
public final class RuleInstrumentation {
    // Design notes.
    //
    // An exception of a listener or a tracer is dropped; it affects neither the request nor another receiver.

    private static final Logger LOG = Loggers.getLogger(RuleInstrumentation.class);
    private static final LoggedCauses RULES_WITH_LOST_PERMITS = new LoggedCauses(System::nanoTime);
    private static final RuleInstrumentation NONE = new RuleInstrumentation(List.of(), List.of(), null, List.of());

    private final List<RuleListener> listeners;
    private final List<RuleTracer> tracers;
    private final @Nullable MisconfigurationLog warnings;

    /** The spans of a decision; empty before it. */
    private final List<Span> spans;

    private RuleInstrumentation(
            List<RuleListener> listeners,
            List<RuleTracer> tracers,
            @Nullable MisconfigurationLog warnings,
            List<Span> spans) {
        this.listeners = listeners;
        this.tracers = tracers;
        this.warnings = warnings;
        this.spans = spans;
    }

    /**
     * Returns an instrumentation without listeners, tracers and warnings.
     *
     * @return the instrumentation
     */
    public static RuleInstrumentation none() {
        return NONE;
    }

    /**
     * Returns a copy with one more listener. Listeners are called in the order in which they were added.
     *
     * @param listener the listener
     * @return the instrumentation
     */
    public RuleInstrumentation listener(RuleListener listener) {
        Checks.present(listener, "listener", "RuleMetrics.of(registry)");
        return new RuleInstrumentation(with(listeners, listener), tracers, warnings, spans);
    }

    /**
     * Returns a copy with one more tracer.
     *
     * @param tracer the tracer
     * @return the instrumentation
     */
    public RuleInstrumentation tracer(RuleTracer tracer) {
        Checks.present(tracer, "tracer", "RuleObservations.of(registry)");
        return new RuleInstrumentation(listeners, with(tracers, tracer), warnings, spans);
    }

    /**
     * Returns a copy that logs possible misconfigurations, each once: a request has {@code X-Forwarded-For} although no
     * proxy is trusted, a lookup fails, or no decision is possible. Adapters that are configured by settings do this by
     * default.
     *
     * @param client the source of addresses, with the proxies that are trusted
     * @param remedy the setting that fixes it, for example {@code client-address.header}
     * @return the instrumentation
     */
    public RuleInstrumentation warnings(ClientAddress client, String remedy) {
        Checks.present(client, "client", "ClientAddress.ofPeer()");
        Checks.present(remedy, "remedy", "client-address.header");
        return new RuleInstrumentation(listeners, tracers, new MisconfigurationLog(client, remedy), spans);
    }

    private static <T> List<T> with(List<T> some, T another) {
        List<T> all = new ArrayList<>(some);
        all.add(another);
        return List.copyOf(all);
    }

    // The events of a decision.

    /** Looks for a misconfiguration in the request. Called before the decision, on the thread of the request. */
    void inspect(Request request) {
        if (warnings != null) {
            run(() -> warnings.inspect(request));
        }
    }

    /** Starts the spans of one decision, and returns the instrumentation of it. */
    RuleInstrumentation start(List<RuleMatch> matches, ContextView context) {
        List<Span> started = List.of();
        for (RuleTracer tracer : tracers) {
            Span span = call(() -> tracer.start(matches, context));
            if (span != null) {
                started = started.isEmpty() ? new ArrayList<>(tracers.size()) : started;
                started.add(span);
            }
        }
        return started.isEmpty() ? this : new RuleInstrumentation(listeners, tracers, warnings, started);
    }

    /** Runs the decision within its spans, which end before the request goes on. */
    <T> Mono<T> traced(Supplier<Mono<T>> decision) {
        if (spans.isEmpty()) {
            return decision.get();
        }
        AtomicBoolean isOver = new AtomicBoolean();
        return Mono.defer(decision)
                .doOnTerminate(() -> endOnce(isOver, Span::ended))
                .doOnCancel(() -> endOnce(isOver, Span::cancelled))
                .contextWrite(this::withSpans);
    }

    private void endOnce(AtomicBoolean isOver, Consumer<Span> end) {
        if (isOver.compareAndSet(false, true)) {
            spans.forEach(span -> run(() -> end.accept(span)));
        }
    }

    private Context withSpans(Context context) {
        Context current = context;
        for (Span span : spans) {
            Context outer = current;
            current = Objects.requireNonNullElse(call(() -> span.context(outer)), outer);
        }
        return current;
    }

    /** Reports a decision for one of the rules that it was made for. */
    void decided(ResolvedCharge resolved, Decision decision, long tookNanos) {
        if (listeners.isEmpty() && spans.isEmpty()) {
            return;
        }
        Outcome outcome = resolved.outcome(decision);
        Duration took = Duration.ofNanos(Math.max(0, tookNanos));
        forEach(listener -> listener.decided(resolved.match(), outcome, decision, took));
    }

    void refused(RuleMatch match) {
        forEach(listener -> listener.refused(match));
    }

    void undecided(RuleMatch match, Throwable why) {
        if (warnings != null) {
            run(() -> warnings.undecided(match.rule(), why));
        }
        forEach(listener -> listener.undecided(match, why));
    }

    /** Reports the lookups of a rule that have failed. */
    void lookupsFailed(ResolvedCharge resolved) {
        for (RuleLookupException why : resolved.failures()) {
            if (warnings != null) {
                run(() -> warnings.lookupFailed(resolved.rule(), why));
            }
            forEach(listener -> listener.lookupFailed(resolved.match(), why));
        }
    }

    /** Reports that a response has lost the permits that these rules hold. The spans have ended before. */
    void expired(List<ResolvedCharge> charged, HoldExpiredException why) {
        for (ResolvedCharge resolved : charged) {
            if (resolved.isHold()) {
                logExpired(resolved.rule(), why);
                for (RuleListener listener : listeners) {
                    run(() -> listener.expired(resolved.match(), why));
                }
            }
        }
    }

    /** Logs at most once a minute for each rule. */
    private static void logExpired(Rule rule, HoldExpiredException why) {
        if (RULES_WITH_LOST_PERMITS.add(rule.name())) {
            LOG.warn(
                    "rule {}: {}; the response goes on, so more requests than the limit may be running",
                    rule.name(),
                    Text.quote(String.valueOf(why.getMessage())));
        }
    }

    private void forEach(Consumer<RuleListener> event) {
        for (RuleListener listener : listeners) {
            run(() -> event.accept(listener));
        }
        for (Span span : spans) {
            run(() -> event.accept(span));
        }
    }

    private static void run(Runnable receiver) {
        call(() -> {
            receiver.run();
            return null;
        });
    }

    private static <T> @Nullable T call(Supplier<T> receiver) {
        try {
            return receiver.get();
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            Dropped.report(e);
            return null;
        }
    }
}
