/** Everything that wraps a store: deadline, circuit breaker, fallback, cached denials, and reconciliation. */
@NullMarked
package io.github.spillgate.failover;

import org.jspecify.annotations.NullMarked;
