/** Limits that are published for all instances of a service: {@link io.github.spillgate.fleet.Publication}. */
@NullMarked
package io.github.spillgate.fleet;

// Design notes: where to read.
//
//   A value   Publication; PublicationConflictException if another one was published before. RateLimiter and Rules
//             publish and apply them; how they reach other instances is in internal.fleet

import org.jspecify.annotations.NullMarked;
