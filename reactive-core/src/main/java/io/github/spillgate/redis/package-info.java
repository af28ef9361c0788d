/** The store in Redis: its scripts decide on Redis's clock, over connections of its own. */
@NullMarked
package io.github.spillgate.redis;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       RedisStore makes a PendingDecision; a BatchQueue sends it in a Batch, as one call of a script.
//                    MultiSlotDecider if its counts are in several hash slots; BatchBounds
//   Other commands   SlotRouter sends them to the owner of a slot: RefundCommands, HoldCommands, ReconcileCommands,
//                    ResetCommand
//   The scripts      Script has the text, ScriptRunner calls it by its digest; ScriptRequest encodes the argument,
//                    ScriptReply decodes the reply; CountKeys; RedisClock translates deadlines to the server's clock
//   Servers          Topology: a single Server, or a Cluster, with Redirect and TopologyRefresh
//   Connections      Lane opens an OpenConnection and replaces it; LoopLanes and LoopClient do so on the event loops
//                    of the application. Handshake, Role and EvictionPolicy: the first commands; CommandSender;
//                    WaitingDecisions until there is a connection
//   Settings         RedisUris, NettyVersion
//   Errors           Errors translates those of Lettuce and Redis; ConnectionLostException

import org.jspecify.annotations.NullMarked;
