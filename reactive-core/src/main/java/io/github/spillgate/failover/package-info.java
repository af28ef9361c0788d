/** Decisions that end in time whatever breaks: a deadline, a circuit breaker, a fallback, and settling afterwards. */
@NullMarked
package io.github.spillgate.failover;

import org.jspecify.annotations.NullMarked;
