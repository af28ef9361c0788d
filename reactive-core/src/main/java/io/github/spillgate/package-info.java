/**
 * The API of Spillgate: {@link io.github.spillgate.Limit}, {@link io.github.spillgate.Charge},
 * {@link io.github.spillgate.Decision} and {@link io.github.spillgate.RateLimiter}.
 *
 * <p>All other packages may depend on this one and on {@link io.github.spillgate.spi}, which is for authors of stores.
 * Both depend on no store and no framework; only the limiter builds a {@link
 * io.github.spillgate.failover.ResilientStore}.
 */
@NullMarked
package io.github.spillgate;

// Design notes: where to read.
//
//   A limiter      RateLimiterBuilder makes a RateLimiter; an AsyncCloseable is what can be closed
//   A request      a Charge has a key and the permits it takes; a Limit says how many there are, LimitText how it is
//                  written, and a LimitLookup, which may fail with a LimitLookupException, finds those of a key
//   The reply      a Decision, which has a Source; DecisionListener and DecisionListeners receive it
//   Claims         Claims makes a CountClaim, which has a CountName, for each limit of a charge
//   Errors         LimitStoreException; RateLimitedException, if a denial is to be an error; HoldExpiredException
//   Health         StoreState

import org.jspecify.annotations.NullMarked;
