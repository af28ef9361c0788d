/**
 * Rate limiting for Spring WebFlux: a web filter, a filter of functional routes, an annotation for controllers, and
 * a filter of requests to other services. They do not need Spring Boot.
 */
@NullMarked
package io.github.spillgate.webflux;

// Design notes: where to read.
//
//   Filters      RateLimitWebFilter before the handlers, RateLimitHandlerFilter for functional routes; LimitedExchange
//                has the verdicts of all on one exchange
//   Annotation   RateLimited: RateLimitedReader makes rules of it, RateLimitedHandlerAdapter applies them
//   Gateway      GatewayRateLimiter, by the GatewayPlan of a route
//   Requests     ExchangeRequest, with its peer: NettyConnection, ServletConnection. PathPatterns for rules
//   Responses    RateLimitResponses, DenialWriter; RateLimitedExceptionHandler if no handler catches a denial
//   Outgoing     OutgoingLimit, a filter of the WebClient
//   Threads      ExchangeThread, where an exchange continues; ResponseEnd, when its permits are released

import org.jspecify.annotations.NullMarked;
