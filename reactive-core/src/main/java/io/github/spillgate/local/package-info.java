/** Decisions made in this process, in bounded memory. */
@NullMarked
package io.github.spillgate.local;

// Design notes: where to read. Each class has its own notes under its opening brace.
//
//   A decision     LocalStore makes a LocalDecisionMono, which uses the CountTable. The fallback has a table, too
//   Memory         DeniedCounts: what a flood of new keys cannot evict
//   Lookups        CachedLimits, for users

import org.jspecify.annotations.NullMarked;
