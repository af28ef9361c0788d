/** The store in Redis: its scripts decide on Redis's clock, over connections of its own. */
@NullMarked
package io.github.spillgate.redis;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision       RedisStore makes a PendingDecision of the package lane, and a Server queues it there.
//                    MultiSlotDecider if its counts are in several hash slots
//   Other commands   SlotRouter sends them to the owner of a slot: RefundCommands, HoldCommands, ReconcileCommands,
//                    ResetCommand; of other processes, FleetMessages
//   The scripts      Script has the text, ScriptRunner calls it by its digest
//   Servers          Topology: a single Server, or a Cluster, with TopologyRefresh. Role and EvictionPolicy: what a
//                    server is asked first
//   Settings         RedisUris, NettyVersion
//
// This package uses the package lane, which does not use it.

import org.jspecify.annotations.NullMarked;
