package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.http.RuleListener.Outcome;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.RuleTracer;
import io.github.spillgate.internal.Checks;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * Observations of the decisions of rules: a trace shows how long the limiter took for a request, and the outcome. There
 * is one {@code spillgate.decision} for all rules that decide together, and one for each shadow rule.
 *
 * <table> <caption>Keys</caption>
 * <tr><th>key</th><th>value</th></tr>
 * <tr><td>{@code rules}</td><td>the names of the rules, separated by commas</td></tr>
 * <tr><td>{@code outcome}</td><td>{@code allowed}; {@code denied}; {@code refused}, if the request has no key, or
 * several; {@code undecided}; {@code cancelled}; or {@code none}, if there was nothing to charge</td></tr>
 * <tr><td>{@code source}</td><td>the source of the decision, such as {@code redis}; or {@code none}</td></tr>
 * <tr><td>{@code shadow}</td><td>whether the rule is a shadow rule</td></tr>
 * <tr><td>{@code denied.by}, in traces only</td><td>the rules that have denied the request; or {@code none}</td></tr>
 * </table>
 *
 * The parent is the observation in the Reactor Context, where WebFlux puts the one of the request, or else the current
 * observation of the thread. Calls during the decision, such as a lookup of limits, see this observation in their
 * Reactor Context.
 *
 * <p>An observation contains nothing that a client has sent, in particular no key. If no decision could be made, it has
 * an error with the names of the rules and the class of the exception. The exception's message is left out, because a
 * message of the caller's code may contain client data.
 */
public final class RuleObservations implements RuleTracer {

    /** Micrometer's key in a Reactor Context. The class with that constant needs a library that is often missing. */
    private static final String CURRENT = "micrometer.observation";

    private static final DecisionObservationConvention STANDARD = new DecisionObservationConvention() {};

    private final ObservationRegistry registry;
    private final @Nullable DecisionObservationConvention convention;

    private RuleObservations(ObservationRegistry registry, @Nullable DecisionObservationConvention convention) {
        this.registry = registry;
        this.convention = convention;
    }

    /**
     * Returns a tracer that reports to a registry.
     *
     * @param registry the registry
     * @return the tracer
     */
    public static RuleObservations of(ObservationRegistry registry) {
        return new RuleObservations(Checks.present(registry, "registry", "ObservationRegistry.create()"), null);
    }

    /**
     * Returns a tracer that reports to the same registry under other names.
     *
     * @param names the names of the observation and its keys
     * @return the tracer
     */
    public RuleObservations convention(DecisionObservationConvention names) {
        return new RuleObservations(
                registry, Checks.present(names, "convention", "new DecisionObservationConvention() {}"));
    }

    @Override
    public @Nullable Span start(List<RuleMatch> matches, ContextView context) {
        if (registry.isNoop()) {
            return null;
        }
        DecisionObservationContext observed = new DecisionObservationContext(List.copyOf(matches));
        if (context.getOrDefault(CURRENT, null) instanceof Observation parent) {
            observed.setParentObservation(parent);
        }
        Observation observation = Observation.createNotStarted(convention, STANDARD, () -> observed, registry);
        // Without an observation, calls during the decision keep their parent.
        return observation.isNoop() ? null : new ObservedDecision(observation.start(), observed);
    }

    /**
     * The span of one decision. Its observation is never current on a thread, because a decision changes threads.
     *
     * @param observation the started observation
     * @param observed the context of the observation
     */
    private record ObservedDecision(Observation observation, DecisionObservationContext observed) implements Span {

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            observed.decided(match, outcome, decision);
        }

        @Override
        public void refused(RuleMatch match) {
            observed.refused(match);
        }

        @Override
        public void undecided(RuleMatch match, Throwable why) {
            observed.undecided(match, why);
        }

        @Override
        public Context context(Context context) {
            return context.put(CURRENT, observation);
        }

        @Override
        public void ended() {
            UndecidedException error = observed.error();
            if (error != null) {
                observation.error(error);
            }
            observation.stop();
        }

        @Override
        public void cancelled() {
            observed.cancelled();
            observation.stop();
        }
    }
}
