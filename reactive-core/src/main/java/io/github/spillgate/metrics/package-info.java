/** Meters and observations for Micrometer, which is optional: no other package needs it. */
@NullMarked
package io.github.spillgate.metrics;

// Design notes: where to read.
//
//   Meters         RuleMetrics and DecisionMetrics of decisions, LimiterMetrics of a store,
//                  OutgoingMetrics of requests to other services
//   Traces         RuleObservations, with DecisionObservationContext, DecisionObservationConvention for users, and
//                  UndecidedException

import org.jspecify.annotations.NullMarked;
