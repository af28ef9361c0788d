/** Everything that wraps a store: deadline, circuit breaker, fallback, cached denials, and reconciliation. */
@NullMarked
package io.github.spillgate.failover;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       ResilientStore makes a StoreCall for it, which reads from top to bottom: ask, receive, fall back,
//                    serve. StoreOperation is what it asks of both stores, Failover what all calls share
//   Without a trip   Leases (Lease, LeasedKey), DenialCache
//   To the store     CircuitGates and CircuitGate: the breaker, and how many are in flight; Deadlines. CallJudge: how a
//                    call went, for the breaker; FailureKind. Availability: the health. OutageLog: its log lines
//   The fallback     Fallback, LocalFallback; OutageShare and Instances: the part of a limit that is for this instance
//   One count in it  Ledger. HoldLedger for holds. RateLedger for permits: Snapshot is what the store has replied
//                    (OwnPermits, BucketTraffic: of it, for this instance), BucketGrants what was granted here,
//                    PendingGrants what was handed over
//   If both decide   GrantPair matches the two results
//   Outbox           What must reach the store later, as a Delivery: HandOver for grants (LocalGrants, HandOvers,
//                    GrantOutbox), Releases, SettlementOutbox
//   Other changes    CountChanges: refund, settle, release, renew, reset
//   Few log lines    SummaryLog

import org.jspecify.annotations.NullMarked;
