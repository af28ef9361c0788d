/** What becomes of the permits of a decision: held while work runs, released, refunded or settled. */
@NullMarked
package io.github.spillgate.internal.holding;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   WhileHolding        work that runs while it holds permits
//   Holds               one for each limiter: renews what running work holds, and ends what could not be renewed
//   HoldIds, HeldClaim  the id under which permits are held, and what a claim notes about it
//   Redemption          the permits of a decision that a refund or a settlement gets: once
//   Settlements         the real cost, for the store
//   Bans                bans and pauses by a call, for the store

import org.jspecify.annotations.NullMarked;
