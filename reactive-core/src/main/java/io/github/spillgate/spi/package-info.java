/**
 * For authors of stores: {@link io.github.spillgate.spi.LimitStore}, the {@linkplain
 * io.github.spillgate.spi.StoreRequest requests} and {@linkplain io.github.spillgate.spi.Claim claims} that it decides
 * on, the {@linkplain io.github.spillgate.spi.StoreDecision decisions} that it returns, with the {@linkplain
 * io.github.spillgate.spi.StoreUsage usage} of each claim, and the {@linkplain io.github.spillgate.spi.Correction
 * corrections} that it applies. Applications do not need this package.
 */
@NullMarked
package io.github.spillgate.spi;

// Design notes: where to read.
//
//   A store        LimitStore, and ForwardingLimitStore for decorators; RemoteSubscription if it has a server
//   A decision     a StoreRequest has a Claim for each limit; a StoreDecision has the Reply of the store, and a
//                  StoreUsage for each claim
//   Corrections    Correction: Refund, RefundOldest, RefundCharged, Settlement, Reconciliation with LostPermits; then
//                  Corrected
//   Holds          HoldAction, HoldRenewal
//   Processes      FleetExchange: which processes share the counts, and what is published for them

import org.jspecify.annotations.NullMarked;
