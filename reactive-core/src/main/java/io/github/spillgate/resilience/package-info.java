/** Decisions that end in time whatever breaks: a deadline, a circuit breaker, a fallback, and settling afterwards. */
@NullMarked
package io.github.spillgate.resilience;

import org.jspecify.annotations.NullMarked;
