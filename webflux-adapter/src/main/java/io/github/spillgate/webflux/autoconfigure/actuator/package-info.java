/**
 * What Spring Boot reports of a limiter: the Actuator's endpoint and health, metrics, and observations. Each part needs
 * a library that is optional, and gives way to a bean of the application.
 */
@NullMarked
package io.github.spillgate.webflux.autoconfigure.actuator;

// Design notes: where to read.
//
//   Endpoint       SpillgateEndpointAutoConfiguration, SpillgateEndpoint: rules in force, usage of a key, reset,
//                  published limits
//   Health         SpillgateHealthAutoConfiguration, LimiterHealth. Requests to the Actuator's health endpoint are
//                  exempt from rules by HealthRequests, in the package above
//   Metrics        SpillgateMetricsAutoConfiguration
//   Observations   SpillgateObservationsAutoConfiguration

import org.jspecify.annotations.NullMarked;
