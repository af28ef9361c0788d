package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.http.RuleListener.Outcome;
import io.github.spillgate.http.RuleTracer.Span;
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
import reactor.core.publisher.Operators;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * The receivers of the events of a decision: listeners, the log of misconfigurations, and the spans of that decision.
 * An exception of a receiver is dropped; it affects neither the request nor another receiver.
 */
final class DecisionEvents {

    private static final Logger LOG = Loggers.getLogger(DecisionEvents.class);
    private static final LoggedCauses RULES_WITH_LOST_PERMITS = new LoggedCauses(System::nanoTime);

    private final RuleInstrumentation instrumentation;
    private final @Nullable MisconfigurationLog warnings;
    private final List<Span> spans;

    DecisionEvents(RuleInstrumentation instrumentation, List<Span> spans) {
        this.instrumentation = instrumentation;
        this.warnings = instrumentation.warnings;
        this.spans = spans;
    }

    /** Looks for a misconfiguration in the request. Called before the decision, on the thread of the request. */
    void inspect(Request request) {
        if (warnings != null) {
            run(() -> warnings.inspect(request));
        }
    }

    /** Starts the spans of one decision, and returns the receivers of its events. */
    DecisionEvents start(List<RuleMatch> matches, ContextView context) {
        List<Span> started = List.of();
        for (RuleTracer tracer : instrumentation.tracers) {
            Span span = call(() -> tracer.start(matches, context));
            if (span != null) {
                started = started.isEmpty() ? new ArrayList<>(instrumentation.tracers.size()) : started;
                started.add(span);
            }
        }
        return started.isEmpty() ? this : new DecisionEvents(instrumentation, started);
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
    void decided(ResolvedRule resolved, Decision decision, long tookNanos) {
        if (instrumentation.listeners.isEmpty() && spans.isEmpty()) {
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
    void lookupsFailed(ResolvedRule resolved) {
        for (RuleLookupException why : resolved.failures()) {
            if (warnings != null) {
                run(() -> warnings.lookupFailed(resolved.rule(), why));
            }
            forEach(listener -> listener.lookupFailed(resolved.match(), why));
        }
    }

    /** Reports that a response has lost the permits that these rules hold. The spans have ended before. */
    void expired(List<ResolvedRule> charged, HoldExpiredException why) {
        for (ResolvedRule resolved : charged) {
            if (resolved.isHold()) {
                logExpired(resolved.rule(), why);
                for (RuleListener listener : instrumentation.listeners) {
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
        for (RuleListener listener : instrumentation.listeners) {
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
            Operators.onErrorDropped(e, Context.empty());
            return null;
        }
    }
}
