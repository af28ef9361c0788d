/** Connections to Redis, and what is sent on them: batches of decisions, in the form of the scripts. */
@NullMarked
package io.github.spillgate.redis.lane;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       a PendingDecision waits in a BatchQueue, which sends it in a Batch, as one call of a script;
//                    BatchBounds. WaitingDecisions until there is a connection. AnswerDelivery: on which thread it
//                    is emitted
//   Connections      Lane opens an OpenConnection and replaces it; LoopLanes and LoopClient do so on the event loops
//                    of the application. Handshake: the first commands; CommandSender: all others
//   The scripts      ScriptRequest encodes the argument, ScriptReply decodes the reply; CountKeys; StoreClock
//                    translates deadlines to the server's clock
//   Errors           Errors translates those of Lettuce and Redis; Redirect, ConnectionLostException; BlockedLoopLog

import org.jspecify.annotations.NullMarked;
