/** Callers that wait for permits: the queues of {@code acquire}, and streams that {@code throttle}. */
@NullMarked
package io.github.spillgate.internal.waiting;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   WaitQueues          one for each limiter: finds the queue of a waiter's counts, and asks the store for it
//   WaitQueue           which waiter is served next, how many attempts are in flight, and when the next one starts
//   Waiter, WaiterList  a caller, and those of one queue in their order
//   HeadDenial          what the last denial of the first waiter means for the others
//   Throttle            a stream whose elements wait
//   LimiterDecisions    decisions without the store: of a waiter that would wait too long, or of a cost above its limit
//   NearMarks           not only for callers that wait: which decisions report that a key is near a limit

import org.jspecify.annotations.NullMarked;
