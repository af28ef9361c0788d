/** What one instance knows of each count while the store may be down, and what it has granted itself. */
@NullMarked
package io.github.spillgate.failover.ledger;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
// Invariant: a permit that was granted and still counts is in at least one number of its ledger, so the sum of the
// numbers and a new request must be at most the limit.
//
//   One count      Ledger: resets, calls without a reply, the hand-over. RateLedger: the numbers, and which of them a
//                  reply, a refund or a loss changes. HoldLedger: holds, by their ids
//   Its numbers    Snapshot: what the store has replied. OwnPermits (of a bucket, BucketTraffic): of it, for this
//                  instance. BucketGrants, QuotaGrants or a count of the package count: what was granted here.
//                  PendingGrants: what was handed over
//   The share      OutageShare: the part of a limit that is for this instance. internal.fleet counts the instances
//   What leaves    A Reconciliation is the message, PendingGrants what counts until its reply, HandOver its delivery.
//                  DeliverySource and Delivery: what an outbox delivers. HandOvers: the sums of all ledgers

import org.jspecify.annotations.NullMarked;
