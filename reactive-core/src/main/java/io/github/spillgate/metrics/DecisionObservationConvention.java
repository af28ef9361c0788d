package io.github.spillgate.metrics;

import io.github.spillgate.http.Rule;
import io.micrometer.common.KeyValues;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationConvention;
import java.util.List;
import java.util.Locale;

/**
 * The names of the observation of a decision and of its keys; {@link RuleObservations} lists the defaults. If you
 * override a method, mind two things: values of low cardinality become tags of meters, and data that a client has sent
 * belongs in neither kind of value.
 */
public interface DecisionObservationConvention extends ObservationConvention<DecisionObservationContext> {

    @Override
    default String getName() {
        return "spillgate.decision";
    }

    @Override
    default KeyValues getLowCardinalityKeyValues(DecisionObservationContext context) {
        return KeyValues.of(
                "rules", DecisionObservationContext.names(context.rules()),
                "outcome", context.outcome().name().toLowerCase(Locale.ROOT),
                "source",
                        context.decision()
                                .map(decision -> decision.source().name().toLowerCase(Locale.ROOT))
                                .orElse("none"),
                "shadow", Boolean.toString(context.isShadow()));
    }

    @Override
    default KeyValues getHighCardinalityKeyValues(DecisionObservationContext context) {
        List<Rule> denied = context.deniedBy();
        return KeyValues.of("denied.by", denied.isEmpty() ? "none" : DecisionObservationContext.names(denied));
    }

    @Override
    default boolean supportsContext(Observation.Context context) {
        return context instanceof DecisionObservationContext;
    }
}
