/**
 * The auto-configuration for Spring Boot, which creates a limiter from settings. Each bean gives way to one that the
 * application defines.
 */
@NullMarked
package io.github.spillgate.webflux.autoconfigure;

// Design notes: where to read.
//
//   Beans        SpillgateAutoConfiguration; StoreConfiguration for the store; NamedLimiterBeans for other limiters;
//                SpillgateGatewayAutoConfiguration for Spring Cloud Gateway, SpillgateOutgoingAutoConfiguration for the
//                WebClient. LimiterName, LimiterLifecycle, EnabledProperty, ForwardHeadersStrategy, NamedBeans
//   Settings     SpillgateProperties. SettingsCheck finds those that are misspelt, by SettingNames;
//                WrongSettingAnalyzer explains them
//   At start     StartCheck warns, and logs what is in force
//   Health       HealthRequests are exempt from rules; HealthPathsConfiguration finds their paths
//   Tests        AutoConfigureSpillgate, for slices
//   Native       SpillgateRuntimeHints
//
// What Spring Boot reports is in actuator.

import org.jspecify.annotations.NullMarked;
