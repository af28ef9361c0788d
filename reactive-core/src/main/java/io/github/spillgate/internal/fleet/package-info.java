/** The instances of each limiter, and what is published for them. Not for use outside of this library. */
@NullMarked
package io.github.spillgate.internal.fleet;

// Design notes: where to read.
//
//   A process    Fleet has the heartbeat of all limiters on a store, found by Owners. Instances: how many there are of
//                each limiter
//   In a store   PublishedValues: the rules and the bytes of what is published, as in fleet.lua

import org.jspecify.annotations.NullMarked;
