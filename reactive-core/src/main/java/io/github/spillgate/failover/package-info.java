/** Everything that wraps a store: deadline, circuit breaker, fallback, cached denials, and reconciliation. */
@NullMarked
package io.github.spillgate.failover;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       ResilientStore makes a StoreCall for it, which reads from top to bottom: ask, receive, fall back,
//                    serve. StoreOperation is what it asks of both stores, Failover what all calls share
//   Without a trip   the package lease: leases, and cached denials
//   To the store     CircuitGates and CircuitGate: the breaker, and how many are in flight; Deadlines. CallJudge: how a
//                    call went, for the breaker. Availability: the health. OutageLog: its log lines
//   The fallback     Fallback; LocalFallback: a table of ledgers, of the package ledger
//   If both decide   GrantPair matches the two results. LocalGrants: what becomes of the permits
//   Outbox           what must reach the store later: GrantOutbox for grants, Releases, SettlementOutbox. A grant goes
//                    from its Ledger through HandOvers.store() to the GrantOutbox, which asks Ledger.take() for a
//                    HandOver. Its reply goes to Ledger.ended(), and later refunds to RateLedger.refundGrant()
//   Errors           LimitStoreException.Kind: what they mean, for the breaker and for what is delivered
//   Other changes    CountChanges: refund, settle, release, renew, reset
//
// This package uses the packages ledger and lease, and they do not use it. What a change touches is in architecture.md,
// under "Where to change what".

import org.jspecify.annotations.NullMarked;
