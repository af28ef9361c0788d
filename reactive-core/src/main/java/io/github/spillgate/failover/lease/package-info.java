/** What decides without a trip to the store: permits charged in advance, and denials that still hold. */
@NullMarked
package io.github.spillgate.failover.lease;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
// Invariant: leased permits are spent only before their lease ends, and until a window after that they count in the
// store. So in no window is more than the limit granted.
//
//   Leases         finds the lease of a key, spends, leases, ends and refunds; with the proof
//   LeasedKey      how much a key needs, and which lease it has
//   Lease          the permits of one lease, and until when they may be spent
//   DenialCache    the denials that still hold; with the proof

import org.jspecify.annotations.NullMarked;
