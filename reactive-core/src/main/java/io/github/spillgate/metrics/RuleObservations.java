package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.RuleListener;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * What rules decide, as observations, so that a trace shows for how long a request was with the limiter and what came of it: one
 * {@code spillgate.decision} for all rules that are asked together, and one for each shadow rule.
 *
 * <table>
 * <caption>Keys</caption>
 * <tr><th>key</th><th>what it tells</th></tr>
 * <tr><td>{@code rules}</td><td>the names of the rules, with commas between them</td></tr>
 * <tr><td>{@code outcome}</td><td>{@code allowed}, {@code denied}; {@code refused} for want of a key; {@code undecided};
 * {@code cancelled}; or {@code none}, where nothing was to be charged</td></tr>
 * <tr><td>{@code source}</td><td>where it was decided, as {@code redis}; or {@code none}</td></tr>
 * <tr><td>{@code shadow}</td><td>whether the rule is tried out only</td></tr>
 * <tr><td>{@code denied.by}, in traces alone</td><td>those of the rules that have denied; or {@code none}</td></tr>
 * </table>
 *
 * Its parent is the observation in the Reactor context, where WebFlux puts that of the request; where there is none, the one that is
 * current on the thread. What is asked on the way, such as a function that finds the limits of a key, sees this one there.
 *
 * <p>Nothing that a client has sent is in it, no key above all. What could not be decided has an error, which names the rules and the
 * class of what went wrong: what a user's function says in a message nobody knows.
 */
public final class RuleObservations implements RuleListener {

    /** Micrometer's name for the observation in a Reactor context. The class that has it needs a library that is often not there. */
    private static final String CURRENT = "micrometer.observation";

    private static final DecisionObservationConvention STANDARD = new DecisionObservationConvention() {};

    private final ObservationRegistry registry;
    private final @Nullable DecisionObservationConvention convention;

    private RuleObservations(ObservationRegistry registry, @Nullable DecisionObservationConvention convention) {
        this.registry = registry;
        this.convention = convention;
    }

    /**
     * What tells a registry.
     *
     * @param registry the registry
     * @return a listener of rules
     */
    public static RuleObservations of(ObservationRegistry registry) {
        return new RuleObservations(Objects.requireNonNull(registry, "registry is null: expected one"), null);
    }

    /**
     * What tells the same registry by other names.
     *
     * @param names how an observation and its keys are called
     * @return a listener of rules
     */
    public RuleObservations convention(DecisionObservationConvention names) {
        return new RuleObservations(registry, Objects.requireNonNull(names, "convention is null: expected one"));
    }

    @Override
    public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
        // Each decision has somebody who watches it.
    }

    @Override
    public @Nullable Watch watch(List<Match> matches, ContextView context) {
        if (registry.isNoop()) {
            return null;
        }
        DecisionObservationContext about = new DecisionObservationContext(List.copyOf(matches));
        if (context.getOrDefault(CURRENT, null) instanceof Observation parent) {
            about.setParentObservation(parent);
        }
        Observation observation = Observation.createNotStarted(convention, STANDARD, () -> about, registry);
        // Who is not to be observed leaves no trace, and what is asked on the way keeps its parent.
        return observation.isNoop() ? null : new Observing(observation.start(), about);
    }

    /**
     * One observation. It is never current on a thread: decisions do not stay on one.
     *
     * @param observation what has been started
     * @param about what is known of it
     */
    private record Observing(Observation observation, DecisionObservationContext about) implements Watch {

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            about.decided(match, outcome, decision);
        }

        @Override
        public void refused(Match match) {
            about.refused(match);
        }

        @Override
        public void undecided(Match match, Throwable why) {
            about.undecided(match, why);
        }

        @Override
        public Context context(Context context) {
            return context.put(CURRENT, observation);
        }

        @Override
        public void ended() {
            UndecidedException error = about.error();
            if (error != null) {
                observation.error(error);
            }
            observation.stop();
        }

        @Override
        public void cancelled() {
            about.cancelled();
            observation.stop();
        }
    }
}
