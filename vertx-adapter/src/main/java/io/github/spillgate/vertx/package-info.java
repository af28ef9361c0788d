/**
 * Rate limiting for Vert.x: a handler for Vert.x Web, requests to other services with futures, and a limiter with
 * futures for everything else.
 */
@NullMarked
package io.github.spillgate.vertx;

// Design notes: where to read.
//
//   Start       RateLimiting creates a limiter and its rules from RateLimitOptions and RuleOptions; Settings reads JSON
//   Requests    RateLimitHandler; LimitedRequest has the verdicts of all handlers on one request, RoutingRequest is
//               what rules see of it; RoutePaths
//   Denials     DenialWriter, DeniedException
//   Futures     FutureRateLimiter, FutureSources; FutureRequests to other services; ContextDelivery to the caller's
//               context
//   Operators   RateLimitHealth; PublishedLimitsHandler

import org.jspecify.annotations.NullMarked;
