/** The rules of each kind of limit: what fits, what is taken, what a refund returns. The scripts do the same. */
@NullMarked
package io.github.spillgate.count;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   All kinds    Count: one step, at a time; LimitKind is the table of kinds
//   Rate limits  RateCount; LogCount, CounterCount, BucketCount, QuotaCount. The arithmetic of the last three is in
//                CounterState, BucketState and QuotaState, which also make usages of replies of Redis
//   Holders      HoldCount, for concurrency limits
//   Bans         BanCount, a RateCount without permits
//   Values       Count.read and write: the same bytes as in Redis, for stores that compare and write; CountValue.
//                RateCount.charge and restore, as reconcile.lua does; RestoredMark
//
// A table of counts in this process is CountTable in local. The ledgers of failover are counts, too.

import org.jspecify.annotations.NullMarked;
