/** Helpers for any package of this library. Not for use outside of this library: they change without notice. */
@NullMarked
package io.github.spillgate.internal;

// Design notes: where to read.
//
//   Arguments      Checks, Names, Bounds
//   Texts          Text quotes what is not trusted, Keys encodes it for a store; LittleEndian for values in a store
//   Time           Time is the clock, StoreClock that of a server; QuotaCalendar has the periods of quotas; Background
//                  has the timers; LookupTimeout
//   Threads        Turns shares a thread among callers
//   Few log lines  LoggedCauses by cause, SummaryLog by number
//   Errors         Dropped, those without a caller; SharedFailure, those that the breaker counts once
//   Reactor        Scalars
//   Permits        PermitUse: each is refunded or settled once

import org.jspecify.annotations.NullMarked;
